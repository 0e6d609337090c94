"""Runs the unfinished trials of a study side by side, and stops in good order.

E1. Memory depends on the trials that are open, not on the trials of the study: the order is a stream.
E2. Trials begin in the planned order; planned and actual place are both in the journal.
E3. One trial's failure touches no other. What stops the study lets calls in flight settle first.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.ports import Clock, Command, Door, Journal, Procedure
from trialrun.core.state import TrialState, in_force
from trialrun.core.study import Limits, Spec, Trial
from trialrun.engine.record import Record, before_turn, hashes_of
from trialrun.engine.sitting import Mode, Sitting
from trialrun.engine.trials import run_trial

_CHUNK = 500
_POLL_S = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A trial in its planned place. A fork has a source and no place."""

    trial: Trial
    block: int = 0
    planned: int = 0
    source: str = ""
    turn: int = 0
    before: Spec | None = None


class Money(Protocol):
    """What the engine tells the gateway's ledger."""

    def open_trial(self, trial: str, state: TrialState | None) -> None: ...

    def close_trial(self, trial: str) -> None: ...

    def drain(self) -> None: ...


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counts of this run, for progress lines. The journal is the truth."""

    started: int = 0
    done: int = 0
    failed: int = 0
    parked: int = 0
    open: int = 0
    done_by_condition: dict[str, int] = field(default_factory=dict[str, int])
    stop: str = ""


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
    ended: Callable[[str | None], None]
    """Told of each ending: None, or why the trial failed. Raises BreakerOpen when it has seen enough."""
    snapshot: Callable[[Progress], dict[str, object]]
    """What the heartbeat publishes."""


class Run:
    """One run over the trials of a study."""

    def __init__(self, parts: Parts, *, first_place: int = 0) -> None:
        self.progress = Progress()
        self.stopped_by: BaseException | None = None
        self._parts = parts
        self._place = first_place
        self._ready: deque[Slot] = deque()
        self._closed: set[str] = set()
        self._draining = False
        self._news = asyncio.Event()

    def drain(self, reason: str) -> None:
        """Begin nothing new, let calls in flight settle, leave the rest unfinished."""
        if not self._draining:
            self._draining = True
            self.progress.stop = self.progress.stop or reason
            self._parts.money.drain()
            self._news.set()

    async def over(self, slots: Iterator[Slot], forks: Iterable[Slot] = (), *, wait: bool = False) -> None:
        """Run everything that is not ended. With `wait`, stay for the answers to open questions."""
        self._ready.extend(forks)
        room = asyncio.Semaphore(self._parts.limits.open_trials)
        try:
            async with asyncio.TaskGroup() as group:
                beat = group.create_task(self._beat())
                async with asyncio.TaskGroup() as trials:
                    async for slot in self._due(slots, wait):
                        await room.acquire()
                        if self._draining:
                            break
                        self.progress.open += 1
                        trials.create_task(self._one(slot, room))
                beat.cancel()
        except BaseExceptionGroup as many:
            raise _most_telling(many) from None
        finally:
            await self._publish()

    async def _due(self, slots: Iterator[Slot], wait: bool) -> AsyncIterator[Slot]:
        """What to run next: what became ready, then the planned order, then what may still be answered."""
        unfinished = self._unfinished(slots)
        while not self._draining:
            if self._ready:
                yield self._ready.popleft()
                continue
            slot = await anext(unfinished, None)
            if slot is not None:
                yield slot
            elif self.progress.open or (wait and self.progress.parked):
                # A trial that is open may park and be answered: that would be new work.
                self._news.clear()
                await self._news.wait()
            elif not self._ready:
                return

    async def _unfinished(self, slots: Iterator[Slot]) -> AsyncIterator[Slot]:
        while chunk := list(islice(slots, _CHUNK)):
            known = await self._parts.journal.states([slot.trial.id for slot in chunk])
            for slot in chunk:
                state = known.get(slot.trial.id)
                if state is not None and state.status == "parked":
                    self.progress.parked += 1
                elif slot.trial.condition.id not in self._closed and (state is None or not state.is_ended):
                    yield slot

    async def _one(self, slot: Slot, room: asyncio.Semaphore) -> None:
        trial = slot.trial
        try:
            sitting, state = await self._sit_down(slot)
            self._parts.money.open_trial(trial.id, state)
            try:
                ending = await run_trial(sitting, self._parts.procedure_of(trial.spec))
            except e.StudyStop as stop:
                ending = self._stop(stop)
            if ending is not None:
                self._parts.journal.append(trial.id, [ending])
            await self._parts.journal.commit()
            self._count(trial, ending)
        except e.StoreError as stop:
            self._stop(stop)
        finally:
            self._parts.money.close_trial(trial.id)
            self.progress.open -= 1
            room.release()
            self._news.set()

    async def _sit_down(self, slot: Slot) -> tuple[Sitting, TrialState | None]:
        """Everything that is known of the trial, ready for its replay."""
        journal, trial = self._parts.journal, slot.trial
        known = await journal.states([trial.id])
        state = known.get(trial.id)
        own = in_force(await journal.facts_of(trial.id)) if state is not None else []
        if not any(isinstance(entry.fact, f.Started) for entry in own):
            journal.append(trial.id, self._opening(slot))
            self.progress.started += 1
        before = before_turn(in_force(await journal.facts_of(slot.source)), slot.turn) if slot.source else []
        entries = before + own
        texts = await journal.texts(hashes_of(entries)) if entries else {}
        sitting = Sitting(
            trial=trial,
            record=Record.of(entries, texts),
            journal=journal,
            door=self._parts.door,
            clock=self._parts.clock,
            limits=self._parts.limits,
            mode=self._parts.mode,
            before_fork=slot.before,
            fork_turn=slot.turn,
        )
        return sitting, state

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
        return [started]

    def _stop(self, stop: e.StudyStop | e.StoreError) -> f.TrialFact | None:
        """Remember why, and let everything else settle."""
        if self.stopped_by is None:
            self.stopped_by = stop
        self.drain(stop.what)
        return f.StoppedByBudget(level=stop.level) if isinstance(stop, e.BudgetExhausted) else None

    def _count(self, trial: Trial, ending: f.TrialFact | None) -> None:
        progress = self.progress
        try:
            match ending:
                case f.Finished():
                    progress.done += 1
                    by_condition = progress.done_by_condition
                    by_condition[trial.condition.id] = by_condition.get(trial.condition.id, 0) + 1
                    self._parts.ended(None)
                case f.Failed():
                    progress.failed += 1
                    self._parts.ended(f"{ending.error}: {ending.reason}")
                case f.TimedOut():
                    progress.failed += 1
                    self._parts.ended(ending.reason)
                case f.Waiting():
                    progress.parked += 1
                case f.StoppedByBudget(level="condition"):
                    self._closed.add(trial.condition.id)
                case _:
                    pass
        except e.BreakerOpen as stop:
            self._stop(stop)

    # --- the outside ------------------------------------------------------------------------------------------------

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
            await self._parts.clock.sleep(_POLL_S)

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
                trial, [f.Answered(at=str(body["at"]), answer=str(body["answer"]), by=str(body.get("by", "")))]
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
