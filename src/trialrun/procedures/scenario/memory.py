"""What is kept of turns that are too long ago to be told in full: a summary that everybody shares, made by the
narrator of what was public, and for each actor its own notes on its private talks."""

from collections.abc import Awaitable, Callable

from trialrun.core.ports import Lab
from trialrun.procedures.scenario import forms, prompts
from trialrun.procedures.scenario.history import Turn
from trialrun.procedures.scenario.stage import Stage, filled, own_prompt, written
from trialrun.procedures.scenario.world import NARRATOR, Actor

_ASKED = "Write one summary of all of it, in at most 150 words. Keep who did what, numbers, promises, open questions."


async def fold(lab: Lab, stage: Stage) -> None:
    """Put the turn that has just left the window into the summaries."""
    history, world = stage.history, stage.world
    if len(history.turns) <= world.window:
        return
    gone = history.turns[-world.window - 1]
    private = [
        actor for actor in stage.by_model() if gone.talks_of(actor.name) and stage.kind_of(actor) == "model"
    ]
    found = await lab.together(_public(stage, gone), *[_own(stage, gone, actor) for actor in private])
    history.summary = found[0]
    for actor, text in zip(private, found[1:], strict=True):
        history.memories[actor.name] = text


def _public(stage: Stage, gone: Turn) -> Callable[[Lab], Awaitable[str]]:
    text = prompts.sections(
        ("Summary until then", stage.history.summary),
        ("What happened next", prompts.turn_text(gone, prompts.titles(stage.world))),
        ("Your task", _ASKED),
    )

    async def summary(lab: Lab) -> str:
        system = prompts.narrator_system(stage.world, own_prompt(lab, stage.parties[NARRATOR]))
        data = await filled(lab, NARRATOR, text, forms.SUMMARY, "summary", system=system)
        return written(data, "summary", NARRATOR)

    return summary


def _own(stage: Stage, gone: Turn, actor: Actor) -> Callable[[Lab], Awaitable[str]]:
    names = prompts.titles(stage.world)
    talks = "\n\n".join(prompts.talk_text(talk, names) for talk in gone.talks_of(actor.name))
    text = prompts.sections(
        ("Your notes until then", stage.history.memories.get(actor.name, "")),
        (f"Your private talks in turn {gone.number}", talks),
        ("Your task", _ASKED),
    )

    async def notes(lab: Lab) -> str:
        system = prompts.actor_system(stage.world, actor, own_prompt(lab, stage.parties[actor.name]))
        data = await filled(lab, actor.name, text, forms.SUMMARY, "summary", system=system)
        return written(data, "summary", actor.name)

    return notes
