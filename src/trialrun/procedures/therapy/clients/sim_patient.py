"""simPatient: a client who drinks too much, with four inner levels that the talk moves before each reply.

The levels (control, efficacy, awareness, reward) go from 1 to 10. A model proposes new ones after each of the
therapist's utterances; none moves by more than two at a time, however impressive a single sentence was.
"""

from collections.abc import Mapping

from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene, ask_data, schema_of
from trialrun.procedures.therapy.characters import Drinking, character_of

FACTS = MethodFacts(
    help="A client who drinks too much, with four inner levels.", character="drinking", calls=(2, 2)
)
NAMES = ("control", "efficacy", "awareness", "reward")
LONGEST_STEP = 2
_LEVEL = {"type": "integer", "minimum": 1, "maximum": 10}


class SimPatient:
    """One person and where their levels are."""

    def __init__(self, party: Party) -> None:
        self._character = character_of(party, Drinking)
        self._levels = {name: int(getattr(self._character.levels, name)) for name in NAMES}

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        text = scene.prompts.text(
            "sim_patient.levels", character=self._character, levels=self._levels, talk=scene.talk(lab, last=6)
        )
        schema = schema_of(reason={"type": "string"}, **dict.fromkeys(NAMES, _LEVEL))
        proposed = await ask_data(scene, lab, text, schema, purpose="levels")
        before, self._levels = self._levels, stepped(self._levels, proposed)
        system = scene.system(lab, "sim_patient.system", character=self._character)
        direction = scene.prompts.text("sim_patient.direction", levels=self._levels, before=before)
        messages = scene.messages(lab, direction=direction)
        reply = await lab.ask(scene.party.name, messages, system=system, purpose="reply")
        return Line(text=reply, state={**self._levels, "reason": proposed["reason"]})


def stepped(levels: Mapping[str, int], proposed: Mapping[str, object]) -> dict[str, int]:
    """The levels, moved towards what is proposed by one step at most."""
    found: dict[str, int] = {}
    for name, level in levels.items():
        wanted = proposed[name]
        aim = wanted if isinstance(wanted, int) else level
        found[name] = min(10, max(1, level + min(LONGEST_STEP, max(-LONGEST_STEP, aim - level))))
    return found
