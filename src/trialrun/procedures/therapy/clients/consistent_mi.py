"""consistentMI: a person in front of a change, whose every reply follows from a stage, an action and what it draws
on.

After the consistent client simulation of ACL 2025, with these defects of its code repaired: receptivity moves,
preparation has a way out, terminate ends the session, and directions never enter the talk. The rules are in
`motivation.machine`; this file asks the model what the rules leave open: the topic of what was heard, whether
it speaks to the person's motive, how likely each action is, and which item answers a question.
"""

from typing import cast

from trialrun.core.errors import ProcedureError
from trialrun.core.near import pick
from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene, ask_data, one_of, schema_of
from trialrun.procedures.therapy.characters import Motivation, character_of
from trialrun.procedures.therapy.motivation import machine
from trialrun.procedures.therapy.motivation.machine import Action, Mind, Stage
from trialrun.procedures.therapy.motivation.topics import by_words, distances, our_topics

FACTS = MethodFacts(
    help="A person in front of a change: stages, receptivity, topics, actions with weights.",
    character="motivation",
    calls=(1, 12),
)
_CONTEXT = 8
"""So many utterances a question to the model is shown."""


class ConsistentMI:
    """One person, and where they are on their way."""

    def __init__(self, party: Party) -> None:
        self._character = character = character_of(party, Motivation)
        self._topics = our_topics()
        for topic in character.motive.topics:
            if topic not in self._topics.about:
                raise ProcedureError(
                    f"the motive of `{character.name}` names the topic `{topic}`, which is not on the map",
                    where=f"parties.{party.name}.character.motive.topics",
                    fix=pick(topic, list(self._topics.about)),
                )
        self._distances = distances(self._topics.roads, character.motive.topics[0])
        self._mind = Mind(
            stage=Stage(character.stage),
            receptivity=sum(character.suggestibilities) / len(character.suggestibilities),
            personas=tuple(character.personas),
            beliefs=tuple(character.beliefs),
            plans=tuple(character.plans),
        )

    async def speak(self, scene: Scene, lab: Lab) -> Line:
        topic = await self._topic(scene, lab)
        mind = self._heard(scene, topic)
        is_near = topic == self._character.motive.topics[0] and mind.stage is Stage.PRECONTEMPLATION
        if is_near and await self._is_touched(scene, lab):
            mind = machine.touched(mind)
        action = machine.forced(mind) or await self._drawn(mind, scene, lab)
        item = await self._item(mind, action, scene, lab)
        line = await self._line(mind, action, item, scene, lab)
        self._mind = machine.acted(mind, action, item)
        left = {"beliefs_left": len(self._mind.beliefs), "plans_left": len(self._mind.plans)}
        return Line(
            text=line.text,
            ends=line.ends,
            state={**_shown(mind), "topic": topic, "action": str(action), "item": item, **left},
        )

    def _heard(self, scene: Scene, topic: str | None) -> Mind:
        mind = machine.settled(self._mind)
        if topic is None:
            return machine.addressed(mind)
        return machine.listened(
            mind,
            self._distances.get(topic),
            patience_turns=cast("int", scene.settings["patience_turns"]),
            drift=cast("float", scene.settings["receptivity_drift"]),
        )

    async def _topic(self, scene: Scene, lab: Lab) -> str | None:
        """What the counsellor's words are about; None for a greeting, and whatever else is about nothing."""
        heard = scene.heard(lab)
        if scene.settings["topic_reader"] == "words":
            return by_words(self._topics, heard)
        none = scene.prompts.text("consistent_mi.no_topic")
        about = self._topics.about
        text = scene.prompts.text(
            "consistent_mi.topic", talk=scene.talk(lab, last=4), heard=heard, topics=about, none=none
        )
        schema = schema_of(topic=one_of([*about, none]))
        found = str((await ask_data(scene, lab, text, schema, purpose="topic"))["topic"])
        return found if found in about else None

    async def _is_touched(self, scene: Scene, lab: Lab) -> bool:
        text = scene.prompts.text(
            "consistent_mi.motive", talk=scene.talk(lab, last=4), motive=self._character.motive.sentence
        )
        return await _yes(scene, lab, text, purpose="motive")

    async def _drawn(self, mind: Mind, scene: Scene, lab: Lab) -> Action:
        """An action of the stage, drawn with the weights that the model proposes and the rules correct."""
        actions = machine.ACTIONS[mind.stage]
        meanings = scene.prompts.table("consistent_mi.actions")
        text = scene.prompts.text(
            "consistent_mi.weights",
            character=self._character,
            mind=mind,
            stage=scene.prompts.table("consistent_mi.stages")[mind.stage],
            actions={action: meanings[action] for action in actions},
            talk=scene.talk(lab, last=_CONTEXT),
            highest=machine.HIGHEST_WEIGHT,
        )
        weight = {"type": "integer", "minimum": 0, "maximum": machine.HIGHEST_WEIGHT}
        found = await ask_data(
            scene, lab, text, schema_of(**{str(action): weight for action in actions}), purpose="action"
        )
        proposed = cast("dict[str, int]", found)
        return machine.drawn(machine.weights(mind, proposed), lab.random(scene.party.name).random())

    async def _item(self, mind: Mind, action: Action, scene: Scene, lab: Lab) -> str | None:
        """What the reply draws on: asked for, the first item that answers; else, of what must be said, any."""
        items = machine.items_for(mind, action)
        if action is Action.PLAN:
            return items[0]
        heard = scene.heard(lab)
        if not items or ("?" not in heard and action is not Action.HESITATE):
            return None
        if "?" in heard:
            meaning = scene.prompts.table("consistent_mi.actions")[action]
            for item in items:
                text = scene.prompts.text("consistent_mi.item", heard=heard, action=meaning, item=item)
                if await _yes(scene, lab, text, purpose="item"):
                    return item
        return lab.random(scene.party.name).choice(items)

    async def _line(self, mind: Mind, action: Action, item: str | None, scene: Scene, lab: Lab) -> Line:
        texts = scene.prompts
        direction = texts.text(
            "consistent_mi.direction",
            engagement=self._hint(mind, scene),
            stage=texts.table("consistent_mi.stages")[mind.stage],
            action=texts.table("consistent_mi.actions")[action],
            item=item,
            motive=self._character.motive.sentence if mind.stage is Stage.MOTIVATION else None,
        )
        system = scene.system(lab, "consistent_mi.system", character=self._character)
        messages = scene.messages(lab, direction=direction)
        reply = await lab.ask(scene.party.name, messages, system=system, purpose="reply")
        return Line(text=reply, ends="client_terminated" if action is Action.TERMINATE else "")

    def _hint(self, mind: Mind, scene: Scene) -> str | None:
        """What a counsellor can find the motive by: the nearer the talk is to it, the narrower the topic that shows.
        Once it is found, no hint is needed."""
        if mind.stage not in (Stage.PRECONTEMPLATION, Stage.MOTIVATION):
            return None
        topics = [f"{topic} ({self._topics.about[topic]})" for topic in self._character.motive.topics]
        names = dict(zip(("specific", "middle", "wide"), topics, strict=True))
        return scene.prompts.text(f"consistent_mi.engagement.level_{mind.engagement}", **names)


async def _yes(scene: Scene, lab: Lab, question: str, *, purpose: str) -> bool:
    schema = schema_of(answer={"type": "boolean"})
    return bool((await ask_data(scene, lab, question, schema, purpose=purpose))["answer"])


def _shown(mind: Mind) -> dict[str, object]:
    return {
        "stage": str(mind.stage),
        "receptivity": round(mind.receptivity, 3),
        "engagement": mind.engagement,
        "off_topic": mind.off_topic,
    }
