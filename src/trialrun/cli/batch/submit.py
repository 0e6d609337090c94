"""`trialrun batch submit`: request files become batches at their providers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.app.exits import Exit
from trialrun.cli import batches, options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.tracking import Batch, Ledger
    from trialrun.core.ports import Clock


@click.command("submit", short_help="Make batches of request files at their providers.")
@batches.provider
@batches.inputs("A request file; all that were created and not submitted unless given. May be repeated.")
@click.option("--model", default="", metavar="NAME", help="Whose, where the file does not say (Gemini).")
@click.option("--description", default="", metavar="TEXT", help="For you to recognise the batch by.")
@click.option("--upload", is_flag=True, help="Gemini: send even a few requests as a file.")
@click.option("--budget", metavar="USD", help="Refuse a file that could cost more.")
@click.option("--again", is_flag=True, help="Submit although the same requests were submitted before.")
@click.option(
    "--adopt", default="", metavar="ID", help="The batch that a submission without a reply did make."
)
@batches.tracking
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    provider: str,
    named: tuple[Path, ...],
    files: tuple[Path, ...],
    model: str,
    description: str,
    upload: bool,
    budget: str | None,
    again: bool,
    adopt: str,
    tracking: Path,
) -> Shown:
    """Upload request files and make batches of them. The ids are kept in batch_tracking.json.

    The same requests are not submitted twice. A submission that was cut short goes on where it was: run it again.
    """
    from trialrun.cli.blocks import Block, Line
    from trialrun.compat.batch_files.sending import Order, submit
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.core.errors import TrialrunError
    from trialrun.providers.prices import GenaiPrices

    ledger = Ledger(tracking)
    paths = [*named, *files] or _waiting(ledger)
    if adopt and len(paths) != 1:
        raise click.UsageError("--adopt needs exactly one --input")
    orders = [
        Order(
            path=path,
            service=provider,
            model=model,
            description=description,
            is_upload=upload,
            again=again,
            adopt=adopt,
            budget_usd=batches.amount(budget),
        )
        for path in paths
    ]
    made: list[Batch] = []
    failed: list[tuple[Path, TrialrunError]] = []

    async def all_of_them(routes: "Routes", clock: "Clock") -> None:
        prices = GenaiPrices()
        for order in orders:
            try:
                made.append(await submit(order, ledger=ledger, routes=routes, prices=prices, clock=clock))
            except TrialrunError as error:
                failed.append((order.path, error))

    batches.at_providers(all_of_them)
    if failed and len(orders) == 1:
        raise failed[0][1]
    for path, error in failed:
        screen.complain(f"{path}: {error.report()}")

    def blocks() -> list[Block]:
        if not orders:
            return [Line("every file that was created is submitted")]
        lines: list[Block] = [batches.batch_pairs(batch) for batch in made]
        return lines or [Line("nothing was submitted", "bad")]

    data = {
        "batches": [batches.batch_data(batch) for batch in made],
        "failed": [
            {"input": str(path), "what": error.what, "where": error.where, "fix": error.fix}
            for path, error in failed
        ],
    }
    return Shown(data=data, blocks=blocks, exit=Exit.SOME_FAILED if failed else Exit.DONE)


def _waiting(ledger: "Ledger") -> list[Path]:
    """What was created and never submitted, and what was cut short."""
    book = ledger.read()
    return [Path(file.path) for file in book.files if not file.is_sent(book.batches)]
