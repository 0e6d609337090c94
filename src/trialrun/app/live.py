"""Where a run stands: one snapshot for progress lines, the heartbeat and the report of a run."""

import os
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import islice

from trialrun.app.studies import Plan
from trialrun.core.budget import Ledger
from trialrun.core.design import in_file_order
from trialrun.core.ports import Clock
from trialrun.engine.parts import Progress
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
    open_in: tuple[int, ...]
    """The trials that are open of each of these."""
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


def snapshot_of(
    plan: Plan,
    progress: Progress,
    gateway: Gateway,
    ledger: Ledger,
    clock: Clock,
    *,
    slow_waits: tuple[str, ...] = (),
) -> Live:
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
    left_s = None
    if rate and left > 0:
        left_s = left_s_of(progress, elapsed, left, gateway.meter.calls)
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
        open_in=tuple(progress.open_by_condition[id_] for id_ in progress.titles),
        more_conditions=max(0, plan.design.count() - len(titles)),
        spent_usd=ledger.study.settled_usd,
        held_usd=ledger.study.held_usd,
        budget_usd=plan.study.budget.study_usd,
        unknown_costs=gateway.meter.unknown_costs,
        calls=gateway.meter.calls + gateway.meter.batched,
        retries=gateway.meter.retries,
        in_flight=gateway.pacer.in_flight,
        trials_per_minute=rate,
        left_s=left_s,
        waits=(*gateway.pacer.waits(), *_money_waits(gateway), *slow_waits),
        stop=progress.stop,
        errors=tuple(sorted(gateway.meter.errors.items())),
    )


def left_s_of(progress: Progress, elapsed_s: float, left: int, calls: int) -> float:
    """Seconds for so many trials. By calls where trials make some: with all trials open, most of the work is done when
    the first one ends."""
    if not progress.calls_of_ended:
        return elapsed_s * left / progress.ended_now
    each = progress.calls_of_ended / progress.ended_now
    return elapsed_s * max(0.0, left * each - (calls - progress.calls_of_ended)) / calls


def _titles(plan: Plan) -> dict[str, str]:
    first = islice(plan.design, _MOST_CONDITIONS)
    names = [factor.name for factor in plan.study.factors]
    return {
        each.id: ", ".join(f"{name}={each.levels[name].label}" for name in names) or each.title
        for each in in_file_order(plan.study, first)
    }


def _money_waits(gateway: Gateway) -> tuple[str, ...]:
    waiting = gateway.purse.waiting
    return (
        (f"{waiting} calls wait until others have settled: the budget has no room for all ceilings",)
        if waiting
        else ()
    )
