"""`trialrun batch cancel`: stop a batch; what is done by then is kept."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.tracking import Batch
    from trialrun.core.ports import Clock


@click.command("cancel", short_help="Stop a batch; what is done by then is kept.")
@batches.provider
@batches.one_batch
@batches.tracking
@options.output
def command(*, provider: str, batch_id: str, tracking: Path) -> Shown:
    """Ask the provider to stop a batch. That takes up to ten minutes; `monitor` waits, and brings what was done."""
    from trialrun.cli.blocks import Line
    from trialrun.compat.batch_files.fetching import cancel
    from trialrun.compat.batch_files.tracking import Ledger

    ledger = Ledger(tracking)
    batch = ledger.known(batch_id, provider=provider)

    async def stopped(routes: "Routes", clock: "Clock") -> "Batch":
        return await cancel(batch, ledger=ledger, routes=routes, clock=clock)

    now = batches.at_providers(stopped)
    return Shown(
        data=batches.batch_data(now),
        blocks=lambda: [
            batches.batch_pairs(now),
            Line(f"`trialrun batch monitor --batch-id {now.batch_id}` brings what was done"),
        ],
    )
