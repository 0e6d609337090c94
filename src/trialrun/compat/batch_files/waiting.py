"""Staying with batches until they have ended: look, wait, look; then bring the answers, and tell who wants to know."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trialrun.compat.batch_files.accounts import Routes
from trialrun.compat.batch_files.fetching import Download, check, download, target_of
from trialrun.compat.batch_files.tracking import Batch, Ledger
from trialrun.core.errors import CallError, RequestRefused
from trialrun.core.ports import Clock, PriceBook


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """Somebody who wants to know that a batch has ended."""

    name: str
    """The same for the same command or address, in every process."""
    call: Callable[[Batch], Awaitable[str]]
    """Tells them; returns what went wrong, or an empty text."""


@dataclass(kw_only=True, slots=True)
class Watch:
    """What became of the batches that were watched."""

    downloads: list[Download] = field(default_factory=list[Download])
    waiting: list[Batch] = field(default_factory=list[Batch])
    """Those that had not ended when the time was up."""
    problems: list[str] = field(default_factory=list[str])
    """Hooks that failed, and batches that the provider does not show us."""


async def monitor(
    batches: Sequence[Batch],
    *,
    interval_s: float,
    timeout_s: float | None,
    output: Path | None,
    ledger: Ledger,
    routes: Routes,
    prices: PriceBook,
    clock: Clock,
    hooks: Sequence[Hook] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Watch:
    """Look at them every so often until all have ended, or the time is up. Answers are downloaded as they end."""
    for batch in batches:  # what is wrong is said now, and not after hours
        target_of(batch, output)
    watch = Watch(waiting=list(batches))
    began = clock.monotonic()
    while True:
        for batch in tuple(watch.waiting):
            try:
                seen = await check(batch, ledger=ledger, routes=routes, clock=clock)
            except RequestRefused as error:  # however often one asks
                watch.waiting.remove(batch)
                watch.problems.append(f"{batch.batch_id}: {error}")
                continue
            except CallError as error:
                tell(f"{batch.batch_id}: {error}; looked at again later")
                continue
            watch.waiting[watch.waiting.index(batch)] = seen
            tell(_line(seen))
            if seen.is_open:
                continue
            try:
                brought = await download(
                    seen, output=output, ledger=ledger, routes=routes, prices=prices, clock=clock
                )
            except CallError as error:
                tell(f"{batch.batch_id}: {error}; fetched again later")
                continue
            if brought is None:
                continue
            watch.waiting.remove(seen)
            watch.downloads.append(brought)
            for hook in hooks:
                if not ledger.claim(brought.batch, hook.name):
                    continue  # others who watch have told it, or are about to
                problem = await hook.call(brought.batch)
                ledger.release(brought.batch, hook.name, is_told=not problem)
                if problem:
                    watch.problems.append(f"{seen.batch_id}: {problem}")
        left_s = None if timeout_s is None else timeout_s - (clock.monotonic() - began)
        if not watch.waiting or (left_s is not None and left_s <= 0):
            return watch
        await clock.sleep(interval_s if left_s is None else min(interval_s, left_s))


def _line(batch: Batch) -> str:
    counts = ""
    if batch.done is not None and batch.requests:
        counts = f", {batch.done:,} of {batch.requests:,} done" + (
            f", {batch.failed:,} failed" if batch.failed else ""
        )
    return f"{batch.batch_id}: {batch.status}{counts}"
