"""Where a batch stands, and what came of it: looked at, cancelled, downloaded and sorted.

F1. What came is kept as it came, in the batch's own folder, before anything is read of it.
F2. An answer goes to the output, an error beside it, and what nobody asked for to a third file: no line is thrown away.
F3. Whether all is there is told by the ids, never by the provider's word for the batch.
"""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from trialrun.app.files import whole
from trialrun.compat.batch_files.accounts import Routes, patiently
from trialrun.compat.batch_files.files import filled_lines
from trialrun.compat.batch_files.replies import result_in
from trialrun.compat.batch_files.sending import requests_in, sent_requests
from trialrun.compat.batch_files.services import full_name
from trialrun.compat.batch_files.tracking import ENDED, Batch, Ledger, status_in
from trialrun.core.batches import BatchRoute, Result
from trialrun.core.errors import RequestRefused, UsageError
from trialrun.core.ports import Clock, PriceBook
from trialrun.core.pricing import cost_usd

Kind = Literal["answered", "failed", "never_ran", "duplicate", "foreign", "unreadable"]
RESULTS_FOLDER = Path("results")
_KINDS_OF_OUTPUT: tuple[Kind, ...] = ("answered",)
_KINDS_OF_ERRORS: tuple[Kind, ...] = ("failed", "never_ran")


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """What a download brought."""

    batch: Batch
    output: Path
    counts: dict[str, int]
    missing: int
    """Requests of which no line says anything."""
    is_whole: bool
    """Whether the batch has ended, so that no more will come."""
    spent_usd: Decimal | None
    unpriced: int

    @property
    def is_complete(self) -> bool:
        """Whether every request has an answer."""
        spoilt = sum(self.counts[kind] for kind in (*_KINDS_OF_ERRORS, "foreign", "unreadable"))
        return self.is_whole and not self.missing and not spoilt

    @property
    def errors(self) -> Path:
        return errors_beside(self.output)

    @property
    def others(self) -> Path:
        return _others_beside(self.output)


def errors_beside(output: Path) -> Path:
    """Where the errors of an output are."""
    return output.with_name(f"{output.stem}.errors{output.suffix}")


def _others_beside(output: Path) -> Path:
    return output.with_name(f"{output.stem}.others{output.suffix}")


async def check(batch: Batch, *, ledger: Ledger, routes: Routes, clock: Clock) -> Batch:
    """Ask the provider where the batch stands, and note it."""
    route = routes(batch.provider, batch.model)
    look = await patiently(lambda: route.look(batch.batch_id), clock)
    return ledger.note(
        batch,
        status=status_in(look),
        word=look.word,
        requests=batch.requests if look.total is None else look.total,
        done=look.done,
        failed=look.failed,
        problems=look.problems,
    )


async def cancel(batch: Batch, *, ledger: Ledger, routes: Routes, clock: Clock) -> Batch:
    """Ask the provider to stop; what is done by then is kept, and paid."""
    if batch.status in ENDED:
        raise UsageError(
            f"the batch {batch.batch_id} has ended: {batch.status}",
            fix="`trialrun batch download` brings what there is of it",
        )
    route = routes(batch.provider, batch.model)
    await patiently(lambda: route.cancel(batch.batch_id), clock)
    ledger.log(batch, "cancel asked")
    return await check(batch, ledger=ledger, routes=routes, clock=clock)


def target_of(batch: Batch, output: Path | None, *, force: bool = False) -> Path:
    """Where the answers go: as asked, as before, or by the name of the requests. Nothing of others is replaced."""
    if output is None:
        stem = Path(batch.input).stem if batch.input else _file_name(batch.batch_id)
        usual = RESULTS_FOLDER / f"{stem}_results.jsonl"
        if batch.results:
            return Path(batch.results)
        taken = usual.exists() and not force
        return RESULTS_FOLDER / f"{stem}_{_file_name(batch.batch_id)}_results.jsonl" if taken else usual
    if output.exists() and not force and str(output) != batch.results:
        raise UsageError(
            f"`{output}` is there already, and is not of this batch",
            where=str(output),
            fix="name another `--output`, or say `--force` to replace it",
        )
    return output


async def download(
    batch: Batch,
    *,
    output: Path | None,
    ledger: Ledger,
    routes: Routes,
    prices: PriceBook,
    clock: Clock,
    force: bool = False,
) -> Download | None:
    """Bring what there is of a batch. None while nothing is to be had: no provider hands anything out before the end.

    `force` takes what a batch offers although it has not ended, and replaces an output that belongs to something else.
    """
    batch = await check(batch, ledger=ledger, routes=routes, clock=clock)
    route = routes(batch.provider, batch.model)
    look = await patiently(lambda: route.look(batch.batch_id), clock)
    if batch.is_open and not (force and look.results):
        return None
    target = target_of(batch, output, force=force)
    folder = ledger.folder / (batch.pack or _file_name(batch.batch_id))
    raw: list[Path] = []
    try:
        for number, name in enumerate(look.results, start=1):
            path = folder / f"results-{number}.jsonl"
            await _fetched(route, batch, name, path, clock)
            raw.append(path)
    except RequestRefused as error:
        if error.status != 404:
            raise
        batch = ledger.note(batch, "results gone", status="gone", problems=(str(error),))
    copies = tuple(
        path for path in dict.fromkeys((*batch.copies, batch.results)) if path not in ("", str(target))
    )
    sorted_ = _sort(raw, route, batch, target, asked=_asked(ledger, batch), prices=prices)
    batch = ledger.note(
        batch,
        "downloaded",
        results=str(target),
        copies=copies,
        is_partial=batch.is_open,
        answered=sorted_.counts["answered"],
        spent_usd=sorted_.spent_usd,
    )
    return replace(sorted_, batch=batch)


async def _fetched(route: BatchRoute, batch: Batch, name: str, path: Path, clock: Clock) -> None:
    """Keep one of the results as it comes, whole or not at all."""

    async def once() -> None:
        with whole(path) as file:
            async for chunk in route.fetch(batch.batch_id, name):
                file.write(chunk)

    await patiently(once, clock)


def _asked(ledger: Ledger, batch: Batch) -> frozenset[str] | None:
    """The ids that were sent; None if nobody here knows."""
    path = sent_requests(ledger, batch)
    return frozenset(line.id for line in requests_in(path)) if path.is_file() else None


def _sort(
    raw: list[Path],
    route: BatchRoute,
    batch: Batch,
    output: Path,
    *,
    asked: frozenset[str] | None,
    prices: PriceBook,
) -> Download:
    """Answers, errors and what is neither, each into a file of its own."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    price = prices.batch_price_of(full_name(batch.provider, batch.model)) if batch.model else None
    spent, unpriced = Decimal(0), 0
    with ExitStack() as stack:
        files: dict[Path, BinaryIO] = {output: stack.enter_context(whole(output))}
        for path in raw:
            for _, line in filled_lines(path):
                result = result_in(route, line)
                kind = _kind(result, asked, seen)
                counts[kind] += 1
                target = _target(kind, output)
                if target not in files:
                    files[target] = stack.enter_context(whole(target))
                files[target].write(line if line.endswith(b"\n") else line + b"\n")
                usage = route.provider.meter(result.raw) if result.raw and kind != "foreign" else None
                if usage and price:
                    spent += cost_usd(usage, price)
                elif result.raw and kind != "foreign":
                    unpriced += 1
    for stale in (errors_beside(output), _others_beside(output)):
        if stale not in files:
            stale.unlink(missing_ok=True)
    return Download(
        batch=batch,
        output=output,
        counts={kind: counts[kind] for kind in get_args(Kind)},
        missing=len(asked - seen) if asked is not None else 0,
        is_whole=not batch.is_open,
        spent_usd=None if unpriced and not spent else spent,
        unpriced=unpriced,
    )


def _kind(result: Result, asked: frozenset[str] | None, seen: set[str]) -> Kind:
    if not result.id:
        return "unreadable"
    if asked is not None and result.id not in asked:
        return "foreign"
    if result.id in seen:
        return "duplicate"
    seen.add(result.id)
    if result.raw is not None:
        return "answered"
    return "failed" if result.error is not None else "never_ran"


def _target(kind: Kind, output: Path) -> Path:
    if kind in _KINDS_OF_OUTPUT:
        return output
    return errors_beside(output) if kind in _KINDS_OF_ERRORS else _others_beside(output)


def _file_name(batch_id: str) -> str:
    """A provider's id as the name of a file."""
    last = batch_id.rpartition("/")[2]
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in last) or "batch"
