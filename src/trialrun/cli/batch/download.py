"""`trialrun batch download`: the answers of a batch, and its errors, as files."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.app.exits import Exit
from trialrun.cli import batches, options
from trialrun.cli.screen import Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.fetching import Download
    from trialrun.core.ports import Clock


@click.command("download", short_help="Bring the answers and the errors of a batch.")
@batches.provider
@batches.one_batch
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Where the answers go.")
@click.option(
    "--force",
    is_flag=True,
    help="Take what there is of a batch that has not ended; replace a file that is there.",
)
@batches.tracking
@options.output
def command(*, provider: str, batch_id: str, output: Path | None, force: bool, tracking: Path) -> Shown:
    """Bring what there is of a batch, also of one that failed in part, expired or was cancelled.

    Answers go to the output, errors beside it (NAME.errors.jsonl), lines that nobody asked for to NAME.others.jsonl.
    """
    from trialrun.cli.blocks import Block, Line
    from trialrun.compat.batch_files.fetching import download
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.providers.prices import GenaiPrices

    ledger = Ledger(tracking)
    batch = ledger.known(batch_id, provider=provider)

    async def brought(routes: "Routes", clock: "Clock") -> "Download | None":
        return await download(
            batch,
            output=output,
            ledger=ledger,
            routes=routes,
            prices=GenaiPrices(),
            clock=clock,
            force=force,
        )

    found = batches.at_providers(brought)
    if found is None:
        now = ledger.known(batch_id, provider=provider)
        hint = f"the batch is {now.status}, and its provider hands nothing out before the end"
        more = (
            "wait for it with `trialrun batch monitor`"
            if now.status == "cancelling"
            else "wait for it with `trialrun batch monitor`, or have what is done with `trialrun batch cancel` first"
        )
        return Shown(
            data={**batches.batch_data(now), "output": None},
            blocks=lambda: [batches.batch_pairs(now), Line(hint), Line(more)],
            exit=Exit.PARKED,
        )

    def blocks() -> list[Block]:
        return [batches.batch_pairs(found.batch), *batches.download_blocks(found)]

    return Shown(data=batches.download_data(found), blocks=blocks, exit=batches.exit_of_download(found))
