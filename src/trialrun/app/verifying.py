"""Replays a finished study offline and reports any difference: the journal must explain every outcome by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from trialrun.app.clock import SystemClock
from trialrun.app.forks import slot_of
from trialrun.app.judging.replays import Judged
from trialrun.app.running import measures_of
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.design import Design
from trialrun.core.errors import ReplayMismatch, TrialrunError
from trialrun.core.ports import Answer, Journal, Procedure
from trialrun.core.reading.parse import archived
from trialrun.core.reading.specs import Specs
from trialrun.core.state import TrialState, in_force
from trialrun.core.study import trial_of
from trialrun.engine.parts import Slot
from trialrun.engine.record import Record, hashes_of
from trialrun.engine.seating import shared_history
from trialrun.engine.sitting import Sitting
from trialrun.engine.time_limit import TimeLimit
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
    """Ended trials that did not finish, or ran with code that is no longer there: nothing to compare."""

    @property
    def is_exact(self) -> bool:
        """Whether something was compared, and all of it was the same."""
        return self.trials > 0 and not self.differences


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
    earlier = _Earlier(plan, await journal.facts_of(""))
    async for state in journal.with_status("done", "failed", "timed_out", "cancelled"):
        own = in_force(await journal.facts_of(state.id))
        entries = await shared_history(journal, own) + own
        slot = await _slot_of(journal, plan, judging, state, entries)
        if slot is None and not state.judging:
            then = await earlier.plan_at(journal, own)
            slot = await _slot_of(journal, then, judging, state, entries) if then else None
        if slot is None:
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


async def _slot_of(
    journal: Journal, plan: Plan, judging: Judged, state: TrialState, entries: Sequence[f.Entry]
) -> Slot | None:
    """The finished trial as this plan has it; None if it ran under another one."""
    if state.status != "done":
        return None
    condition = plan.design.by_labels(state.levels)
    if state.judging:
        slot = await judging.slot_of(state)
    elif condition is None:
        slot = None
    elif state.forked_from:
        slot = await slot_of(journal, plan, state)
    else:
        spec = plan.specs.spec_of(condition)
        slot = Slot(trial=trial_of(plan.study, condition, state.replicate, spec))
    return slot if slot is not None and _ran_under(entries) == _planned_under(slot) else None


class _Earlier:
    """The plans that were in force before: a trial that was kept is replayed under the one that it ran under."""

    def __init__(self, plan: Plan, entries: Sequence[f.Entry]) -> None:
        self._plan = plan
        self._declared = [(entry.seq, entry.fact) for entry in entries if isinstance(entry.fact, f.Declared)]
        self._made: dict[f.Hash, Plan] = {}

    async def plan_at(self, journal: Journal, own: Sequence[f.Entry]) -> Plan | None:
        """The plan under which the trial with these facts began, with the code of today."""
        began = next((entry.seq for entry in own if isinstance(entry.fact, f.Started)), 0)
        before = [declared for seq, declared in self._declared if seq < began]
        if not before:
            return None
        name = before[-1].document
        if name not in self._made:
            document = msgspec.json.decode((await journal.texts([name]))[name], type=dict[str, object])
            study = archived(document)
            self._made[name] = replace(
                self._plan,
                study=study,
                design=Design(study),
                specs=Specs(study, self._code_today),
            )
        return self._made[name]

    def _code_today(self, procedure: str) -> str:
        try:
            return self._plan.procedures.fingerprint(procedure)
        except TrialrunError:
            return ""


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
        time_limit=TimeLimit(plan.study.limits.trial_timeout_s),
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
