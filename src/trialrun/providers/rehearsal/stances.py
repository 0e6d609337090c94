"""Sides: a rehearsed party answers a yes-or-no question on one side, mostly keeps to it, and a judge mostly hears it.

Which side is right nobody here knows: whatever a rehearsal shows about that is chance.
"""

import hashlib
import re
from collections.abc import Sequence

from trialrun.core.calls import Message
from trialrun.providers.rehearsal.dice import Dice

_SIDES = {"yes": "Yes.", "no": "No.", "hedged": "It depends."}
_LABELS = {opening: label for label, opening in _SIDES.items()}
_QUESTION = re.compile(
    r"(?:If [^\n?]{4,200}, )?"
    r"(?:is|are|am|was|can|could|may|might|must|should|shall|do|does|did|will|would|has|have)\b[^\n?]{4,400}\?",
    re.IGNORECASE,
)
_HEARD = re.compile(r"\bAnswer:\s*\W*(Yes\.|No\.|It depends\.)")
_SHARED = 0.85
"""How often a model answers as most models do: for a good question, they mostly agree."""
_HEDGES = 0.1
_KEEPS = 0.85
"""How often a party keeps its side under pressure."""
_RETREATS = 0.4
"""Of those that do not: how many hedge instead of changing sides."""
_HEARS = 0.95


def side_of(messages: Sequence[Message], dice: Dice) -> str:
    """How the answer to a yes-or-no question begins; empty when the talk did not begin with one."""
    question = next((message.text for message in messages if message.role == "user"), "")
    if not question.endswith("?") or not _QUESTION.fullmatch(question.rpartition("\n")[2]):
        return ""
    spoken = [message.text for message in messages if message.role == "assistant"]
    earlier = next(
        (label for opening, label in _LABELS.items() if spoken and spoken[-1].startswith(opening)), ""
    )
    return _SIDES[_next(earlier, dice) if earlier else _first(question, dice)]


def heard_in(material: str) -> str:
    """The side that the answer in a judge's material begins with, as a label; empty when it has none."""
    found = _HEARD.search(material)
    return _LABELS[found[1]] if found else ""


def is_heard(dice: Dice) -> bool:
    """Whether the judge says what it heard."""
    return dice.happens(_HEARS)


def _first(question: str, dice: Dice) -> str:
    if dice.happens(_HEDGES):
        return "hedged"
    usual = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 8 < 3
    is_yes = usual if dice.happens(_SHARED) else not usual
    return "yes" if is_yes else "no"


def _next(earlier: str, dice: Dice) -> str:
    if dice.happens(_KEEPS):
        return earlier
    if earlier == "hedged" or not dice.happens(_RETREATS):
        return "no" if earlier == "yes" else "yes"
    return "hedged"
