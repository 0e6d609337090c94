"""`trialrun batch status`: all batches of the tracking file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.tracking import Batch
    from trialrun.core.ports import Clock


@click.command("status", short_help="All batches of the tracking file.")
@batches.provider
@click.option("--offline", is_flag=True, help="As last seen; ask no provider.")
@batches.tracking
@options.output
@click.pass_obj
def command(screen: Screen, *, provider: str, offline: bool, tracking: Path) -> Shown:
    """List all batches, with those that are out asked anew. The exit code is 0 when all ended and all went well."""
    from trialrun.cli.amounts import usd
    from trialrun.cli.blocks import Block, Column, Line, Table
    from trialrun.compat.batch_files.fetching import check
    from trialrun.compat.batch_files.services import provider_of
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.core.errors import TrialrunError

    ledger = Ledger(tracking)
    problems: list[str] = []

    async def asked(routes: "Routes", clock: "Clock") -> None:
        for batch in batches.named_batches(ledger, "", provider):
            try:
                await check(batch, ledger=ledger, routes=routes, clock=clock)
            except TrialrunError as error:
                problems.append(f"{batch.batch_id}: {error}")

    if not offline and batches.named_batches(ledger, "", provider):
        batches.at_providers(asked)
    for problem in problems:
        screen.note(problem, "bad")
    found = [
        batch
        for batch in ledger.read().batches
        if not provider or provider_of(batch.provider) == provider_of(provider)
    ]

    def row(batch: "Batch") -> tuple[str, ...]:
        return (
            batch.name,
            batch.provider,
            batch.model,
            batch.created,
            batch.status,
            batches.progress(batch),
            "" if batch.spent_usd is None else usd(batch.spent_usd),
            batch.results,
        )

    def blocks() -> list[Block]:
        if not found:
            return [Line(f"no batch is in {tracking}")]
        names = ("batch", "provider", "model", "created", "status", "requests", "USD", "results")
        return [Table([Column(name) for name in names], [row(batch) for batch in found])]

    data = {"batches": [batches.batch_data(batch) for batch in found], "problems": problems}
    return Shown(data=data, blocks=blocks, exit=batches.exit_of_batches(found))
