"""Actors that stand on either side: a person, a script, and a model with nothing but its prompt."""

from trialrun.core.calls import Reply
from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import CLIENT, Line, Scene

PROMPTED = MethodFacts(help="A model with the party's prompt and nothing else.")
SCRIPTED = MethodFacts(help="Fixed lines, said one after another.", needs="script", calls=(0, 0))
USER = MethodFacts(help="A person; the trial waits for the answer.", needs="", calls=(0, 0))


class Human:
    """A person, who is asked through the lab."""

    def __init__(self, party: Party) -> None:
        self._is_client = party.name == CLIENT

    async def speak(self, scene: Scene, lab: Lab) -> str:
        heard = scene.heard(lab)
        about = () if self._is_client or scene.turn > 1 else (scene.introduction.referral, scene.aim)
        question = "\n\n".join(text for text in (*about, heard, scene.note) if text)
        return await lab.ask_human(question, party=scene.party.name)


class Reader:
    """Reads the lines of a script."""

    def __init__(self, party: Party) -> None:
        self._lines = party.lines

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        spoken = sum(said.party == scene.party.name for said in lab.transcript)
        if spoken >= len(self._lines):
            return Line(text="", ends=f"script_ended:{scene.party.name}")
        return Line(text=self._lines[spoken])


class Prompted:
    """A model that plays what its prompt says."""

    def __init__(self, party: Party) -> None:
        del party

    async def speak(self, scene: Scene, lab: Lab) -> Reply:
        return await lab.ask(scene.party.name, scene.messages(lab), system=scene.prompt(lab), purpose="reply")
