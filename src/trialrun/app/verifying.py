"""Replays a finished study offline and reports any difference: the journal must explain every outcome by itself."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trialrun.app.clock import SystemClock
from trialrun.app.forks import slot_of
from trialrun.app.judging.replays import Judged
from trialrun.app.running import measures_of
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.errors import ReplayMismatch, TrialrunError
from trialrun.core.ports import Answer, Journal, Procedure
from trialrun.core.state import TrialState, in_force
from trialrun.core.study import trial_of
from trialrun.engine.parts import Slot
from trialrun.engine.record import Record, hashes_of
from trialrun.engine.seating import shared_history
from trialrun.engine.sitting import Sitting
from trialrun.engine.trials import run_trial
from trialrun.store.journal import SqliteJournal


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that a replay does not find as the journal has it."""

    trial: str
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What came of a verification."""

    trials: int
    differences: tuple[Difference, ...]
    skipped: int
    """Ended trials that ran under another plan than the present one, or did not finish: nothing to compare."""


class _NoDoor:
    """A verification asks nobody."""

    async def ask(
        self, call: Call, *, attempts_before: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        raise ReplayMismatch(f"a call to `{call.party}` is not in the journal", where=call.place)


async def verify(plan: Plan) -> Verified:
    """Replay every finished trial of the study's folder."""
    journal = SqliteJournal.open(plan.folder, clock=SystemClock())
    try:
        return await verify_all(journal, plan)
    finally:
        await journal.close()


async def verify_all(journal: Journal, plan: Plan) -> Verified:
    """The same with an open journal; trial by trial, so memory does not grow with the study."""
    differences: list[Difference] = []
    trials = skipped = 0
    judging = Judged(journal, plan)
    async for state, slot in _finished(journal, plan, judging):
        if slot is None:
            skipped += 1
            continue
        own = in_force(await journal.facts_of(state.id))
        entries = await shared_history(journal, own) + own
        if _ran_under(entries) != _planned_under(slot):
            skipped += 1
            continue
        trials += 1
        procedure = (
            judging.procedure_of(state) if state.judging else plan.procedures.make(slot.trial.spec.procedure)
        )
        differences += [
            Difference(trial=state.id, what=what)
            for what in await _replayed(journal, plan, entries, slot, procedure)
        ]
    return Verified(trials=trials, differences=tuple(differences), skipped=skipped)


async def _finished(
    journal: Journal, plan: Plan, judging: Judged
) -> AsyncIterator[tuple[TrialState, Slot | None]]:
    async for state in journal.with_status("done", "failed", "timed_out", "cancelled"):
        if state.judging:
            yield state, await judging.slot_of(state) if state.status == "done" else None
            continue
        condition = plan.design.by_labels(state.levels)
        if state.status != "done" or condition is None:
            yield state, None
        elif state.forked_from:
            yield state, await slot_of(journal, plan, state)
        else:
            spec = plan.specs.spec_of(condition)
            yield state, Slot(trial=trial_of(plan.study, condition, state.replicate, spec))


def _ran_under(entries: Sequence[f.Entry]) -> list[str]:
    """The specifications that a trial ran under, those of the trials that it branches off first."""
    return [entry.fact.spec for entry in entries if isinstance(entry.fact, f.Started)]


def _planned_under(slot: Slot) -> list[str]:
    return [spec.fingerprint for _, spec in slot.earlier] + [slot.trial.spec.fingerprint]


async def _replayed(
    journal: Journal, plan: Plan, entries: Sequence[f.Entry], slot: Slot, procedure: Procedure
) -> list[str]:
    record = Record.of(entries, await journal.texts(hashes_of(entries)))
    sitting = Sitting(
        trial=slot.trial,
        record=record,
        journal=journal,
        door=_NoDoor(),
        clock=SystemClock(),
        limits=plan.study.limits,
        mode="verify",
        measures_of=measures_of,
        earlier=slot.earlier,
    )
    try:
        ending = await run_trial(sitting, procedure)
    except TrialrunError as error:
        return [*sitting.differences, error.what]
    recorded = next((entry.fact for entry in reversed(entries) if isinstance(entry.fact, f.Finished)), None)
    found = list(sitting.differences)
    if ending != recorded:
        found.append(f"the outcome: {_spelled(recorded)} became {_spelled(ending)}")
    missed = record.addresses() - sitting.visited
    if missed and not found:
        found.append(f"the replay never came to {', '.join(sorted(missed)[:5])}")
    return found


def _spelled(fact: f.TrialFact | None) -> str:
    return "nothing" if fact is None else msgspec.json.encode(fact).decode()[:200]
