"""What actors do, all at the same time, and what becomes of the world."""

from collections.abc import Awaitable, Callable

from trialrun.core.errors import ProcedureError
from trialrun.core.ports import Lab
from trialrun.procedures.scenario import forms, prompts
from trialrun.procedures.scenario.history import Decision
from trialrun.procedures.scenario.stage import Stage, filled, own_prompt, texts, written
from trialrun.procedures.scenario.world import NARRATOR, Actor

_TASK = (
    "Decide what you do in this turn. Everybody else decides at the same time, and nobody knows what the others will "
    "do. Say what you want in the long run and what comes next, both as of now; then your reasons, which nobody else "
    "reads; then your action, as others will see it."
)
_REFLECT = " Begin by reflecting on what your last actions brought you."


async def decide(lab: Lab, stage: Stage) -> None:
    """Everybody decides; only then does anybody hear of it."""
    actors = stage.world.actors
    decisions = await lab.together(*[_decision(stage, actor) for actor in actors])
    for actor, decision in zip(actors, decisions, strict=True):
        stage.turn.decisions[actor.name] = decision
        lab.say(actor.name, decision.action)
        lab.state(
            actor.name,
            long_term_goals=list(decision.goals),
            short_term_priorities=list(decision.priorities),
            reasoning=decision.reasoning,
            action=decision.action,
        )


def _decision(stage: Stage, actor: Actor) -> Callable[[Lab], Awaitable[Decision]]:
    reflects = stage.world.reflects

    async def decision(lab: Lab) -> Decision:
        if stage.kind_of(actor) == "script":
            return Decision(action=_scripted(stage, actor))
        if stage.kind_of(actor) == "human":
            return Decision(action=await stage.ask_person(lab, actor, "What do you do in this turn?"))
        task = _TASK + (_REFLECT if reflects else "")
        data = await stage.ask(lab, actor, task, forms.decision(reflects=reflects), "actor decision")
        reasons = [str(data.get("reflection", "")), str(data["reasoning"])]
        return Decision(
            action=written(data, "action", actor.name),
            reasoning="\n\n".join(reason.strip() for reason in reasons if reason.strip()),
            goals=texts(data["long_term_goals"]),
            priorities=texts(data["short_term_priorities"]),
        )

    return decision


def _scripted(stage: Stage, actor: Actor) -> str:
    lines = stage.parties[actor.name].lines
    if stage.turn.number > len(lines):
        raise ProcedureError(
            f"the script of `{actor.name}` has {len(lines)} lines, and turn {stage.turn.number} needs one more",
            fix=f"give `parties.{actor.name}.script` a line for each turn",
        )
    return lines[stage.turn.number - 1]


async def update_world(lab: Lab, stage: Stage) -> None:
    """The narrator merges what was done into the next state of the world."""
    system = prompts.narrator_system(stage.world, own_prompt(lab, stage.parties[NARRATOR]))
    asked = prompts.world_update(stage.world, stage.history, stage.turn)
    data = await filled(lab, NARRATOR, asked, forms.WORLD, "world update", system=system)
    turn = stage.turn
    turn.state = written(data, "world_state", NARRATOR)
    turn.changes = (*texts(data["key_changes"]), *texts(data["consequences"]))
    lab.say(NARRATOR, turn.state)
    lab.state(
        NARRATOR,
        key_changes=list(texts(data["key_changes"])),
        consequences=list(texts(data["consequences"])),
        world_state=turn.state,
    )
