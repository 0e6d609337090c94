"""The two sides of a session: what an actor is told when it is to speak, and what it gives back.

An actor keeps what it needs between its turns; everything it learns comes through the lab, so a trial that is
replayed brings it to the same state.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from trialrun.core.calls import Message, Reply
from trialrun.core.errors import ProcedureError
from trialrun.core.ports import Lab
from trialrun.core.study import Party
from trialrun.procedures.therapy.prompts import Prompts

CLIENT, THERAPIST = "client", "therapist"
SILENCE = "(silence)"
"""What is written down when somebody says nothing at all; a model cannot be sent an empty message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Introduction:
    """What both sides know about the client before the first word. Everything else about it is hidden."""

    name: str = "the client"
    referral: str = ""
    goal: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What an actor knows when it is its turn to speak."""

    party: Party
    """The actor's own party, as it is in this turn."""
    partner: str
    """How the other side is called."""
    introduction: Introduction
    turn: int
    max_turns: int
    opening: str
    """What the side that speaks first is told to begin with."""
    note: str = ""
    """Said to this actor alone and in this turn alone, such as how many turns are left."""
    settings: Mapping[str, object]
    prompts: Prompts

    @property
    def aim(self) -> str:
        """What the sessions are for, in a sentence, if the introduction says so."""
        known = self.introduction
        return self.prompts.text("session.aim", name=known.name, goal=known.goal) if known.goal else ""

    def system(self, lab: Lab, key: str, **values: object) -> str:
        """The method's own instructions, and the party's prompt below them if it has one."""
        own = self.prompts.text(key, name=self.introduction.name, partner=self.partner, **values)
        return "\n\n".join(text for text in (own, self.prompt(lab)) if text)

    def prompt(self, lab: Lab) -> str:
        """The party's prompt from the study file."""
        return lab.render(self.party.name, partner=self.partner, max_turns=self.max_turns)

    def messages(self, lab: Lab, *, direction: str = "") -> list[Message]:
        """What the actor has heard, ending with the other side's words. Notes and directions stand below these words in
        this request and in no other, so nobody's history ever holds them."""
        messages = lab.heard_by(self.party.name)
        if not messages or messages[0].role == "assistant":
            messages.insert(0, Message("user", self.opening))
        below = [self.prompts.text("session.direction", text=direction)] if direction else []
        below += [self.note] if self.note else []
        if below:
            messages[-1] = Message("user", "\n\n".join([messages[-1].text, *below]))
        return messages

    def heard(self, lab: Lab) -> str:
        """The last thing that the other side said, or the opening."""
        said = [utterance.text for utterance in lab.transcript if utterance.party != self.party.name]
        return said[-1] if said else self.opening

    def talk(self, lab: Lab, *, last: int = 0) -> str:
        """The conversation as text, for a question about it; `last` keeps so many utterances of its end."""
        said = list(lab.transcript)[-last:] if last else lab.transcript
        names = {
            CLIENT: self.prompts.text("session.client"),
            THERAPIST: self.prompts.text("session.therapist"),
        }
        return "\n".join(f"{names.get(one.party, one.party)}: {one.text}" for one in said)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """What an actor says; why the session ends with it, if it does; and the hidden state that it said it in."""

    text: str | Reply
    ends: str = ""
    state: Mapping[str, object] = field(default_factory=dict[str, object])


class Actor(Protocol):
    """One side of a session."""

    async def speak(self, scene: Scene, lab: Lab) -> Line | Reply | str:
        """The next utterance."""
        ...


async def ask_data(
    scene: Scene,
    lab: Lab,
    question: str,
    schema: Mapping[str, object],
    *,
    purpose: str,
    system: str | None = None,
) -> Mapping[str, object]:
    """A question to the actor's own model beside the talk, answered as data of this schema."""
    party = scene.party.name
    told = system or scene.prompts.text("session.helper")
    reply = await lab.ask(party, question, system=told, schema=schema, purpose=purpose)
    if reply.data is None and reply.finish == "length":
        raise ProcedureError(
            f"the model of `{party}` did not finish its answer about `{purpose}`",
            fix=f"raise `parties.{party}.max_tokens`",
        )
    if reply.data is None:
        raise ProcedureError(
            f"the model of `{party}` declined to answer about `{purpose}` ({reply.finish})",
            fix=f"choose another model for `parties.{party}`; `--retry-failed` asks this one again",
        )
    return cast("Mapping[str, object]", reply.data)


def schema_of(**properties: Mapping[str, object]) -> dict[str, object]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def one_of(labels: Sequence[str]) -> dict[str, object]:
    """One of these texts."""
    return {"type": "string", "enum": list(labels)}


_SPEAKER = re.compile(r"\A\s*[*_]*(?:therapist|counsell?or|client|patient)[*_]*\s*:[*_]*\s*", re.IGNORECASE)


def unechoed(text: str, prompts: Prompts) -> str:
    """The utterance without directions and notes that a model wrote down instead of following them: they are for it
    alone, and what the other side hears is what it learns."""
    for key, value in (("session.direction", "text"), ("session.left", "turns")):
        before, _, after = prompts.text(key, **{value: "\0"}).partition("\0")
        head, close = re.escape(re.split(r"[.:]", before)[0]), re.escape(after.strip()[-1])
        text = re.sub(rf"\s*{head}.*?(?:{close}(?=\s*?(?:\n|\Z))|\Z)", "", text, flags=re.DOTALL)
    return text


def bare(text: str, *names: str) -> str:
    """The utterance without a speaker's name before it, which some models write although nobody asked."""
    stripped = _SPEAKER.sub("", text)
    for name in names:
        if name and stripped.lower().startswith(f"{name.lower()}:"):
            stripped = stripped[len(name) + 1 :]
    return stripped.strip()
