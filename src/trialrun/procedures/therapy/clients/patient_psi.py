"""patientPsi: a client made of a cognitive conceptualisation diagram, in one of six styles, who opens up step by
step.

After PATIENT-Ψ (EMNLP 2024). Its general limit of five sentences contradicts the eight of its verbose style;
here each style has one limit. How far the client has opened up is a state of its own, which follows from the
turn alone.
"""

from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene
from trialrun.procedures.therapy.characters import STYLES, Cognitive, character_of

FACTS = MethodFacts(
    help="A client made of a cognitive conceptualisation diagram.", character="cognitive", styles=STYLES
)
_SENTENCES = {"plain": 5, "upset": 3, "verbose": 8, "reserved": 3, "tangent": 5, "pleasing": 5}


class PatientPsi:
    """One person in one situation."""

    def __init__(self, party: Party) -> None:
        self._character = character_of(party, Cognitive)
        self._style = party.style or "plain"

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        openness = openness_at(scene.turn, scene.max_turns)
        texts = scene.prompts
        system = scene.system(
            lab,
            "patient_psi.system",
            character=self._character,
            style=texts.table("patient_psi.styles")[self._style],
            sentences=_SENTENCES[self._style],
        )
        direction = texts.table("patient_psi.openness")[openness]
        reply = await lab.ask(
            scene.party.name, scene.messages(lab, direction=direction), system=system, purpose="reply"
        )
        return Line(text=reply, state={"style": self._style, "openness": openness})


def openness_at(turn: int, max_turns: int) -> str:
    """How much the client lets show: guarded in the first quarter, then warming, open in the second half."""
    share = turn / max_turns
    return "guarded" if share <= 0.25 else "warming" if share <= 0.5 else "open"
