"""Actors in a world, turn by turn: what happens by itself, what is said, what is decided, what becomes of it.

S1. Whatever actors do at the same time they are asked at the same time, in the order of their names: nothing that an
    actor reads depends on the order in which actors are listed, or on what another decides in the same turn.
S2. A private word is heard by its audience. No other actor's prompt has it, nor the narrator's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from trialrun.core.errors import ProcedureError
from trialrun.core.paths import as_map
from trialrun.core.ports import Lab, Outcome
from trialrun.core.reading.catalogue import Better, Contents, ProcedureFacts, SettingFacts
from trialrun.core.reading.objection import Objection
from trialrun.core.study import Trial
from trialrun.procedures.judging import judge_all
from trialrun.procedures.scenario import checking, decisions, events, measuring, memory, talks
from trialrun.procedures.scenario.checking import Issue
from trialrun.procedures.scenario.conditions import all_hold
from trialrun.procedures.scenario.history import History, Turn
from trialrun.procedures.scenario.reading import Reading
from trialrun.procedures.scenario.stage import Stage
from trialrun.procedures.scenario.world import CHECKER, NARRATOR, WORLD, Actor, World

Data = Mapping[str, object]
SETTING = "world"
VERSION = "1"
_ACTOR_TOKENS, _NARRATOR_TOKENS, _SHORT_TOKENS = 1500, 2500, 600


def contents(part: Data) -> Contents:
    """The parties and measures of the scenario that a study runs, and what is wrong with it."""
    given = as_map((as_map(part.get("settings")) or {}).get(SETTING))
    if given is None or not given:
        return Contents()
    reading = Reading(given, ("settings", SETTING))
    world = reading.world
    if world is None:
        return Contents(objections=tuple(reading.found))
    better: dict[str, Better] = {
        name: metric.better for metric in world.metrics if metric.better for name in metric.measures
    }
    parties = parties_of(world)
    there = as_map(part.get("parties")) or {}
    missing = [
        Objection(("settings", SETTING), f"the scenario needs a party `{name}`", f"add `parties.{name}`")
        for name in parties
        if name not in there
    ]
    return Contents(
        parties=parties,
        measures=measures_of(world),
        better={
            **better,
            **({"success": "higher"} if world.success or world.failure else {}),
            **({"issues": "lower"} if world.rules.checks else {}),
        },
        objections=(*reading.found, *missing),
    )


def parties_of(world: World) -> dict[str, Data]:
    """The actors, and who narrates, extracts and checks, as a study file would declare them."""
    found = {actor.name: _party_of(actor, world) for actor in world.actors}
    found[NARRATOR] = _model_of(world.narrator_model, _NARRATOR_TOKENS)
    for metric in world.metrics:
        if metric.method == "model":
            found[metric.party] = _model_of(metric.model or world.narrator_model, _SHORT_TOKENS)
    if world.rules.checks:
        found[CHECKER] = _model_of(world.rules.model or world.narrator_model, _SHORT_TOKENS)
    return found


def _party_of(actor: Actor, world: World) -> Data:
    if actor.control == "human":
        return {"human": True}
    found = _model_of(actor.model or world.narrator_model, actor.max_tokens or _ACTOR_TOKENS)
    return found if actor.temperature is None else {**found, "temperature": actor.temperature}


def _model_of(model: str, max_tokens: int) -> dict[str, object]:
    return {**({"model": model} if model else {}), "max_tokens": max_tokens}


def measures_of(world: World) -> tuple[str, ...]:
    """Everything that a trial measures, whether it turned out well first."""
    names = [name for metric in world.metrics for name in metric.measures]
    first = ["success"] if world.success or world.failure else []
    return (*first, *names, *(["issues"] if world.rules.checks else []))


FACTS = ProcedureFacts(
    help="Actors in a world: they talk, decide at the same time, and a narrator says what becomes of it.",
    settings={
        SETTING: SettingFacts(
            kind="folder",
            is_required=True,
            help="The folder of the scenario: scenario.yaml, actors/, metrics.yaml, background/ and more.",
        )
    },
    measures=("success", "issues"),
    contents=contents,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """Runs a scenario to its end: a success, a failure, or its length."""

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        world = _world_of(trial)
        history = History(state=world.opening)
        issues: list[Issue] = []
        end_reason = "max_turns"
        stage = None
        while end_reason == "max_turns" and lab.turn < world.turns:
            async with lab.next_turn() as number:
                stage = Stage(world=world, history=history, turn=Turn(number=number), parties=trial.parties)
                found = await play(lab, stage)
                issues += found
                end_reason = _end_of(stage, found, len(issues))
                history.turns.append(stage.turn)
                history.state = stage.turn.state
        if stage is not None:
            await _close(lab, stage, issues, end_reason)
        await judge_all(lab, trial.judges)
        return Outcome(values={"outcome": _outcome(end_reason), "turns": lab.turn}, end_reason=end_reason)


async def play(lab: Lab, stage: Stage) -> list[Issue]:
    """One turn. Returns what the quality checks found in it."""
    world = stage.world
    await memory.fold(lab, stage)
    _happen(lab, stage)
    if world.bilateral:
        await talks.bilateral(lab, stage)
    if world.coalitions:
        await talks.coalitions(lab, stage)
    if world.statements:
        await talks.statements(lab, stage)
    await decisions.decide(lab, stage)
    await decisions.update_world(lab, stage)
    await measuring.measure(lab, stage)
    return await checking.check(lab, stage) if world.rules.is_each_turn else []


def _happen(lab: Lab, stage: Stage) -> None:
    """What happens in this turn by itself."""
    chance = lab.random("events")
    draws = {name: chance.random() for name in events.random_ones(stage.world.events)}
    history = stage.history
    found = events.due(
        stage.world.events,
        turn=stage.turn.number,
        values=history.values,
        happened=history.happened,
        draws=draws,
    )
    for event in found:
        stage.turn.events.append(event.text)
        lab.say(WORLD, event.text)
        lab.state(WORLD, event=event.id, text=event.text)
    history.happened |= {event.id for event in found}


def _end_of(stage: Stage, found: list[Issue], issues: int) -> str:
    world, values = stage.world, stage.history.values
    if all_hold(world.failure, values):
        return "failure"
    if all_hold(world.success, values):
        return "success"
    if all_hold(world.until, values):
        return "condition"
    return "quality" if checking.halts(stage, found, issues) else "max_turns"


async def _close(lab: Lab, stage: Stage, issues: list[Issue], end_reason: str) -> None:
    """What is taken from the trial as a whole."""
    world = stage.world
    if not world.rules.is_each_turn:
        # The last turn is over and in the history: it is looked at as it was before.
        issues += await checking.check(lab, _as_it_was(stage))
    checking.keep_summary(lab, stage, issues)
    await measuring.measure_by_hand(lab, stage)
    if world.rules.checks:
        lab.measure("issues", len(issues))
    if world.success or world.failure:
        _measure_success(lab, stage, end_reason)


def _measure_success(lab: Lab, stage: Stage, end_reason: str) -> None:
    """Whether it turned out well; missing where a metric that decides it was never there."""
    world = stage.world
    unknown = [
        condition.metric
        for condition in (*world.success, *world.failure)
        if condition.metric not in stage.history.values
    ]
    if end_reason not in ("success", "failure") and unknown:
        lab.measure("success", None, note=f"`{unknown[0]}` never had a value")
        return
    lab.measure("success", end_reason == "success" if world.success else end_reason != "failure")


def _as_it_was(stage: Stage) -> Stage:
    past = stage.history
    before = past.turns[-2].state if len(past.turns) > 1 else stage.world.opening
    then = History(
        state=before, turns=past.turns[:-1], summary=past.summary, memories=past.memories, values=past.values
    )
    return Stage(world=stage.world, history=then, turn=stage.turn, parties=stage.parties)


def _outcome(end_reason: str) -> str:
    return end_reason if end_reason in ("success", "failure") else "open"


def _world_of(trial: Trial) -> World:
    reading = Reading(cast("Data", trial.settings[SETTING]), ("settings", SETTING))
    if reading.world is None or reading.found:
        what = reading.found[0] if reading.found else None
        raise ProcedureError(
            f"the scenario cannot be read: {what.what if what else 'it is empty'}",
            fix=what.fix if what else "",
        )
    return reading.world
