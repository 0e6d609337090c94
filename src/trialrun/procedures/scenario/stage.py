"""Everything that the parts of a turn share: the world, its history, and how an actor is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from trialrun.core.calls import Reply
from trialrun.core.errors import ReplyUnreadable
from trialrun.core.ports import Lab
from trialrun.core.study import Party
from trialrun.procedures.scenario import prompts
from trialrun.procedures.scenario.forms import Form
from trialrun.procedures.scenario.history import History, Turn
from trialrun.procedures.scenario.world import Actor, World

Data = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One turn of one trial."""

    world: World
    history: History
    turn: Turn
    parties: Mapping[str, Party]

    def kind_of(self, actor: Actor) -> str:
        return self.parties[actor.name].kind

    def by_model(self) -> list[Actor]:
        """The actors that talk: models and people. A script only acts."""
        return [actor for actor in self.world.actors if self.kind_of(actor) != "script"]

    async def ask(self, lab: Lab, actor: Actor, task: str, form: Form, purpose: str) -> Data:
        """Ask an actor that is a model for something, in view of all that it knows."""
        system = prompts.actor_system(self.world, actor, own_prompt(lab, self.parties[actor.name]))
        return await filled(lab, actor.name, self.briefing(actor, task), form, purpose, system=system)

    async def ask_person(self, lab: Lab, actor: Actor, task: str, *options: str) -> str:
        """Put the same to a person."""
        system = prompts.actor_system(self.world, actor)
        question = f"{system}\n\n{self.briefing(actor, task)}"
        return await lab.ask_human(question, options=options, party=actor.name)

    def briefing(self, actor: Actor, task: str) -> str:
        known = prompts.briefing(self.world, self.history, self.turn, actor)
        return f"{known}\n\n{prompts.sections(('Your task', task))}"


def own_prompt(lab: Lab, party: Party) -> str:
    """What the study file adds for this party."""
    return lab.render(party.name) if party.prompt else ""


async def filled(lab: Lab, party: str, prompt: str, form: Form, purpose: str, *, system: str) -> Data:
    """A structured reply as data. One that was cut off holds nothing that can be used, and is no empty answer."""
    reply: Reply = await lab.ask(party, prompt, system=system, schema=form, purpose=purpose)
    if reply.data is None:
        raise ReplyUnreadable(
            f"the {purpose} of `{party}` ended early ({reply.finish})",
            fix=f"raise `parties.{party}.max_tokens`",
        )
    return cast("Data", reply.data)


def written(data: Data, key: str, party: str) -> str:
    """A text without which the turn cannot go on. Nothing is not taken for it."""
    text = str(data[key]).strip()
    if not text:
        raise ReplyUnreadable(
            f"`{party}` left `{key}` empty", fix="say in its prompt what to write, or use another model"
        )
    return text


def texts(value: object) -> tuple[str, ...]:
    """The lines of a list that a model wrote."""
    lines = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(str(line).strip() for line in lines if str(line).strip())
