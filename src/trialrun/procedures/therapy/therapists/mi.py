"""MI: a motivational interviewer who infers the stage, chooses strategies, explores topics, and picks among
candidates.

After CAMI (2025). Its goal comes from what is known about the client, not from a constant; candidates are
written side by side. Hidden from the client, and logged: stage, strategies, topics, how good the chosen reply
was.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from trialrun.core.calls import Reply
from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Line, Scene, ask_data, bare, one_of, schema_of
from trialrun.procedures.therapy.motivation.exploring import Stack, begun, choices, moved
from trialrun.procedures.therapy.motivation.topics import our_topics

FACTS = MethodFacts(
    help="A motivational interviewer: stage, strategies, topics, candidates, selection, feedback.",
    calls=(0, 13),
)
STAGES = ("precontemplation", "contemplation", "preparation")
MOST_STRATEGIES = 2
MOST_ROUNDS = 3
GOOD_ENOUGH = 7
_CONTEXT = 12
_SCORE = {"type": "integer", "minimum": 0, "maximum": 100}
_FEEDBACK = {"feedback": {"type": "string"}, "score": {"type": "integer", "minimum": 1, "maximum": 10}}


class MI:
    """An interviewer and where they are on the map of topics."""

    def __init__(self, party: Party) -> None:
        del party
        self._topics = our_topics()
        self._stack: Stack = ()

    async def speak(self, scene: Scene, lab: Lab) -> Line | str:
        if not lab.transcript:
            return scene.prompts.text("mi.greeting", name=scene.introduction.name)
        stage = await self._stage(scene, lab)
        strategies = await self._strategies(scene, lab, stage)
        self._stack = await self._explored(scene, lab)
        candidates = await self._candidates(scene, lab, stage, strategies)
        chosen = await self._selected(scene, lab, candidates) if len(candidates) > 1 else 0
        reply, score, rounds = await self._refined(scene, lab, candidates[chosen])
        state = {"stage": stage, "strategies": strategies, "topics": list(self._stack)}
        return Line(text=reply, state={**state, "score": score, "rounds": rounds})

    async def _stage(self, scene: Scene, lab: Lab) -> str:
        found = await self._ask(scene, lab, "stage", {"stage": one_of(STAGES)})
        return str(found["stage"])

    async def _strategies(self, scene: Scene, lab: Lab, stage: str) -> list[str]:
        known = scene.prompts.table("mi.strategies")
        listed = {
            "type": "array",
            "items": one_of(list(known)),
            "minItems": 1,
            "maxItems": MOST_STRATEGIES,
            "uniqueItems": True,
        }
        found = await self._ask(
            scene, lab, "choose_strategies", {"strategies": listed}, stage=stage, known=known
        )
        return list(dict.fromkeys(cast("list[str]", found["strategies"])))

    async def _explored(self, scene: Scene, lab: Lab) -> Stack:
        """The topics after this turn: a first one once it is likely enough, then one move at a time."""
        if not self._stack:
            about = {topic: self._topics.about[topic] for topic in self._topics.top}
            wanted = dict.fromkeys(about, _SCORE)
            scores = await self._ask(scene, lab, "first_topic", wanted, topics=about)
            return begun(cast("dict[str, int]", scores), scene.turn)
        open_ = choices(self._topics, self._stack)
        found = await self._ask(scene, lab, "next_topic", {"move": one_of(list(open_))}, stack=self._stack)
        return moved(self._stack, *open_[str(found["move"])])

    async def _candidates(self, scene: Scene, lab: Lab, stage: str, strategies: Sequence[str]) -> list[Reply]:
        """One reply for each strategy, and one that joins them; written side by side."""
        plans = [[strategy] for strategy in strategies]
        plans += [list(strategies)] if len(strategies) > 1 else []
        known = scene.prompts.table("mi.strategies")

        def branch(plan: Sequence[str]) -> Any:
            async def written(inner: Lab) -> Reply:
                chosen = {strategy: known[strategy] for strategy in plan}
                direction = scene.prompts.text(
                    "mi.candidate", stage=stage, strategies=chosen, topics=self._stack
                )
                messages = scene.messages(inner, direction=direction)
                return await inner.ask(
                    scene.party.name, messages, system=self._system(scene, inner), purpose="candidate"
                )

            return written

        return await lab.together(*[branch(plan) for plan in plans])

    async def _selected(self, scene: Scene, lab: Lab, candidates: Sequence[Reply]) -> int:
        numbers = [str(number) for number in range(1, len(candidates) + 1)]
        texts = [bare(str(candidate)) for candidate in candidates]
        found = await self._ask(scene, lab, "selection", {"best": one_of(numbers)}, candidates=texts)
        return int(str(found["best"])) - 1

    async def _refined(self, scene: Scene, lab: Lab, reply: Reply) -> tuple[Reply, int, int]:
        """The reply after rounds of feedback: until it is good enough, or there were enough of them."""
        score = rounds = 0
        while rounds < MOST_ROUNDS:
            found = await self._ask(scene, lab, "feedback", _FEEDBACK, reply=bare(str(reply)))
            score, rounds = cast("int", found["score"]), rounds + 1
            if score > GOOD_ENOUGH:
                break
            direction = scene.prompts.text("mi.refine", reply=bare(str(reply)), feedback=found["feedback"])
            messages = scene.messages(lab, direction=direction)
            reply = await lab.ask(
                scene.party.name, messages, system=self._system(scene, lab), purpose="refinement"
            )
        return reply, score, rounds

    async def _ask(
        self,
        scene: Scene,
        lab: Lab,
        about: str,
        wanted: Mapping[str, Mapping[str, object]],
        **values: object,
    ) -> Mapping[str, object]:
        """One question about the talk, answered as data."""
        question = scene.prompts.text(
            f"mi.{about}", talk=scene.talk(lab, last=_CONTEXT), goal=self._goal(scene), **values
        )
        return await ask_data(scene, lab, question, schema_of(**wanted), purpose=about)

    def _system(self, scene: Scene, lab: Lab) -> str:
        return scene.system(lab, "mi.system", referral=scene.introduction.referral, goal=self._goal(scene))

    def _goal(self, scene: Scene) -> str:
        return scene.introduction.goal or scene.prompts.text("mi.no_goal")
