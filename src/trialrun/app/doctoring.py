"""Looks whether Trialrun can work here, and whether a study can: versions, keys by name, the store, money in doubt."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from trialrun.app.clock import SystemClock
from trialrun.app.lanes import Lanes
from trialrun.app.packs import packs_of
from trialrun.app.studies import Lane, load, models_of
from trialrun.core import facts as f
from trialrun.core.errors import TrialrunError, UsageError
from trialrun.core.totals import spelled
from trialrun.core.version import VERSION
from trialrun.providers.local import missing_packages
from trialrun.providers.registry import ENDPOINTS
from trialrun.store import inspection
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal

ALL = "all"
"""In place of a call: every one that is in doubt."""
Health = Literal["fine", "note", "wrong"]
_EXTRAS = {
    "polars": "data frames and Parquet",
    "pandas": "data frames",
}
_SMALLEST_USD = Decimal("1E-12")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    health: Health
    found: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """An attempt of a call of which nobody knows what it cost."""

    call: str
    """`trial/address#attempt`, as `--confirm` takes it."""
    model: str
    ceiling_usd: Decimal | None
    held_at: float
    reason: str
    was_answered: bool
    """The reply is there, and its price is not known."""


def checks_of_machine(names_from_file: list[str]) -> Iterator[Check]:
    """Versions and keys. `names_from_file`: keys that came from a `.env`."""
    yield Check(
        name="trialrun",
        health="fine",
        found=f"{VERSION}, Python {platform.python_version()} on {sys.platform}",
    )
    for package, what in _EXTRAS.items():
        try:
            yield Check(name=package, health="fine", found=f"{version(package)}, for {what}")
        except PackageNotFoundError:
            extra = "frames" if package == "polars" else package
            fix = f"`pip install 'trialrun[{extra}]'` brings it"
            yield Check(name=package, health="note", found=f"not installed: no {what} with it", fix=fix)
    missing = missing_packages()
    found = (
        f"not installed: {', '.join(missing)}"
        if missing
        else "local/smollm2, a small language model on this machine"
    )
    yield Check(name="offline model", health="note" if missing else "fine", found=found)
    without: list[str] = []
    for provider, endpoint in ENDPOINTS.items():
        key = next((name for name in endpoint.keys if os.environ.get(name)), None)
        if key:
            origin = " from .env" if key in names_from_file else ""
            yield Check(name=f"key of {provider}", health="fine", found=f"{key}{origin}")
        elif endpoint.keys:
            without.append(provider)
    if without:
        yield Check(name="no key of", health="note", found=", ".join(without))


def checks_of_plan(path: Path, lane: Lane | None) -> Iterator[Check]:
    """Whether every model of a study can be reached and priced."""
    plan = load(path, lane=lane or "live")
    lanes = Lanes(plan, SystemClock())
    for model in sorted(models_of(plan.study)):
        price = lanes.prices.price_of(model)
        cost = (
            "price unknown"
            if price is None
            else f"{price.input:f} and {price.output:f} USD per million tokens"
        )
        try:
            lanes.route(model)
        except TrialrunError as error:
            yield Check(name=model, health="note", found=f"{error.what}; {cost}", fix=error.fix)
        else:
            yield Check(name=model, health="note" if price is None else "fine", found=cost)


def checks_of_study(folder: Path) -> Iterator[Check]:
    """The store of one study, read from end to end, and its money."""
    with Archive(folder) as archive:
        holder = archive.holder()
        trials = sum(archive.total().by_status.values())
    if holder is not None:
        yield Check(name="worked on by", health="note", found=f"process {holder.pid} on {holder.host}")
    problems = inspection.check(folder)
    for problem in problems:
        yield Check(name="store", health="wrong", found=problem.what, fix=problem.fix)
    if not problems:
        yield Check(
            name="store",
            health="fine",
            found=f"everything about {trials:,} trials reads back as it was written",
        )
        yield _check_of_money(folder)
        yield from _checks_of_batches(folder)


def _check_of_money(folder: Path) -> Check:
    doubts = doubts_of(folder)
    if not doubts:
        return Check(name="money", health="fine", found="every call is settled, or was surely not billed")
    most = sum((doubt.ceiling_usd or Decimal(0) for doubt in doubts), Decimal(0))
    calls = f"{len(doubts)} calls" if len(doubts) > 1 else "1 call"
    return Check(
        name="money",
        health="note",
        found=f"nobody knows what {calls} cost, {most.normalize():f} USD at most; they count at that",
        fix="look them up at the provider, then `trialrun doctor STUDY --confirm CALL COST` for each",
    )


def _checks_of_batches(folder: Path) -> Iterator[Check]:
    """Batches of which nobody knows what became, so that their calls wait for a person's word; and those of which the
    provider says that they come to something else than their results."""
    for pack in packs_of(folder):
        if pack.stage == "doubted" and pack.decision is None:
            fix = "`trialrun batch resolve STUDY BATCH --as ...` decides what to do about it"
            yield Check(name=f"batch {pack.batch or pack.id}", health="note", found=pack.reason, fix=fix)
        if off := spelled(pack.off):
            yield Check(
                name=f"totals of batch {pack.batch or pack.id}",
                health="note",
                found=f"the provider says {off} beyond what its results come to",
                fix="the ledger has what the results say; compare it with the provider's bill",
            )


def rebuild(folder: Path) -> list[inspection.Difference]:
    """Compute anew what follows from the facts. Returns what was different."""
    return inspection.rebuild(folder, clock=SystemClock())


def quarantine(folder: Path, seq: int) -> str:
    """Set a damaged fact aside. Returns its trial, which begins anew with the next run."""
    return inspection.quarantine(folder, seq, clock=SystemClock())


def doubts_of(folder: Path, *, is_mine: bool = False) -> list[Doubt]:
    """Attempts of unknown cost, oldest first. What is in flight in a running process is none of them, and no more is
    what waits for its batch. `is_mine`: this process works on the study, and has nothing in flight."""
    with Archive(folder) as archive:
        is_running = not is_mine and archive.holder() is not None
        return sorted(
            (
                Doubt(
                    call=f"{row.trial}/{row.at}#{row.attempt}",
                    model=row.model,
                    ceiling_usd=row.ceiling_usd,
                    held_at=row.held_at,
                    reason=row.reason
                    or (
                        "answered at an unknown price" if row.status == "settled" else "in flight at the end"
                    ),
                    was_answered=row.status == "settled",
                )
                for row in archive.calls()
                if row.status == "in_doubt"
                or (row.status == "open" and not is_running)
                or (row.status == "settled" and row.cost_usd is None)
            ),
            key=lambda doubt: doubt.held_at,
        )


async def confirm(folder: Path, call: str, cost: str) -> list[Doubt]:
    """Write down what a person found out about an attempt in doubt, or about `all` of them together."""
    amount = _amount(cost)
    # Two who confirm the same call at once would count it twice: so nobody else may, from the look to the word.
    journal = SqliteJournal.open(folder, clock=SystemClock())
    try:
        found = _doubts_named(call, doubts_of(folder, is_mine=True), folder)
        for doubt, share in zip(found, _shares(amount, found), strict=True):
            journal.append(doubt.call.partition("/")[0], [_confirmed(doubt, share)])
        await journal.commit()
    finally:
        await journal.close()
    return found


def _doubts_named(call: str, doubts: list[Doubt], folder: Path) -> list[Doubt]:
    if call == ALL and doubts:
        return doubts
    found = [doubt for doubt in doubts if call in (doubt.call, doubt.call.partition("#")[0])]
    if not found:
        raise UsageError(
            "no call is in doubt" if call == ALL else f"the call `{call}` is not in doubt",
            where=str(folder),
            fix=f"in doubt: {doubts[0].call}" + (f" and {len(doubts) - 1} more" if doubts[1:] else "")
            if doubts
            else "none is",
        )
    return found[:1]


def _shares(total: Decimal, doubts: Sequence[Doubt]) -> list[Decimal]:
    """What each cost, if only the sum is known: in proportion to what each could cost, and exact in the sum."""
    ceilings = [doubt.ceiling_usd or Decimal(0) for doubt in doubts]
    weights = ceilings if any(ceilings) else [Decimal(1)] * len(doubts)
    shares = [(total * weight / sum(weights)).quantize(_SMALLEST_USD, ROUND_DOWN) for weight in weights[:-1]]
    return [*shares, total - sum(shares)]


def _confirmed(doubt: Doubt, amount: Decimal) -> f.Confirmed:
    place, _, attempt = doubt.call.rpartition("#")
    return f.Confirmed(
        at=place.partition("/")[2], attempt=int(attempt), cost_usd=amount, was_answered=doubt.was_answered
    )


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise UsageError(f"`{text}` is no amount of USD", fix="write what it cost, such as 0.0042, or 0")
    return amount
