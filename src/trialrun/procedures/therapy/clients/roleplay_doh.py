"""roleplayDoh: a client whose draft is held against an expert's principles and revised where it breaks one.

After Roleplay-doh (EMNLP 2024): draft, turn the principles that apply into yes/no questions, answer them, revise.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from trialrun.core.calls import Reply
from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene, ask_data, bare, schema_of
from trialrun.procedures.therapy.characters import Principled, character_of

FACTS = MethodFacts(
    help="A persona whose draft is checked against principles and revised.",
    character="principled",
    calls=(2, 4),
)
_MOST_QUESTIONS = 4


class RoleplayDoh:
    """One persona with its principles."""

    def __init__(self, party: Party) -> None:
        self._character = character_of(party, Principled)

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        system = scene.system(lab, "roleplay_doh.system", character=self._character)
        draft = await lab.ask(scene.party.name, scene.messages(lab), system=system, purpose="draft")
        questions = await self._questions(scene, lab, str(draft))
        broken = await self._broken(scene, lab, str(draft), questions) if questions else []
        reply = await self._revised(scene, lab, system, draft, broken) if broken else draft
        return Line(text=reply, state={"questions": questions, "broken": broken, "revised": bool(broken)})

    async def _questions(self, scene: Scene, lab: Lab, draft: str) -> list[str]:
        """The principles that apply here, each as a question with yes or no for an answer."""
        text = scene.prompts.text(
            "roleplay_doh.questions",
            principles=self._character.principles,
            heard=scene.heard(lab),
            draft=draft,
            most=_MOST_QUESTIONS,
        )
        listed = {"type": "array", "items": {"type": "string"}, "maxItems": _MOST_QUESTIONS}
        found = await ask_data(scene, lab, text, schema_of(questions=listed), purpose="principles")
        return cast("list[str]", found["questions"])

    async def _broken(self, scene: Scene, lab: Lab, draft: str, questions: Sequence[str]) -> list[str]:
        """The questions to which the answer is no."""
        text = scene.prompts.text(
            "roleplay_doh.check", questions=questions, heard=scene.heard(lab), draft=bare(draft)
        )
        answer = schema_of(reason={"type": "string"}, holds={"type": "boolean"})
        listed = {"type": "array", "items": answer, "minItems": len(questions), "maxItems": len(questions)}
        found = await ask_data(scene, lab, text, schema_of(answers=listed), purpose="check")
        answers = cast("list[Mapping[str, object]]", found["answers"])
        return [question for question, answer in zip(questions, answers, strict=True) if not answer["holds"]]

    async def _revised(
        self, scene: Scene, lab: Lab, system: str, draft: Reply, broken: Sequence[str]
    ) -> Reply:
        direction = scene.prompts.text("roleplay_doh.revise", draft=bare(str(draft)), broken=broken)
        messages = scene.messages(lab, direction=direction)
        return await lab.ask(scene.party.name, messages, system=system, purpose="revision")
