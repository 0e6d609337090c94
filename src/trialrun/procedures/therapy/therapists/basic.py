"""A therapist of no school, to whom the party's prompt can give one; the base of the methods with a single prompt."""

from trialrun.core.calls import Reply
from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Scene

FACTS = MethodFacts(help="A therapist without a school; the party's prompt can give one.")


class Basic:
    """One call with one prompt."""

    prompt = "therapists.basic"

    def __init__(self, party: Party) -> None:
        del party

    async def speak(self, scene: Scene, lab: Lab) -> Reply:
        system = scene.system(lab, self.prompt, referral=scene.introduction.referral, aim=scene.aim)
        return await lab.ask(scene.party.name, scene.messages(lab), system=system, purpose="reply")
