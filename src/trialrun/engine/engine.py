"""Runs the unfinished trials of a study side by side, and stops in good order.

E1. Memory depends on the trials that are open, not on the trials of the study: the order is a stream.
E2. Trials begin in the planned order; planned and actual place are both in the journal.
E3. One trial's failure touches no other. What stops the study lets calls in flight settle first.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Protocol

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.ports import Clock, Command, Door, Journal, Procedure, Utterance
from trialrun.core.state import BATCH, TrialState, before_turn, branching_of, in_force
from trialrun.core.study import Limits, Spec, Trial
from trialrun.engine.record import Record, hashes_of
from trialrun.engine.sitting import Mode, Sitting
from trialrun.engine.trials import run_trial

_CHUNK = 500
_POLL_S = 0.25
_IDLE_POLL_S = 1.0
"""While nothing but the slow lane is waited for, which may be a night."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A trial in its planned place. A fork has no place, and specifications of its sources."""

    trial: Trial
    block: int = 0
    planned: int = 0
    earlier: tuple[tuple[int, Spec], ...] = ()
    """Of a fork: until which turn which other specification is in force, earliest first."""
    judges: f.Judges | None = None
    """Of a trial that rates another one: which."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `judges` names."""


class Money(Protocol):
    """What the engine tells the gateway's ledger."""

    def open_trial(self, trial: str, state: TrialState | None) -> None: ...

    def close_trial(self, trial: str) -> None: ...

    def forget(self, trial: Trial, held_usd: Decimal) -> None:
        """A hold of an earlier run was for something that never left."""
        ...

    def drain(self) -> None: ...


class SlowLane(Protocol):
    """Where calls travel that take hours. Trials that wait for it are parked, and woken when something came."""

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that this run stays for."""
        ...

    def waits_for(self, trial: str, at: str = "") -> bool:
        """Whether something is out for this trial (or for its call at this address)."""
        ...

    def nothing_else(self) -> None:
        """No trial can go on by itself: what waits for company leaves now."""
        ...

    async def run(self, wake: Callable[[Sequence[str]], None]) -> None:
        """Carry what is out, and tell which trials may go on. Ends when it is cancelled."""
        ...

    async def rest(self, *, is_patient: bool) -> None:
        """Come to where nothing is lost by stopping. Patient: let everything that is out come back first.

        Raises what stopped the lane, if anything did.
        """
        ...


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counts of the planned trials as this run finds and leaves them. The journal is the truth."""

    started: int = 0
    ended_now: int = 0
    """Trials that ended in this run, well or not."""
    calls_of_ended: int = 0
    """Calls that they made in this run."""
    done_in_plan: int = 0
    failed_in_plan: int = 0
    parked: int = 0
    stopped_by_budget: int = 0
    forks_left: int = 0
    """Forks that have not ended, parked ones included."""
    forks_failed: int = 0
    open: int = 0
    done_by_condition: dict[str, int] = field(default_factory=dict[str, int])
    began_at: float = 0.0
    titles: dict[str, str] | None = None
    """Titles of the first conditions, kept here by whoever shows the progress."""
    stop: str = ""

    def count_done(self, condition: str) -> None:
        self.done_in_plan += 1
        self.done_by_condition[condition] = self.done_by_condition.get(condition, 0) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a run is made of."""

    journal: Journal
    door: Door
    money: Money
    clock: Clock
    limits: Limits
    mode: Mode
    session: str
    procedure_of: Callable[[Spec], Procedure]
    reopen: Callable[[TrialState], Awaitable[Slot | None]]
    """The slot of a trial that was parked and has its answer."""
    measures_of: Callable[[Trial, Sequence[Utterance]], Mapping[str, float | None]]
    """Values that are taken from the transcript of a finished trial."""
    ended: Callable[[str | None], None]
    """Told of each ending: None, or why the trial failed. Raises BreakerOpen when it has seen enough."""
    snapshot: Callable[[Progress], dict[str, object]]
    """What the heartbeat publishes."""
    slow: SlowLane | None = None


class Run:
    """One run over the trials of a study."""

    def __init__(self, parts: Parts, *, first_place: int = 0) -> None:
        self.progress = Progress()
        self.stopped_by: BaseException | None = None
        self._parts = parts
        self._place = first_place
        self._ready: deque[Slot] = deque()
        self._woken: deque[str] = deque()
        """Trials that were parked and may go on, by id: there may be very many."""
        self._busy: set[str] = set()
        """Trials that are open or about to be: what comes for them meanwhile must not open them twice."""
        self._closed: set[str] = set()
        self._draining = False
        self._is_patient = False
        self._news = asyncio.Event()

    def drain(self, reason: str, *, is_patient: bool = False) -> None:
        """Begin nothing new, let calls in flight settle, leave the rest unfinished.

        Patient: also wait for what is out in the slow lane; a person who wants to stop does not mean that.
        """
        if not self._draining:
            self._draining = True
            self._is_patient = is_patient
            self.progress.stop = self.progress.stop or reason
            self._parts.money.drain()
            self._news.set()

    def expect_forks(self, due: int, *, parked: int, failed: int) -> None:
        """Begin with what earlier runs left of the forks."""
        self.progress.forks_left = due + parked
        self.progress.forks_failed = failed
        self.progress.parked += parked

    async def over(self, slots: Iterator[Slot], forks: Iterable[Slot] = (), *, wait: bool = False) -> None:
        """Run everything that is not ended. With `wait`, stay for the answers to open questions."""
        self._ready.extend(forks)
        room = asyncio.Semaphore(self._parts.limits.open_trials)
        try:
            async with asyncio.TaskGroup() as group:
                beat = group.create_task(self._beat())
                carrying = group.create_task(self._carry())
                async with asyncio.TaskGroup() as trials:
                    async for slot, is_new in self._due(slots, wait):
                        await room.acquire()
                        if self._draining:
                            break
                        self.progress.open += 1
                        self._busy.add(slot.trial.id)
                        trials.create_task(self._one(slot, is_new, room))
                await self._rest()
                carrying.cancel()
                beat.cancel()
        except BaseExceptionGroup as many:
            raise _most_telling(many) from None
        finally:
            await self._publish()

    async def _due(self, slots: Iterator[Slot], wait: bool) -> AsyncIterator[tuple[Slot, bool]]:
        """What to run next, and whether it never began: what became ready, then the planned order, then answers."""
        unfinished = self._unfinished(slots)
        while not self._draining:
            if self._ready:
                yield self._ready.popleft(), False
                continue
            if self._woken:
                await self._reopen_some()
                continue
            due = await anext(unfinished, None)
            if due is not None:
                yield due
            elif self._may_go_on(wait):
                self._news.clear()
                await self._news.wait()
            elif not self._ready and not self._woken:
                return

    def _may_go_on(self, wait: bool) -> bool:
        """Whether new work may come of what is under way: a trial that is open may park and be answered."""
        slow = self._parts.slow
        if slow is not None and not self.progress.open:
            slow.nothing_else()
        return bool(
            self.progress.open or (wait and self.progress.parked) or (slow is not None and slow.is_busy)
        )

    async def _reopen_some(self) -> None:
        """Make slots of the next trials that may go on."""
        ids = [self._woken.popleft() for _ in range(min(_CHUNK, len(self._woken)))]
        known = await self._parts.journal.states(ids)
        for id_ in ids:
            state = known.get(id_)
            if state is not None and not state.is_ended and id_ not in self._busy:
                slot = await self._parts.reopen(state)
                if slot is not None:
                    self.progress.parked -= 1
                    self._busy.add(id_)
                    self._ready.append(slot)

    async def _unfinished(self, slots: Iterator[Slot]) -> AsyncIterator[tuple[Slot, bool]]:
        while chunk := list(islice(slots, _CHUNK)):
            known = await self._parts.journal.states([slot.trial.id for slot in chunk])
            for slot in chunk:
                state = known.get(slot.trial.id)
                if state is not None and self._needs_nothing(state):
                    self._count_earlier(slot.trial, state)
                elif slot.trial.id in self._busy:
                    continue
                elif slot.trial.condition.id not in self._closed:
                    yield slot, state is None
                else:
                    self.progress.stopped_by_budget += 1

    def _needs_nothing(self, state: TrialState) -> bool:
        """Whether it ended, or waits for something that will wake it."""
        slow = self._parts.slow
        if state.status == "parked" and state.waiting_for == BATCH:
            return slow is not None and slow.waits_for(state.id)
        return state.is_ended or state.status == "parked"

    def _count_earlier(self, trial: Trial, state: TrialState) -> None:
        """A trial that needs nothing from this run."""
        if state.status == "done":
            self.progress.count_done(trial.condition.id)
        elif state.status == "parked":
            self.progress.parked += 1
        else:
            self.progress.failed_in_plan += 1

    async def _one(self, slot: Slot, is_new: bool, room: asyncio.Semaphore) -> None:
        trial = slot.trial
        ending: f.TrialFact | None = None
        try:
            sitting, state = await self._sit_down(slot, is_new)
            if state is not None and state.is_ended:
                return  # something came for it, and it was opened and ended, before its place in the order came
            self._parts.money.open_trial(trial.id, state)
            try:
                ending = await run_trial(sitting, self._parts.procedure_of(trial.spec))
            except e.StudyStop as stop:
                ending = self._stop(stop)
            if ending is not None:
                # Nobody waits for it to be durable: what it stands on is, and a kill now only means a replay.
                self._parts.journal.append(trial.id, [ending])
            if isinstance(ending, f.Finished | f.Failed | f.TimedOut):
                self.progress.ended_now += 1
                self.progress.calls_of_ended += sitting.calls
            self._count(slot, ending)
        except e.StoreError as stop:
            self._stop(stop)
        finally:
            self._parts.money.close_trial(trial.id)
            self._busy.discard(trial.id)
            self.progress.open -= 1
            room.release()
            if isinstance(ending, f.Waiting):
                self._wake_if_answered(trial.id, ending)
            self._news.set()

    async def _sit_down(self, slot: Slot, is_new: bool) -> tuple[Sitting, TrialState | None]:
        """Everything that is known of the trial, ready for its replay."""
        journal, trial = self._parts.journal, slot.trial
        state = None if is_new else (await journal.states([trial.id])).get(trial.id)
        entire = await journal.facts_of(trial.id) if state is not None else []
        own = in_force(entire)
        if not any(isinstance(entry.fact, f.Started) for entry in own):
            journal.append(trial.id, self._opening(slot), slot.texts)
            self.progress.started += 1
        released = self._own_up(trial, own)
        entries = await shared_history(journal, own) + own
        texts = await journal.texts(hashes_of(entries)) if entries else {}
        sitting = Sitting(
            trial=trial,
            record=Record.of([*entries, *released], texts, before=entire[: len(entire) - len(own)]),
            journal=journal,
            door=self._parts.door,
            clock=self._parts.clock,
            limits=self._parts.limits,
            mode=self._parts.mode,
            measures_of=self._parts.measures_of,
            earlier=slot.earlier,
        )
        return sitting, state

    def _own_up(self, trial: Trial, entries: Sequence[f.Entry]) -> list[f.Entry]:
        """Attempts that were under way when a process died: nobody knows whether they were billed.

        One that only waited for its pack had not left; it is released, and its facts are given back.
        """
        open_: dict[tuple[str, int], f.Held] = {}
        for entry in entries:
            match entry.fact:
                case f.Held():
                    open_[entry.fact.at, entry.fact.attempt] = entry.fact
                case f.Settled() | f.Released() | f.Doubted() | f.Confirmed():
                    open_.pop((entry.fact.at, entry.fact.attempt), None)
                case _:
                    pass
        slow, released = self._parts.slow, list[f.Entry]()
        for held in open_.values():
            if held.lane == "batch":
                if slow is None or not slow.waits_for(trial.id, held.at):
                    released.append(self._release(trial, held))
                continue
            reason = "the process ended while it was in flight"
            doubted = f.Doubted(at=held.at, attempt=held.attempt, error="Interrupted", reason=reason)
            self._parts.journal.append(trial.id, [doubted])
        return released

    def _release(self, trial: Trial, held: f.Held) -> f.Entry:
        reason = "the process ended before its pack was built"
        fact = f.Released(at=held.at, attempt=held.attempt, error=f.NEVER_SENT, reason=reason)
        self._parts.journal.append(trial.id, [fact])
        self._parts.money.forget(trial, held.ceiling_usd or Decimal(0))
        return f.Entry(0, trial.id, 0.0, fact)

    def _opening(self, slot: Slot) -> list[f.TrialFact]:
        condition = slot.trial.condition
        started = f.Started(
            condition=condition.id,
            levels=condition.labels,
            replicate=slot.trial.replicate,
            block=slot.block,
            planned=slot.planned,
            actual=self._place,
            spec=slot.trial.spec.fingerprint,
            session=self._parts.session,
        )
        self._place += 1
        return [started] if slot.judges is None else [slot.judges, started]

    def _stop(self, stop: e.StudyStop | e.StoreError) -> f.TrialFact | None:
        """Remember why, and let everything else settle."""
        if self.stopped_by is None:
            self.stopped_by = stop
        self.drain(stop.what, is_patient=isinstance(stop, e.BudgetExhausted))
        return f.StoppedByBudget(level=stop.level) if isinstance(stop, e.BudgetExhausted) else None

    def _count(self, slot: Slot, ending: f.TrialFact | None) -> None:
        progress, is_fork = self.progress, bool(slot.earlier)
        try:
            match ending:
                case f.Finished():
                    if is_fork:
                        progress.forks_left -= 1
                    else:
                        progress.count_done(slot.trial.condition.id)
                    self._parts.ended(None)
                case f.Failed() | f.TimedOut():
                    progress.failed_in_plan += not is_fork
                    progress.forks_left -= is_fork
                    progress.forks_failed += is_fork
                    self._parts.ended(
                        f"{ending.error}: {ending.reason}" if isinstance(ending, f.Failed) else ending.reason
                    )
                case f.Waiting():
                    progress.parked += 1
                case f.StoppedByBudget():
                    progress.stopped_by_budget += 1
                    if ending.level == "condition":
                        self._closed.add(slot.trial.condition.id)
                case _:
                    pass
        except e.BreakerOpen as stop:
            self._stop(stop)

    def _wake_if_answered(self, trial: str, waiting: f.Waiting) -> None:
        """What a trial waits for in the slow lane may have come while it was still open."""
        slow = self._parts.slow
        if waiting.waiting_for == BATCH and slow is not None and not slow.waits_for(trial):
            self._wake_up([trial])

    # --- the outside ------------------------------------------------------------------------------------------------

    async def _carry(self) -> None:
        """Let the slow lane work; what stops it stops the run."""
        if self._parts.slow is not None:
            try:
                await self._parts.slow.run(self._wake_up)
            except (e.StudyStop, e.StoreError) as stop:
                self._stop(stop)

    async def _rest(self) -> None:
        if self._parts.slow is not None:
            try:
                await self._parts.slow.rest(is_patient=self._is_patient)
            except (e.StudyStop, e.StoreError) as stop:
                self._stop(stop)

    def _wake_up(self, trials: Sequence[str]) -> None:
        """These were parked, and something came for them; or, with none, the slow lane has other news."""
        self._woken.extend(trials)
        self._news.set()

    async def _beat(self) -> None:
        """Listen to other processes, and publish where the run stands."""
        rounds = 0
        while True:
            try:
                for command in await self._parts.journal.commands():
                    await self._obey(command)
                if rounds % 4 == 0:
                    await self._publish()
            except e.StoreError as stop:
                self._stop(stop)
                return
            rounds += 1
            await self._parts.clock.sleep(_POLL_S if self.progress.open else _IDLE_POLL_S)

    async def _publish(self) -> None:
        if not isinstance(self.stopped_by, e.StoreError):
            await self._parts.journal.heartbeat(self._parts.snapshot(self.progress))

    async def _obey(self, command: Command) -> None:
        journal, body = self._parts.journal, command.body
        if command.kind == "stop":
            self.drain("stopped from another process")
            await journal.take(command, answer=f"stopping; {self.progress.open} trials settle their calls")
        elif command.kind == "answer":
            trial = str(body["trial"])
            journal.append(
                trial,
                [f.Answered(at=str(body["at"]), answer=str(body["answer"]), by=str(body.get("by", "")))],
            )
            await journal.commit()
            await journal.take(command, answer="taken")
            await self._wake(trial)
        else:
            await journal.take(command, answer=f"unknown command `{command.kind}`")

    async def _wake(self, trial: str) -> None:
        state = (await self._parts.journal.states([trial])).get(trial)
        slot = await self._parts.reopen(state) if state and state.status == "running" else None
        if slot is not None:
            self.progress.parked -= 1
            self._ready.append(slot)
            self._news.set()


async def shared_history(journal: Journal, own: Sequence[f.Entry]) -> list[f.Entry]:
    """What a fork has in common with the trials that it branches off; empty for any other trial."""
    branching = branching_of(own)
    if branching is None:
        return []
    forked, seq = branching
    source = in_force(await journal.facts_of(forked.source), when=seq)
    return before_turn(await shared_history(journal, source) + source, forked.turn)


def _most_telling(many: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception of a group that explains the others: a bug of ours before a cancellation."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [many]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        else:
            flat.append(error)
    bugs = [error for error in flat if not isinstance(error, asyncio.CancelledError)]
    return (bugs or flat)[0]
