"""What the commands for batches as files share: their options, and an account to work with."""

from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trialrun.app.exits import Exit
from trialrun.cli.options import Duration

if TYPE_CHECKING:
    from trialrun.cli.blocks import Block
    from trialrun.compat.batch_files.accounts import Routes
    from trialrun.compat.batch_files.fetching import Download
    from trialrun.compat.batch_files.tracking import Batch, Ledger
    from trialrun.core.ports import Clock

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

provider = click.option(
    "--provider",
    default="",
    metavar="NAME",
    help="openai, claude, gemini, vertex, groq, mistral, together, xai.",
)
tracking = click.option(
    "--tracking",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("batch_tracking.json"),
    metavar="FILE",
    help="Where batches are kept; batch_tracking.json in the working folder unless given.",
)
_ID_HELP = "The provider's id of the batch, or the name of its request file."
batch_id = click.option("--batch-id", default="", metavar="ID", help=_ID_HELP)
one_batch = click.option("--batch-id", required=True, metavar="ID", help=_ID_HELP)


class Seconds(Duration):
    """A span of time; a number alone is seconds."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        return super().convert(f"{text}s" if text[-1:].isdigit() else text, param, ctx)


def inputs(help_: str, *, is_required: bool = False) -> Callable[[F], F]:
    """`--input FILE`, once or more, or the files behind the options, as a shell makes them of `*.jsonl`."""

    def add(command: F) -> F:
        command = click.argument("files", nargs=-1, type=click.Path(path_type=Path, dir_okay=False))(command)
        return click.option(
            "--input",
            "named",
            multiple=True,
            required=is_required,
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help=help_,
        )(command)

    return add


def split(values: Iterable[str]) -> list[str]:
    """`--model a,b --model c` as three."""
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def amount(text: str | None) -> Decimal | None:
    """An amount of USD."""
    if text is None:
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or found < 0:
        raise click.BadParameter(f"`{text}` is no amount of USD; write 2.50", param_hint="--budget")
    return found


def at_providers(work: "Callable[[Routes, Clock], Awaitable[T]]") -> T:
    """Do something with the accounts of the environment."""
    import asyncio

    from trialrun.app.clock import SystemClock
    from trialrun.compat.batch_files.accounts import opened

    async def whole() -> T:
        clock = SystemClock()
        async with opened(clock) as routes:
            return await work(routes, clock)

    return asyncio.run(whole())


def reading(work: "Callable[[Routes], T]") -> T:
    """Do something with adapters that only read."""
    import asyncio

    from trialrun.app.clock import SystemClock
    from trialrun.compat.batch_files.accounts import opened

    async def with_routes() -> "tuple[Routes, Any]":
        context = opened(SystemClock(), is_offline=True)
        return await context.__aenter__(), context

    async def closed(context: Any) -> None:
        await context.__aexit__(None, None, None)

    routes, context = asyncio.run(with_routes())
    try:
        return work(routes)
    finally:
        asyncio.run(closed(context))


def named_batches(
    ledger: "Ledger", batch_id: str, service: str, *, with_untaken: bool = False
) -> "list[Batch]":
    """The batch with this id, or all that are out (of one provider, if one is named).

    `with_untaken` adds those that ended, and whose answers nobody has downloaded.
    """
    from trialrun.compat.batch_files.services import provider_of

    if batch_id:
        return [ledger.known(batch_id, provider=service)]
    return [
        batch
        for batch in ledger.read().batches
        if batch.batch_id
        and (batch.is_open or (with_untaken and batch.is_untaken))
        and (not service or provider_of(batch.provider) == provider_of(service))
    ]


def exit_of_batches(batches: "Iterable[Batch]") -> Exit:
    """0 when all have ended with every request answered, as far as the provider says."""
    found = list(batches)
    if any(batch.is_open for batch in found):
        return Exit.PARKED
    return Exit.DONE if all(_is_whole(batch) for batch in found) else Exit.SOME_FAILED


def _is_whole(batch: "Batch") -> bool:
    if batch.status != "completed" or batch.failed:
        return False
    return batch.answered is None or batch.requests is None or batch.answered == batch.requests


def batch_data(batch: "Batch") -> dict[str, object]:
    """The batch for `--json`."""
    import msgspec

    return {**msgspec.to_builtins(batch), "ceiling_usd": batch.ceiling_usd, "spent_usd": batch.spent_usd}


def batch_pairs(batch: "Batch") -> "Block":
    """The batch, a line for each thing that is known; one of them is `status`."""
    from trialrun.cli.amounts import usd
    from trialrun.cli.blocks import Pairs

    own = f" ({batch.word})" if batch.word and batch.word.lower() != batch.status else ""
    rows = [("batch", batch.batch_id), ("provider", batch.provider), ("model", batch.model)]
    rows += [("status", f"{batch.status}{own}"), ("requests", progress(batch))]
    if batch.description:
        rows.append(("description", batch.description))
    if batch.results:
        rows.append(("results", batch.results + (" (partial)" if batch.is_partial else "")))
    if batch.spent_usd is not None:
        rows.append(("cost", f"{usd(batch.spent_usd)} USD"))
    rows += [("problem", problem) for problem in batch.problems]
    return Pairs([(name, text) for name, text in rows if text])


def progress(batch: "Batch") -> str:
    """How many requests are done."""
    if batch.requests is None:
        return ""
    failed = f", {batch.failed:,} failed" if batch.failed else ""
    return (
        f"{batch.requests:,}" if batch.done is None else f"{batch.done:,} of {batch.requests:,} done{failed}"
    )


def exit_of_download(found: "Download") -> Exit:
    """0 only if every request has an answer."""
    if found.is_complete:
        return Exit.DONE
    return Exit.SOME_FAILED if found.is_whole else Exit.PARKED


def download_data(found: "Download") -> dict[str, object]:
    """The download for `--json`."""
    return {
        **batch_data(found.batch),
        "output": str(found.output),
        "errors_file": str(found.errors) if found.errors.is_file() else None,
        "others_file": str(found.others) if found.others.is_file() else None,
        "counts": found.counts,
        "missing": found.missing,
        "unpriced": found.unpriced,
    }


def download_blocks(found: "Download") -> "list[Block]":
    """What a download brought."""
    from trialrun.cli.amounts import plural
    from trialrun.cli.blocks import Line

    counts = found.counts
    lines: list[Block] = [Line(f"{plural(counts['answered'], 'answer')} in {found.output}")]
    bad = counts["failed"] + counts["never_ran"]
    if bad:
        ran = f", {counts['never_ran']:,} of them never ran" if counts["never_ran"] else ""
        lines.append(Line(f"{plural(bad, 'error')} in {found.errors}{ran}", "bad"))
    if found.missing:
        lines.append(Line(f"{plural(found.missing, 'request')} without any line", "bad"))
    strange = counts["foreign"] + counts["duplicate"] + counts["unreadable"]
    if strange:
        which = ", ".join(
            f"{counts[kind]:,} {kind}" for kind in ("foreign", "duplicate", "unreadable") if counts[kind]
        )
        lines.append(Line(f"{plural(strange, 'other line')} in {found.others}: {which}", "bad"))
    if found.unpriced:
        lines.append(Line(f"{plural(found.unpriced, 'answer')} without a price", "bad"))
    if bad or found.missing:
        lines.append(Line("`trialrun batch retry` writes the requests that have no answer into a file"))
    return lines
