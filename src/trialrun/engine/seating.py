"""Opens a trial: writes its beginning, owns up to what a dead process left open, and lays out what is on record.

S1. What was in flight when a process died is in doubt, and stays held; what had not left is released.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

from trialrun.core import facts as f
from trialrun.core.ports import Journal
from trialrun.core.state import TrialState, before_turn, branching_of, in_force
from trialrun.engine.parts import Parts, Progress, Slot
from trialrun.engine.record import Record, hashes_of
from trialrun.engine.sitting import Sitting
from trialrun.engine.time_limit import TimeLimit


class Seating:
    """Where trials are opened, and given their place in the actual order."""

    def __init__(self, parts: Parts, progress: Progress, *, first_place: int) -> None:
        self._parts = parts
        self._progress = progress
        self._place = first_place
        self.time_limit = TimeLimit(parts.limits.trial_timeout_s)
        """Of every trial that is opened here."""

    async def sit_down(
        self, slot: Slot, is_new: bool, is_behind: Callable[[], bool]
    ) -> tuple[Sitting, TrialState | None]:
        """Everything that is known of the trial, ready for its replay."""
        journal, trial = self._parts.journal, slot.trial
        if not is_new:
            # What it said when it was open a moment ago is sure to be read only when it is durable.
            await journal.commit()
        state = None if is_new else (await journal.states([trial.id])).get(trial.id)
        entire = await journal.facts_of(trial.id) if state is not None else []
        own = in_force(entire)
        if not any(isinstance(entry.fact, f.Started) for entry in own):
            journal.append(trial.id, self._opening(slot), slot.texts)
            self._progress.started += 1
        released = self._own_up(slot, own)
        if released:
            # What it holds is less now than when it was looked up; only what is durable is sure to be read.
            await journal.commit()
            state = (await journal.states([trial.id])).get(trial.id)
        entries = await shared_history(journal, own) + own
        texts = await journal.texts(hashes_of(entries)) if entries else {}
        sitting = Sitting(
            trial=trial,
            capped_by=slot.capped_by,
            record=Record.of([*entries, *released], texts, before=entire[: len(entire) - len(own)]),
            journal=journal,
            door=self._parts.door,
            clock=self._parts.clock,
            limits=self._parts.limits,
            time_limit=self.time_limit,
            mode=self._parts.mode,
            measures_of=self._parts.measures_of,
            earlier=slot.earlier,
            is_behind=is_behind,
        )
        return sitting, state

    def _own_up(self, slot: Slot, entries: Sequence[f.Entry]) -> list[f.Entry]:
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
        slow, trial, released = self._parts.slow, slot.trial, list[f.Entry]()
        for held in open_.values():
            if held.lane == "batch":
                if slow is None or not slow.has(trial.id, held.at, held.attempt):
                    released.append(self._release(slot, held))
                continue
            reason = "the process ended while it was in flight"
            doubted = f.Doubted(at=held.at, attempt=held.attempt, error="Interrupted", reason=reason)
            self._parts.journal.append(trial.id, [doubted])
        return released

    def _release(self, slot: Slot, held: f.Held) -> f.Entry:
        trial = slot.trial.id
        reason = "the process ended before its pack was built"
        fact = f.Released(at=held.at, attempt=held.attempt, error=f.NEVER_SENT, reason=reason)
        self._parts.journal.append(trial, [fact])
        self._parts.money.forget(slot.capped_by, trial, held.ceiling_usd or Decimal(0))
        return f.Entry(0, trial, 0.0, fact)

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


async def shared_history(journal: Journal, own: Sequence[f.Entry]) -> list[f.Entry]:
    """What a fork has in common with the trials that it branches off; empty for any other trial."""
    branching = branching_of(own)
    if branching is None:
        return []
    forked, seq = branching
    source = in_force(await journal.facts_of(forked.source), when=seq)
    return before_turn(await shared_history(journal, source) + source, forked.turn)
