"""One session: the therapist speaks, the client answers, until one of them ends it or the turns are used up.

A turn is one utterance of each. What the client hides is logged turn by turn and reaches no prompt of the
therapist: the two sides share an introduction and what was said, and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from trialrun.core.calls import Reply
from trialrun.core.errors import ProcedureError
from trialrun.core.ports import Lab, Outcome
from trialrun.core.reading.catalogue import MethodFacts, PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.study import Party, Spec, Trial
from trialrun.procedures.conversation import without_end
from trialrun.procedures.judging import judge_all
from trialrun.procedures.therapy.actors import (
    CLIENT,
    SILENCE,
    THERAPIST,
    Actor,
    Introduction,
    Line,
    Scene,
    bare,
    unechoed,
)
from trialrun.procedures.therapy.prompts import LOCALES, prompts_of
from trialrun.procedures.therapy.registry import METHODS, default_method

VERSION = "1"
_ROLES = (THERAPIST, CLIENT)


def _facts_of_methods() -> dict[str, Mapping[str, MethodFacts]]:
    return {role: {name: way.facts for name, way in ways.items()} for role, ways in METHODS.items()}


FACTS = ProcedureFacts(
    help="A therapist and a simulated client talk; the client's hidden state is logged each turn.",
    settings={
        "max_turns": SettingFacts(
            default=20,
            kind="int",
            minimum=1,
            help="A turn is one utterance of the therapist and one of the client.",
        ),
        "remind_turns": SettingFacts(
            default=2,
            kind="int",
            minimum=0,
            help="In so many last turns the therapist is told how many are left; not part of the transcript.",
        ),
        "end_words": SettingFacts(
            default=["END", "[END]", "end", "exit"],
            kind="texts",
            help="Who says one of these alone, or as the last line, ends the session.",
        ),
        "locale": SettingFacts(default="en", kind="text", choices=LOCALES, help="Language of the prompts."),
        "topic_reader": SettingFacts(
            default="model",
            kind="text",
            choices=("model", "words"),
            help="Who finds the topic of the counsellor's words for consistentMI: a call, or a count of words.",
        ),
        "patience_turns": SettingFacts(
            default=10,
            kind="int",
            minimum=0,
            help="After so many turns, consistentMI holds talk that is far off its topic against the counsellor.",
        ),
        "receptivity_drift": SettingFacts(
            default=1.0,
            kind="number",
            minimum=0,
            maximum=4,
            help="How fast the receptivity of consistentMI moves with its engagement; 0 keeps it as it is.",
        ),
    },
    parties=PartyFacts(minimum=2, maximum=2, required=_ROLES, methods=_facts_of_methods()),
    variables=("partner", "max_turns"),
    notice="Simulated clients and therapists. This is not care, and says nothing about the care of anybody.",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Therapy:
    """A session between the parties `therapist` and `client`."""

    load: Callable[[str], object] | None = None
    """Finds a method of the user (`./file.py:Name`)."""

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        stage = _Stage(self.load)
        ends = ""
        # A fork may shorten or lengthen the session; before its turn, its source's limit holds as well.
        while not ends and lab.turn < max(_max_turns(lab.spec), _max_turns(trial.spec)):
            async with lab.next_turn() as turn:
                for role in _ROLES:
                    ends = await stage.utterance(role, turn, lab)
                    if ends:
                        break
        await judge_all(lab, trial.judges)
        turns = sum(said.party == CLIENT for said in lab.transcript)
        return Outcome(values={"turns": turns}, end_reason=ends or "max_turns")


class _Stage:
    """The actors of a session. One whose part changes, because a fork changed it, begins anew in the same talk."""

    def __init__(self, load: Callable[[str], object] | None) -> None:
        self._load = load
        self._cast: dict[str, tuple[object, Actor]] = {}

    async def utterance(self, role: str, turn: int, lab: Lab) -> str:
        """Let one side speak. Returns why the session ends with it, or an empty text."""
        party = lab.spec.parties[role]
        scene = _scene(party, turn, lab.spec)
        line = await self._actor(party).speak(scene, lab)
        line = line if isinstance(line, Line) else Line(text=line)
        if line.state:
            lab.state(role, **line.state)
        end_words = tuple(cast("list[str]", lab.spec.settings["end_words"]))
        is_model, text = isinstance(line.text, Reply), str(line.text)
        words, is_end = without_end(unechoed(text, scene.prompts) if is_model else text, end_words)
        words = bare(words, scene.introduction.name) if is_model else words
        if words or not (is_end or line.ends):
            said = words.strip() or SILENCE
            lab.say(role, line.text if said == str(line.text) else said)
        return line.ends or (f"ended_by:{role}" if is_end else "")

    def _actor(self, party: Party) -> Actor:
        part = (party.kind, party.method, party.character, party.style, party.lines)
        known = self._cast.get(party.name)
        if known is None or known[0] != part:
            self._cast[party.name] = known = (part, self._made(party))
        return known[1]

    def _made(self, party: Party) -> Actor:
        method = party.method or default_method(party)
        way = METHODS[party.name].get(method)
        if way is not None:
            return way.make(party)
        found = self._load(method) if self._load is not None else None
        if not callable(found):
            raise ProcedureError(
                f"`{method}` is no method of `{party.name}`",
                fix="write a class that takes the party and has `async def speak(self, scene, lab)`",
            )
        return cast("Actor", found(party))


def introduction_of(client: Party) -> Introduction:
    """What the therapist may know of this client: three fields of its character, or of its values without one."""
    known = client.character or client.values
    given = {key: str(known[key]) for key in ("name", "referral", "goal") if known.get(key)}
    return Introduction(**given)


def _scene(party: Party, turn: int, spec: Spec) -> Scene:
    prompts = prompts_of(str(spec.settings["locale"]))
    introduction = introduction_of(spec.parties[CLIENT])
    left = _max_turns(spec) - turn + 1
    is_reminded = party.name == THERAPIST and left <= cast("int", spec.settings["remind_turns"])
    therapist = str(spec.parties[THERAPIST].values.get("name") or prompts.text("session.the_therapist"))
    return Scene(
        party=party,
        partner=introduction.name if party.name == THERAPIST else therapist,
        introduction=introduction,
        turn=turn,
        max_turns=_max_turns(spec),
        opening=prompts.text("session.opening", name=introduction.name),
        note=prompts.text("session.left", turns=left) if is_reminded else "",
        settings=spec.settings,
        prompts=prompts,
    )


def _max_turns(spec: Spec) -> int:
    return cast("int", spec.settings["max_turns"])
