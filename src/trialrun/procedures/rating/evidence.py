"""What a rater may see of a trial, and the units that it rates: for models and for people alike.

A rater sees who said what by role, and nothing else: no model, no level, no condition, no id of a trial. A unit is
known by its mask, which is the same for every rater, so that their ratings can be put side by side.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trialrun.core.ports import Utterance
from trialrun.core.rubric import Rubric

HIDDEN = "[hidden]"
_SHORTEST_NAME = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A talk to be rated, as its journal has it."""

    talk: tuple[Utterance, ...]
    mask: str
    """The name of the whole session towards raters."""
    profile: Mapping[str, object] | str | None = None
    """The subject's hidden profile; None if the trial has none."""
    models: tuple[str, ...] = ()
    """The models that took part, whose names are struck out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What one rating is about: the session, or one turn of the subject with the talk up to it."""

    number: int
    turn: int
    mask: str
    first: int
    """Its first and last utterance in the talk."""
    last: int

    @property
    def key(self) -> str:
        """Its name in an answer about several units."""
        return f"turn_{self.number}" if self.number else "session"


def units_of(evidence: Evidence, rubric: Rubric) -> list[Unit]:
    """The units of a talk in their order; none if there is nothing to rate."""
    talk = evidence.talk
    if not talk:
        return []
    if rubric.granularity == "session":
        return [Unit(number=0, turn=0, mask=evidence.mask, first=0, last=len(talk) - 1)]
    return [
        Unit(number=number, turn=talk[first].turn, mask=f"{evidence.mask}-{number}", first=first, last=last)
        for number, (first, last) in enumerate(_turns_of(talk, rubric.subject), start=1)
    ]


def _turns_of(talk: Sequence[Utterance], subject: str) -> list[tuple[int, int]]:
    """What the subject says in one go is one turn, in however many utterances."""
    turns: list[tuple[int, int]] = []
    for place, said in enumerate(talk):
        if said.party != subject:
            continue
        follows = bool(turns) and turns[-1][1] == place - 1 and talk[place - 1].turn == said.turn
        if follows:
            turns[-1] = (turns[-1][0], place)
        else:
            turns.append((place, place))
    return turns


def as_text(evidence: Evidence, rubric: Rubric, units: Sequence[Unit], *, until: int | None = None) -> str:
    """The talk up to and with utterance `until`, each one under the role that said it.

    Every line that was said begins with a mark, so nothing in it can pass for another speaker or for an instruction.
    """
    numbers = {unit.first: unit.number for unit in units if unit.number}
    parts: list[str] = []
    end = len(evidence.talk) if until is None else until + 1
    for place, said in enumerate(evidence.talk[:end]):
        role = rubric.roles.get(said.party, said.party)
        mark = (
            f" ({rubric.roles.get(rubric.subject, rubric.subject)} turn {numbers[place]})"
            if place in numbers
            else ""
        )
        parts.append(f"{role}{mark}:\n{quoted(struck(said.text, evidence, rubric))}")
    return "\n\n".join(parts)


def quoted(text: str) -> str:
    """The text with a mark before each line."""
    return "\n".join(f"> {line}" for line in text.splitlines()) or ">"


def struck(text: str, evidence: Evidence, rubric: Rubric) -> str:
    """The text without words that would tell the rater what it must not know."""
    pattern = _pattern((*rubric.hide, *evidence.models))
    return pattern.sub(HIDDEN, text) if pattern else text


@lru_cache(maxsize=256)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    names: dict[str, None] = {}
    for word in words:
        names[word] = None
        tail = word.rpartition("/")[2]
        if len(tail) >= _SHORTEST_NAME:
            names[tail] = None
    if not names:
        return None
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)", re.IGNORECASE)


def profile_text(profile: Mapping[str, object] | str) -> str:
    """A hidden profile as lines."""
    return profile if isinstance(profile, str) else "\n".join(_lines(profile, ""))


def _lines(value: Mapping[str, object], indent: str) -> list[str]:
    lines: list[str] = []
    for name, item in value.items():
        lines.append(f"{indent}{name}: {plain_text(item)}")
    return lines


def plain_text(value: object) -> str:
    """A part of a profile in one line."""
    match value:
        case None:
            return "(nothing)"
        case str():
            return " ".join(value.split())
        case Mapping():
            return "; ".join(f"{name}: {plain_text(item)}" for name, item in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any plain data
        case list() | tuple():
            return "; ".join(plain_text(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)
