"""Runs the unfinished trials of a study side by side, and stops in good order.

E1. Memory depends on the trials that are open, not on the trials of the study: the order is a stream.
E2. Trials begin in the planned order; planned and actual place are both in the journal.
E3. One trial's failure touches no other. What stops the study lets calls in flight settle first.
E4. No trial begins beside others for whose ends the money is needed. Alone, one always does: nothing is left unspent.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.marks import Marks
from trialrun.core.ports import Command
from trialrun.core.state import BATCH, TrialState
from trialrun.core.study import Trial
from trialrun.engine.parts import Parts, Progress, Slot
from trialrun.engine.seating import Seating
from trialrun.engine.trials import run_trial

_CHUNK = 500
_POLL_S = 0.25
_IDLE_POLL_S = 1.0
"""While nothing but the slow lane is waited for, which may be a night."""


class Run:
    """One run over the trials of a study."""

    def __init__(self, parts: Parts, *, first_place: int = 0) -> None:
        self.progress = Progress()
        self.stopped_by: BaseException | None = None
        self._parts = parts
        self._seating = Seating(parts, self.progress, first_place=first_place)
        self._ready: deque[Slot] = deque()
        self._woken: deque[Iterator[str]] = deque()
        """Trials that were parked and may go on, by id, as they are wanted: there may be very many."""
        self._busy: set[str] = set()
        """Trials that are open or about to be: what comes for them meanwhile must not open them twice."""
        self._behind: set[str] = set()
        """Of these, the ones for which the slow lane brought something since they were opened."""
        self._closed: set[str] = set()
        self._parked = Marks()
        """Trials that wait, by id, of those that this run came by. All others are met in their place of the plan."""
        self._looked_up: set[str] = set()
        """Trials whose places come next, and whose states were read for it."""
        self._outdated: set[str] = set()
        """Of these, the ones for which something came since."""
        self._answers: set[tuple[str, str]] = set()
        """Questions that people answered during this run, by trial and address."""
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
                        self._parts.check()
                        await room.acquire()
                        if self._draining:
                            break
                        self.progress.count_open(slot.trial.condition.id, 1)
                        self._busy.add(slot.trial.id)
                        trials.create_task(self._one(slot, is_new, room))
                await self._rest()
                carrying.cancel()
                beat.cancel()
        except BaseExceptionGroup as many:
            raise _most_telling(many) from None
        finally:
            self._seating.time_limit.close()
            await self._publish()

    async def _due(self, slots: Iterator[Slot], wait: bool) -> AsyncIterator[tuple[Slot, bool]]:
        """What to run next, and whether it never began: what became ready, then the planned order, then answers."""
        unfinished = self._unfinished(slots)
        due: tuple[Slot, bool] | None = None
        while not self._draining:
            if self._ready:
                yield self._ready.popleft(), False
                continue
            if self._woken:
                await self._reopen_some()
                continue
            due = due or await anext(unfinished, None)
            if due is not None and self._may_begin_another():
                yield due
                due = None
            elif self._may_go_on(wait):
                self._news.clear()
                await self._news.wait()
            elif not self._ready and not self._woken:
                return

    def _may_begin_another(self) -> bool:
        """E4. With money for a few trials, these come to their end, instead of all to their middle."""
        slow = self._parts.slow
        under_way = self.progress.open + (len(self._parked) if slow is not None and slow.is_busy else 0)
        return not under_way or self._parts.money.carries(under_way + 1)

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
        ids = list(dict.fromkeys(islice(self._woken[0], _CHUNK)))
        if not ids:
            self._woken.popleft()
            return
        known = await self._parts.journal.states(ids)
        for id_ in ids:
            state = known.get(id_)
            if state is None or state.is_ended or id_ in self._busy or _waits_for_a_person(state):
                continue
            if id_ not in self._parked and not state.forked_from:
                if id_ in self._looked_up:
                    self._outdated.add(id_)
                continue
            slot = await self._parts.reopen(state)
            if slot is not None:
                self.progress.parked -= 1
                self._parked.discard(id_)
                self._busy.add(id_)
                self._ready.append(slot)

    async def _unfinished(self, slots: Iterator[Slot]) -> AsyncIterator[tuple[Slot, bool]]:
        while chunk := list(islice(slots, _CHUNK)):
            self._outdated.clear()
            self._looked_up = {slot.trial.id for slot in chunk}
            known = await self._parts.journal.states([slot.trial.id for slot in chunk])
            for slot in chunk:
                if slot.trial.id in self._outdated:
                    known |= await self._parts.journal.states([slot.trial.id])
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
            return slow is not None and slow.waits_for(state)
        return state.is_ended or state.status == "parked"

    def _count_earlier(self, trial: Trial, state: TrialState) -> None:
        """A trial that needs nothing from this run."""
        if state.status == "done":
            self.progress.count_done(trial.condition.id)
        elif state.status == "parked":
            self._park(trial.id)
        else:
            self.progress.failed_in_plan += 1

    def _park(self, trial: str) -> None:
        self.progress.parked += 1
        self._parked.add(trial)

    async def _one(self, slot: Slot, is_new: bool, room: asyncio.Semaphore) -> None:
        trial = slot.trial
        ending: f.TrialFact | None = None
        is_answered = False
        try:
            self._behind.discard(trial.id)
            sitting, state = await self._seating.sit_down(slot, is_new, lambda: trial.id in self._behind)
            if state is not None and state.is_ended:
                return  # something came for it, and it was opened and ended, before its place in the order came
            self._parts.money.open_trial(trial.id, state)
            try:
                ending = await run_trial(sitting, self._parts.procedure_of(trial.spec))
            except e.StudyStop as stop:
                ending = self._stop(stop)
            is_answered = isinstance(ending, f.Waiting) and self._has_come(trial.id, ending)
            if is_answered:
                ending = None
                await self._parts.journal.commit()
            if ending is not None:
                # Nobody waits for it to be durable: what it stands on is, and a kill now only means a replay.
                self._parts.journal.append(trial.id, [ending])
            if isinstance(ending, f.Waiting) and ending.waiting_for != BATCH:
                await self._parts.journal.commit()  # a person cannot answer what cannot be read yet
            if isinstance(ending, f.Finished | f.Failed | f.TimedOut):
                self.progress.ended_now += 1
                self.progress.calls_of_ended += sitting.calls
            self._count(slot, ending)
        except e.StoreError as stop:
            self._stop(stop)
        finally:
            self._parts.money.close_trial(trial.id)
            self.progress.count_open(trial.condition.id, -1)
            room.release()
            if is_answered:
                self._ready.append(slot)
            else:
                self._busy.discard(trial.id)
                self._behind.discard(trial.id)
            self._news.set()

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
                    self._park(slot.trial.id)
                case f.StoppedByBudget():
                    progress.stopped_by_budget += 1
                    if ending.level == "condition":
                        self._closed.add(slot.trial.condition.id)
                case _:
                    pass
        except e.BreakerOpen as stop:
            self._stop(stop)

    def _has_come(self, trial: str, waiting: f.Waiting) -> bool:
        """Whether what it waits for came while the trial was open, too late for this sitting to hear of it."""
        if waiting.waiting_for == BATCH:
            return trial in self._behind
        kind, _, at = waiting.waiting_for.partition(":")
        return kind == "human" and (trial, at) in self._answers

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

    def _wake_up(self, trials: Iterable[str]) -> None:
        """These were parked, and something came for them; or, with none, the slow lane has other news."""
        self._woken.append(iter(trials))
        self._behind.update(self._busy.intersection(trials))
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
            trial, at = str(body["trial"]), str(body["at"])
            if (trial, at) in self._answers:
                await journal.take(command, answer="it was answered before")
                return
            # No await between the two: a trial that parks meanwhile must either find the answer, or be woken by it.
            self._answers.add((trial, at))
            journal.append(trial, [f.Answered(at=at, answer=str(body["answer"]), by=str(body.get("by", "")))])
            await journal.commit()
            await journal.take(command, answer="taken")
            self._wake_up([trial])
        else:
            await journal.take(command, answer=f"unknown command `{command.kind}`")


def _waits_for_a_person(state: TrialState) -> bool:
    return state.status == "parked" and state.waiting_for != BATCH


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
