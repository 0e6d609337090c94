"""eliza: a rule-based therapist without any model, as a baseline: what a few patterns can do, no more.

Patterns match whole words, most telling first; a greeting counts only where somebody greets, at the very
beginning.
"""

import re
from collections.abc import Mapping, Sequence

from trialrun.core.ports import Lab
from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import Scene

FACTS = MethodFacts(help="A rule-based therapist without any model.", needs="", calls=(0, 0))
_TURNED: Mapping[str, str] = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
    "i'm": "you are",
    "i've": "you have",
    "i'd": "you would",
    "i'll": "you will",
    "you": "I",
    "your": "my",
    "yours": "mine",
    "was": "were",
}
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("greeting", r"\A(?:hello|hi|hey|good (?:morning|afternoon|evening))\b[ ,.!]*(?:there)?[ ,.!]*\Z"),
    ("harm", r"\b(?:kill myself|end my life|suicid\w*|hurt(?:ing)? myself|want to die)\b"),
    (
        "family",
        r"\bmy (mother|mum|mom|father|dad|brother|sister|parents|wife|husband|partner|son|daughter)\b",
    ),
    ("cannot", r"\bI (?:can't|cannot|can not) ([^.!?;,]+)"),
    ("need", r"\bI (?:need|want|wish for) ([^.!?;,]+)"),
    ("feel", r"\bI (?:feel|am feeling|felt) (?!like\b)([^.!?;,]+)"),
    ("am", r"\bI(?:'m| am) ([^.!?;,]+)"),
    ("think", r"\bI (?:think|believe|guess|suppose) (?:that )?([^.!?;,]+)"),
    ("because", r"\bbecause ([^.!?;]+)"),
    ("never", r"\b(always|never|everybody|everyone|nobody|no one)\b"),
    ("dream", r"\b(?:dream|dreams|dreamt|dreamed|nightmare|nightmares)\b"),
    ("sorry", r"\b(?:sorry|apologi[sz]e)\b"),
    ("perhaps", r"\b(?:maybe|perhaps|not sure)\b"),
    ("question", r"\?\s*\Z"),
    ("no", r"\A(?:no|nope|not really)\b"),
    ("yes", r"\A(?:yes|yeah|yep|right)\b"),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS)
_LONGEST_ECHO = 12


class Eliza:
    """Answers by pattern."""

    def __init__(self, party: Party) -> None:
        del party

    async def speak(self, scene: Scene, lab: Lab) -> str:
        if not any(said.party != scene.party.name for said in lab.transcript):
            return scene.prompts.text("eliza.opening", name=scene.introduction.name)
        rule, echo = rule_for(scene.heard(lab))
        answers = _answers(scene, rule)
        return scene.prompts.text(f"eliza.{rule}.{lab.random(scene.party.name).choice(answers)}", echo=echo)


def rule_for(heard: str) -> tuple[str, str]:
    """The first rule whose pattern is in what was heard, and the words that it took, turned round."""
    for name, pattern in _COMPILED:
        found = pattern.search(heard)
        if found:
            return name, turned(found[1]) if pattern.groups else ""
    return "anything", ""


def turned(words: str) -> str:
    """`my sister left me` → `your sister left you`; a long one is cut."""
    kept = words.strip().split()[:_LONGEST_ECHO]
    return " ".join(_TURNED.get(word.lower(), word) for word in kept)


def _answers(scene: Scene, rule: str) -> Sequence[str]:
    return sorted(scene.prompts.table(f"eliza.{rule}"))
