"""`trialrun batch monitor`: stay until batches have ended, bring their answers, and tell somebody."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.app.exits import Exit
from trialrun.cli import batches, options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.tracking import Batch
    from trialrun.compat.batch_files.waiting import Hook, Watch
    from trialrun.core.ports import Clock


@click.command("monitor", short_help="Wait until batches have ended, and download their answers.")
@batches.provider
@batches.batch_id
@click.option(
    "--interval",
    type=batches.Seconds(),
    default=60,
    metavar="TIME",
    help="Look so often: 300, 5m; 60 unless given.",
)
@click.option("--timeout", type=batches.Seconds(), metavar="TIME", help="Stay no longer than this.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Where the answers go.")
@click.option("--on-complete", "command_", metavar="COMMAND", help="Run this when a batch has ended.")
@click.option("--webhook", metavar="URL", help="Post the batch as JSON there when it has ended.")
@batches.tracking
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    provider: str,
    batch_id: str,
    interval: float,
    timeout: float | None,
    output: Path | None,
    command_: str | None,
    webhook: str | None,
    tracking: Path,
) -> Shown:
    """Look at a batch, or all that are out, until they have ended; answers are downloaded as they come.

    The command finds BATCH_ID, BATCH_PROVIDER, BATCH_MODEL, BATCH_STATUS and BATCH_RESULTS in its environment, and all
    of it as JSON on its input.
    """
    from trialrun.cli.blocks import Block, Line
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.compat.batch_files.waiting import monitor
    from trialrun.providers.prices import GenaiPrices

    ledger = Ledger(tracking)
    wanted = batches.named_batches(ledger, batch_id, provider, with_untaken=True)
    if output and len(wanted) > 1:
        raise click.UsageError("--output is for one batch: say --batch-id")

    async def watched(routes: "Routes", clock: "Clock") -> "Watch":
        return await monitor(
            wanted,
            interval_s=interval,
            timeout_s=timeout,
            output=output,
            ledger=ledger,
            routes=routes,
            prices=GenaiPrices(),
            clock=clock,
            hooks=_hooks(command_, webhook),
            tell=screen.note,
        )

    watch = batches.at_providers(watched)
    for problem in watch.problems:
        screen.note(problem, "bad")

    def blocks() -> list[Block]:
        lines: list[Block] = []
        for found in watch.downloads:
            lines += [batches.batch_pairs(found.batch), *batches.download_blocks(found)]
        lines += [Line(f"still out: {batch.batch_id}") for batch in watch.waiting]
        return lines or [Line("no batch is out")]

    data = {
        "batches": [batches.download_data(found) for found in watch.downloads],
        "waiting": [batches.batch_data(batch) for batch in watch.waiting],
        "problems": watch.problems,
    }
    return Shown(data=data, blocks=blocks, exit=_exit(watch))


def _exit(watch: "Watch") -> Exit:
    if watch.waiting:
        return Exit.PARKED
    is_good = not watch.problems and all(found.is_complete for found in watch.downloads)
    return Exit.DONE if is_good else Exit.SOME_FAILED


def _hooks(command_: str | None, webhook: str | None) -> "list[Hook]":
    import asyncio

    from trialrun.compat.batch_files.hooks import call_webhook, hook_name, run_command
    from trialrun.compat.batch_files.waiting import Hook

    async def by_command(batch: "Batch") -> str:
        return await asyncio.to_thread(run_command, command_ or "", batch)

    async def by_webhook(batch: "Batch") -> str:
        return await call_webhook(webhook or "", batch)

    hooks: list[Hook] = []
    if command_:
        hooks.append(Hook(name=hook_name("command", command_), call=by_command))
    if webhook:
        hooks.append(Hook(name=hook_name("webhook", webhook), call=by_webhook))
    return hooks
