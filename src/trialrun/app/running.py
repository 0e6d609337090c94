"""Runs a study: opens its journal, settles what changed, puts gateway and engine together, and says how it ended."""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from trialrun.app import archive, changes, forks
from trialrun.app.batching import batch_lane
from trialrun.app.clock import SystemClock
from trialrun.app.endings import ended_in
from trialrun.app.exits import Exit, exit_after
from trialrun.app.garbage import collected_seldom
from trialrun.app.lanes import Lanes
from trialrun.app.live import Live, snapshot_of
from trialrun.app.money import RunMoney
from trialrun.app.studies import Plan, models_of, ran_before
from trialrun.app.tracing.telemetry import tracing_of
from trialrun.app.viewing import viewed
from trialrun.app.watchdog import Watchdog
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.batches import BatchRoute
from trialrun.core.budget import Ledger
from trialrun.core.design import Schedule
from trialrun.core.ports import Clock, Journal, PriceBook, Provider, Utterance
from trialrun.core.state import TrialState
from trialrun.core.study import Trial, trial_of
from trialrun.core.version import VERSION
from trialrun.engine.engine import Run
from trialrun.engine.parts import Parts, Progress, Slot
from trialrun.gateway.gateway import Gateway
from trialrun.gateway.purse import Purse
from trialrun.measures.text import is_text_measure, text_measures
from trialrun.store.journal import SqliteJournal

if TYPE_CHECKING:
    from trialrun.app.tracing.spans import Tracing
    from trialrun.gateway.batches.lane import BatchLane


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the user said about this run, beyond the plan."""

    consent: changes.Consent = "ask"
    retry_failed: bool = False
    wait: bool = False
    """Stay for the answers to open questions instead of ending when only those are left."""
    detach: bool = False
    """End when everything is handed in at the providers, instead of staying until their batches are back."""
    trial_usd: Decimal | None = None
    """What one trial is expected to cost, if that was reckoned; else what was expected when the plan was new."""

    @property
    def are_plain(self) -> bool:
        """Whether trials that ended stay as they are."""
        return self.consent == "ask" and not self.retry_failed


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a run ended."""

    exit: Exit
    folder: Path
    live: Live
    stopped_by: e.TrialrunError | None = None


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"note: {line}\n")


class Control:
    """The user's hand on a run: the first wish drains, the second one stops at once."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._task: asyncio.Task[object] | None = None
        self._wishes = 0

    def bind(self, run: Run, task: "asyncio.Task[object] | None") -> None:
        self._run, self._task = run, task
        if self._wishes:
            run.drain("interrupted")

    def interrupt(self) -> int:
        """One more wish to stop. Returns how many there were."""
        self._wishes += 1
        if self._wishes == 1 and self._run is not None:
            self._run.drain("interrupted")
        elif self._wishes > 1 and self._task is not None:
            self._task.cancel()
        return self._wishes

    @property
    def was_used(self) -> bool:
        return self._wishes > 0


async def run_study(
    plan: Plan,
    options: Options | None = None,
    *,
    clock: Clock | None = None,
    journal: Journal | None = None,
    route: Callable[[str], Provider] | None = None,
    prices: PriceBook | None = None,
    batch_route: Callable[[str], BatchRoute] | None = None,
    watch: Callable[[Live], None] | None = None,
    control: Control | None = None,
    tell: Callable[[str], None] = _to_stderr,
    session_of: "type[Session] | None" = None,
) -> Ran:
    """Run what is unfinished of the study. Everything after `options` has a real part as its default."""
    options, clock, control = options or Options(), clock or SystemClock(), control or Control()
    async with Lanes(plan, clock) as lanes:
        check = _check_of(plan, prices or lanes.prices, lanes if route is None else None)
        if not (ran_before(plan) and options.are_plain):
            check()  # a study that cannot work leaves no trace; one that only goes on is checked when something is due
        tracing = tracing_of(plan.study.name, plan.lane, os.environ)
        store = journal or SqliteJournal.open(plan.folder, clock=clock)
        session = (session_of or Session)(
            plan,
            options,
            clock=clock,
            journal=store,
            route=route or lanes.route,
            prices=prices or lanes.prices,
            batch_route=batch_route or lanes.batch_route,
            check=check,
            tell=tell,
            tracing=tracing,
            account_of=lanes.account_of if route is None else None,
        )
        async with viewed(plan, clock, tell):
            try:
                with collected_seldom():
                    async with Watchdog(plan.study.limits.trial_timeout_s, tell):
                        return await session.run(watch, control)
            finally:
                with suppress(e.StoreError):
                    await store.close()
                if tracing is not None:
                    await tracing.close()


def _check_of(plan: Plan, prices: PriceBook, lanes: Lanes | None) -> Callable[[], None]:
    """What has to hold before anything is asked: every model has a provider with a key, and a price under a budget.

    It is looked at once. A finished study asks nothing, and is spared the price list.
    """

    @cache
    def check() -> None:
        if lanes is not None:
            lanes.check()
        refuse_unknown_prices(plan, prices)

    return check


class Session:
    """One process's work on a study, from opening its journal to closing it."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        *,
        clock: Clock,
        journal: Journal,
        route: Callable[[str], Provider],
        prices: PriceBook,
        batch_route: Callable[[str], BatchRoute],
        check: Callable[[], None],
        tell: Callable[[str], None],
        tracing: "Tracing | None" = None,
        account_of: Callable[[str], str] | None = None,
    ) -> None:
        self.id = secrets.token_hex(4)
        self._plan = plan
        self._options = options
        self._clock = clock
        self._journal = tracing.watching(journal) if tracing else journal
        self._tracing = tracing
        self._route = route
        self._prices = prices
        self._batch_route = batch_route
        self._check = check
        self._tell = tell
        self._account_of = account_of
        self._ledger = Ledger(budget=plan.study.budget)
        self._slow: BatchLane | None = None
        self._trial_usd: Decimal | None = None

    async def run(self, watch: Callable[[Live], None] | None, control: Control) -> Ran:
        await self._declare()
        if self._options.retry_failed:
            await self._take_up_failed()
        first_place = await self._carry()
        try:
            async with asyncio.TaskGroup() as group:
                gateway = self._gateway(group)
                with closing(gateway.pacer):
                    slow = self._slow = await self._slow_lane(gateway)
                    parts = self._parts(gateway, slow)
                    run = Run(
                        self._tracing.around(parts) if self._tracing else parts, first_place=first_place
                    )
                    control.bind(run, asyncio.current_task())
                    watching = group.create_task(self._watch(run, gateway, watch)) if watch else None
                    slots, others = await self._work(run)
                    await run.over(slots, others, wait=self._options.wait)
                    if watching:
                        watching.cancel()
        except BaseExceptionGroup as many:
            raise _first(many) from None
        return await self._close(run, gateway, control)

    # --- before -----------------------------------------------------------------------------------------------------

    async def _declare(self) -> None:
        """Compare with what ran before, and write down the plan that is in force from now on."""
        for command in await self._journal.commands():
            if command.kind == "stop":
                await self._journal.take(command, answer="it came before this run began")
        await self._agree()
        opened = f.Opened(session=self.id, pid=os.getpid(), host=socket.gethostname(), version=VERSION)
        self._journal.append("", [opened])
        await self._journal.commit()

    async def _agree(self) -> None:
        """Settle with the user what a changed plan means for what ran before."""
        agreed = await changes.settle_changes(self._journal, self._plan, self._options.consent)
        self._trial_usd = await archive.keep_plan(
            self._journal, self._plan, agreed, trial_usd=self._options.trial_usd
        )

    async def _take_up_failed(self) -> None:
        async for state in self._journal.with_status("failed", "timed_out"):
            if self._is_mine(state):
                self._journal.append(state.id, [f.Retried(reason="asked for by the user")])
        await self._journal.commit()

    def _is_mine(self, state: TrialState) -> bool:
        """Whether this session works on such a trial: trials that rate others belong to judging."""
        return not state.judging

    async def _work(self, run: Run) -> tuple[Iterator[Slot], Sequence[Slot]]:
        """The trials in their planned order, and what has no place in it."""
        branches = await forks.standing(self._journal, self._plan)
        run.expect_forks(len(branches.due), parked=branches.parked, failed=branches.failed)
        ended = ended_in(self._plan, await self._journal.tallies(), await self._journal.facts_of(""))
        if ended is not None:
            run.progress.count_ended(ended)
            return iter(()), branches.due
        return slots_of(self._plan), branches.due

    async def _carry(self) -> int:
        """Begin with the money of earlier runs. Returns the next place in the actual order."""
        total = await self._journal.total()
        self._ledger.carry(settled_usd=total.spent_usd, held_usd=total.held_usd)
        for tally in await self._journal.tallies():
            self._ledger.carry_condition(
                tally.condition, settled_usd=tally.spent_usd, held_usd=tally.held_usd
            )
        return sum(total.by_status.values())

    # --- during -----------------------------------------------------------------------------------------------------

    def _gateway(self, group: asyncio.TaskGroup) -> Gateway:
        return Gateway(
            journal=self._journal,
            route=self._route,
            prices=self._prices,
            purse=Purse(self._ledger),
            limits=self._plan.study.limits,
            clock=self._clock,
            group=group,
            account_of=self._account_of,
        )

    async def _slow_lane(self, gateway: Gateway) -> "BatchLane | None":
        return await batch_lane(
            self._plan,
            gateway,
            journal=self._journal,
            route=self._batch_route_of,
            prices=self._prices,
            clock=self._clock,
            tell=self._tell,
            is_detached=self._options.detach,
        )

    def _batch_route_of(self, model: str) -> BatchRoute:
        self._check()
        return self._batch_route(model)

    def _parts(self, gateway: Gateway, slow: "BatchLane | None") -> Parts:
        plan = self._plan
        return Parts(
            journal=self._journal,
            door=slow or gateway,
            slow=slow,
            money=RunMoney(self._ledger, gateway, slow, trial_usd=self._trial_usd),
            clock=self._clock,
            limits=plan.study.limits,
            mode="rehearsal" if plan.lane == "rehearsal" else "live",
            session=self.id,
            procedure_of=lambda spec: plan.procedures.make(spec.procedure),
            check=self._check,
            reopen=self._reopen,
            measures_of=measures_of,
            ended=lambda reason: _count_ending(gateway, reason),
            snapshot=lambda progress: self._live(progress, gateway).as_data(),
        )

    def _live(self, progress: Progress, gateway: Gateway) -> Live:
        waits = self._slow.waits() if self._slow is not None else ()
        return snapshot_of(self._plan, progress, gateway, self._ledger, self._clock, slow_waits=waits)

    async def _reopen(self, state: TrialState) -> Slot | None:
        if state.judging:
            return None
        if state.forked_from:
            return await forks.slot_of(self._journal, self._plan, state)
        condition = self._plan.design.by_labels(state.levels)
        if condition is None:
            return None
        trial = trial_of(self._plan.study, condition, state.replicate, self._plan.specs.spec_of(condition))
        return Slot(trial=trial, block=state.block, planned=state.planned)

    async def _watch(self, run: Run, gateway: Gateway, watch: Callable[[Live], None]) -> None:
        while True:
            watch(self._live(run.progress, gateway))
            await self._clock.sleep(0.2)

    # --- after ------------------------------------------------------------------------------------------------------

    async def _close(self, run: Run, gateway: Gateway, control: Control) -> Ran:
        stopped_by = run.stopped_by if isinstance(run.stopped_by, e.TrialrunError) else None
        if not isinstance(stopped_by, e.StoreError):
            reason = stopped_by.what if stopped_by else run.progress.stop or "nothing left to do"
            error = type(stopped_by).__name__ if stopped_by else ""
            self._journal.append("", [f.Closed(session=self.id, reason=reason, error=error)])
            await self._journal.commit()
        if overruns := self._ledger.overruns:
            self._tell(
                f"{overruns} bill{'s' * (overruns > 1)} came above what was held, so a budget may be passed: compare "
                "`cost_usd` with `ceiling_usd` in the table `calls`, and the prices with those of the provider"
            )
        live = self._live(run.progress, gateway)
        return Ran(
            exit=exit_after(run.progress, self._plan.trials, stopped_by),
            folder=self._plan.folder,
            live=live,
            stopped_by=stopped_by,
        )


def slots_of(plan: Plan) -> Iterator[Slot]:
    """All trials in their planned order, made as they are asked for."""
    for slot in Schedule(plan.study, plan.design):
        spec = plan.specs.spec_of(slot.condition)
        yield Slot(
            trial=trial_of(plan.study, slot.condition, slot.replicate, spec),
            block=slot.block,
            planned=slot.planned,
        )


def measures_of(trial: Trial, transcript: Sequence[Utterance]) -> Mapping[str, float | None]:
    """The text measures that the study asks for."""
    names = [name for name in trial.spec.measures if is_text_measure(name, list(trial.parties))]
    return text_measures(names, transcript) if names else {}


def refuse_unknown_prices(plan: Plan, prices: PriceBook) -> None:
    """With a budget, every model needs a price: an unknown cost cannot be held against a cap."""
    if not plan.study.budget.has_cap:
        return
    unknown = sorted(model for model in models_of(plan.study) if prices.price_of(model) is None)
    if unknown:
        from trialrun.providers.near_models import in_words

        example = f"prices:\n        {unknown[0]}: {{input: 0.25, output: 2.00}}   # USD per million tokens"
        raise e.UsageError(
            f"there is a budget, but nobody knows the price of {in_words(unknown)}",
            where=plan.file,
            fix=f"correct the name, or state the price in the study file:\n      {example}",
        )


def _count_ending(gateway: Gateway, reason: str | None) -> None:
    if reason is None:
        gateway.breaker.success("trials")
    else:
        gateway.breaker.failure("trials", reason)


def _first(many: BaseExceptionGroup[BaseException]) -> BaseException:
    found: Iterable[BaseException] = many.exceptions
    while True:
        error = next(iter(found))
        if not isinstance(error, BaseExceptionGroup):
            return error
        found = chain(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
