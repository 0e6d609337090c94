"""`trialrun batch check`: where batches stand, asked of their providers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.tracking import Batch
    from trialrun.core.ports import Clock


@click.command("check", short_help="Ask the providers where batches stand.")
@batches.provider
@batches.batch_id
@batches.tracking
@options.output
def command(*, provider: str, batch_id: str, tracking: Path) -> Shown:
    """Ask once where a batch stands, or all that are out. The exit code is 0 when all of it ended well."""
    from trialrun.cli.blocks import GAP, Block, Line
    from trialrun.compat.batch_files.fetching import check
    from trialrun.compat.batch_files.tracking import Ledger

    ledger = Ledger(tracking)
    wanted = batches.named_batches(ledger, batch_id, provider)

    async def asked(routes: "Routes", clock: "Clock") -> "list[Batch]":
        return [await check(batch, ledger=ledger, routes=routes, clock=clock) for batch in wanted]

    found = batches.at_providers(asked)

    def blocks() -> list[Block]:
        shown = [block for batch in found for block in (GAP, batches.batch_pairs(batch))][1:]
        return shown or [Line("no batch is out")]

    data = {"batches": [batches.batch_data(batch) for batch in found]}
    return Shown(data=data, blocks=blocks, exit=batches.exit_of_batches(found))
