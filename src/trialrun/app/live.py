"""Where a run stands: one snapshot for progress lines, the heartbeat and the report of a run."""

import os
from dataclasses import asdict, dataclass
from decimal import Decimal

from trialrun.app.studies import Plan
from trialrun.core.budget import Ledger
from trialrun.core.ports import Clock
from trialrun.engine.engine import Progress
from trialrun.gateway.gateway import Gateway

_MOST_CONDITIONS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """A moment of a run."""

    study: str
    lane: str
    folder: str
    pid: int
    at: float
    elapsed_s: float
    """Since the first moment of this run."""
    planned: int
    done: int
    failed: int
    parked: int
    open: int
    replicates: int
    conditions: tuple[tuple[str, int], ...]
    """The first conditions by title, with the trials done of each."""
    more_conditions: int
    spent_usd: Decimal
    held_usd: Decimal
    budget_usd: Decimal | None
    unknown_costs: int
    calls: int
    retries: int
    in_flight: int
    trials_per_minute: float | None
    left_s: float | None
    waits: tuple[str, ...]
    stop: str
    errors: tuple[tuple[str, int], ...]

    def as_data(self) -> dict[str, object]:
        return asdict(self)


def snapshot_of(plan: Plan, progress: Progress, gateway: Gateway, ledger: Ledger, clock: Clock) -> Live:
    """The run as it stands now."""
    planned = plan.trials
    titles: list[tuple[str, int]] = []
    if progress.titles is None:
        progress.titles = _titles(plan)
        progress.began_at = clock.monotonic()
    for id_, title in progress.titles.items():
        titles.append((title, progress.done_by_condition.get(id_, 0)))
    elapsed = clock.monotonic() - progress.began_at
    rate = 60 * progress.ended_now / elapsed if elapsed > 1 and progress.ended_now else None
    left = planned - progress.done_in_plan - progress.failed_in_plan - progress.parked
    return Live(
        study=plan.study.name,
        lane=plan.lane,
        folder=str(plan.folder),
        pid=os.getpid(),
        at=clock.now(),
        elapsed_s=elapsed,
        planned=planned,
        done=progress.done_in_plan,
        failed=progress.failed_in_plan,
        parked=progress.parked,
        open=progress.open,
        replicates=plan.study.replicates,
        conditions=tuple(titles),
        more_conditions=max(0, plan.design.count() - len(titles)),
        spent_usd=ledger.study.settled_usd,
        held_usd=ledger.study.held_usd,
        budget_usd=plan.study.budget.study_usd,
        unknown_costs=gateway.meter.unknown_costs,
        calls=gateway.meter.calls,
        retries=gateway.meter.retries,
        in_flight=gateway.pacer.in_flight,
        trials_per_minute=rate,
        left_s=60 * left / rate if rate and left > 0 else None,
        waits=tuple(gateway.pacer.waits()) + _money_waits(gateway),
        stop=progress.stop,
        errors=tuple(sorted(gateway.meter.errors.items())),
    )


def _titles(plan: Plan) -> dict[str, str]:
    titles: dict[str, str] = {}
    for condition in plan.design:
        titles[condition.id] = condition.title
        if len(titles) == _MOST_CONDITIONS:
            break
    return titles


def _money_waits(gateway: Gateway) -> tuple[str, ...]:
    waiting = gateway.purse.waiting
    return (
        (f"{waiting} calls wait until others have settled: the budget has no room for all ceilings",)
        if waiting
        else ()
    )
