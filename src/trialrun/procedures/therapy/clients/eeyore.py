"""eeyore: a client made of a psychological profile with the severity of each symptom.

After Eeyore (ACL 2025 Findings), whose own model was trained for this. The profile goes to whatever model the
study names; a server with the trained weights is named like any other model.
"""

from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene
from trialrun.procedures.therapy.characters import Depression, character_of

FACTS = MethodFacts(help="A client made of a depression profile, symptom by symptom.", character="depression")


class Eeyore:
    """One person with a depression of some severity."""

    def __init__(self, party: Party) -> None:
        self._character = character_of(party, Depression)

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        resistance = scene.prompts.table("eeyore.resistance")[self._character.resistance]
        system = scene.system(lab, "eeyore.system", character=self._character, resistance=resistance)
        reply = await lab.ask(scene.party.name, scene.messages(lab), system=system, purpose="reply")
        return Line(
            text=reply,
            state={"severity": self._character.severity, "resistance": self._character.resistance},
        )
