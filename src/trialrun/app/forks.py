"""Branches of trials: what would have happened if, from some turn on, one thing had been different."""

from collections.abc import Mapping
from dataclasses import dataclass

from trialrun.app.clock import SystemClock
from trialrun.app.studies import Plan
from trialrun.core import chance, identity
from trialrun.core import facts as f
from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.ports import Journal
from trialrun.core.reading.texts import is_character
from trialrun.core.state import BATCH, TrialState, branching_of, in_force
from trialrun.core.study import Condition, Spec, Trial
from trialrun.engine.parts import Slot
from trialrun.procedures.therapy.shelf import SHELF
from trialrun.store.journal import SqliteJournal


async def fork(plan: Plan, source: str, *, turn: int, overrides: Mapping[str, object]) -> str:
    """Plan a fork of a trial before this turn. The next run of the study carries it out. Returns its id."""
    journal = SqliteJournal.open(plan.folder, clock=SystemClock())
    try:
        return await plan_fork(journal, plan, source, turn=turn, overrides=overrides)
    finally:
        await journal.close()


async def plan_fork(
    journal: Journal, plan: Plan, source: str, *, turn: int, overrides: Mapping[str, object]
) -> str:
    """The same in an open journal. Planning the same fork twice is one fork."""
    state = (await journal.states([source])).get(source)
    if state is None:
        raise UsageError(
            f"there is no trial `{source}` in this study",
            where=str(plan.folder),
            fix="`trialrun plan STUDY --list` lists them",
        )
    if turn < 1 or turn > state.turns + 1:
        raise UsageError(
            f"trial `{source}` has {state.turns} turns and cannot branch at turn {turn}",
            fix=f"use `--at` with 1 to {state.turns + 1}",
        )
    condition = _condition_of(plan, state)
    overrides = {dotted: _named(dotted, value) for dotted, value in overrides.items()}
    _changed(plan, condition, overrides)
    root = state.id.rpartition("-f")[0] if state.forked_from else state.id
    id_ = f"{root}-{identity.fork_tag(source, turn, overrides)}"
    if id_ not in await journal.states([id_]):
        journal.append(id_, [f.Forked(source=source, turn=turn, overrides=dict(overrides))])
        await journal.commit()
    return id_


def _named(dotted: str, value: object) -> object:
    """A character that is given by name, as the data that the fork's own record has to hold."""
    if not isinstance(value, str) or not is_character(tuple(dotted.split("."))):
        return value
    if value not in SHELF:
        raise UsageError(f"there is no character `{value}`", fix=pick(value, SHELF))
    return dict(SHELF[value])


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What a run finds of the forks that were planned and are not done."""

    due: tuple[Slot, ...]
    parked: int
    failed: int


async def standing(journal: Journal, plan: Plan) -> Standing:
    """The forks that a run has to carry out, and how many wait for a person or failed.

    Those that wait for a batch are carried out: what they wait for may never have left, and if it has, they wait on.
    """
    due: list[TrialState] = []
    parked = failed = 0
    wanted = ("planned", "running", "stopped_by_budget", "parked", "failed", "timed_out", "cancelled")
    async for state in journal.with_status(*wanted):
        if not state.forked_from:
            continue
        if state.status == "parked" and state.waiting_for != BATCH:
            parked += 1
        elif state.is_ended:
            failed += 1
        else:
            due.append(state)
    return Standing(
        due=tuple([await slot_of(journal, plan, state) for state in due]), parked=parked, failed=failed
    )


async def slot_of(journal: Journal, plan: Plan, state: TrialState) -> Slot:
    """The fork, with the specifications that are in force before it branches off."""
    chain = await _chain(journal, state.id)
    root_id = chain[0].source
    root = (await journal.states([root_id]))[root_id]
    condition = _condition_of(plan, root)
    ladder: list[tuple[int, Spec]] = []
    overrides: dict[str, object] = {}
    for step in chain:
        ladder.append((step.turn, _changed(plan, condition, overrides)))
        overrides |= step.overrides
    trial = Trial(
        id=state.id,
        condition=condition,
        replicate=root.replicate,
        spec=_changed(plan, condition, overrides),
        # The chance of its source: what differs is what was set, and nothing else.
        key=chance.derive(plan.study.key, condition.id, root.replicate),
    )
    return Slot(trial=trial, block=root.block, planned=root.planned, earlier=tuple(ladder))


async def _chain(journal: Journal, trial: str) -> list[f.Forked]:
    """The branchings that lead to this fork, the oldest first."""
    own = in_force(await journal.facts_of(trial))
    branching = branching_of(own)
    return [] if branching is None else [*await _chain(journal, branching[0].source), branching[0]]


def _condition_of(plan: Plan, state: TrialState) -> Condition:
    condition = plan.design.by_labels(state.levels)
    if condition is None:
        raise UsageError(
            f"the plan no longer has the condition of trial `{state.id}`",
            where=plan.file,
            fix="put its levels back into `factors`, or fork from the study's folder, which keeps the old plan",
        )
    return condition


def _changed(plan: Plan, condition: Condition, overrides: Mapping[str, object]) -> Spec:
    return plan.specs.spec_with(condition, overrides) if overrides else plan.specs.spec_of(condition)
