"""The nouns of judging: what is rated, by which questions, and what a rating is. For models and for people alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import msgspec

from trialrun.core import identity

Paradigm = Literal["binary", "scalar", "categorical", "extraction"]
Granularity = Literal["session", "turn", "turn_by_turn"]
Missing = Literal["", "abstained", "unreadable", "refused", "left_out", "no_truth"]
"""Why a rating has no value. abstained: the rater says that the talk does not allow one. unreadable: what it answered
fits no form, even when asked again, or ended early. refused: the model or its provider would not. left_out: a part of
the answer is not there. no_truth: there is nothing to compare with."""
UNANSWERED: frozenset[str] = frozenset({"unreadable", "refused", "left_out"})
"""Reasons that are no finding: nobody has rated. An abstention is an answer, and so is that there is no truth."""
Value = str | int | float | bool | dict[str, list[str]] | None
"""A label, a score, true or false, or what was extracted by field. None is missing."""

RECOVERED: Mapping[str, float] = MappingProxyType({"all of it": 1.0, "a part of it": 0.5, "none of it": 0.0})
"""How much of a true field an extracted one holds."""
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One question of a rubric."""

    id: str
    question: str
    paradigm: Paradigm
    criteria: str = ""
    scale: tuple[int, int] | None = None
    labels: tuple[str, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """What a label or a score means."""
    fields: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """Of an extraction: what to look for, by field."""
    truth: str = ""
    """`profile`: what was extracted is compared with the subject's hidden profile, field by field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rubric:
    """An instrument: the questions, what the rater sees, and what it rates at a time."""

    name: str
    items: tuple[Item, ...]
    instruction: str = ""
    granularity: Granularity = "session"
    subject: str = ""
    """The party whose turns, or whose profile, it is about."""
    needs_profile: bool = False
    profile: str = "profile"
    """Where the subject's hidden profile stands: a key of its party, of its values, or of its logged state."""
    is_asked_apart: bool = False
    """Each item in a call of its own, so that one rating cannot colour the other."""
    is_order_fixed: bool = False
    roles: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """What a party is called towards the rater."""
    hide: tuple[str, ...] = ()
    """Words that are struck out of the talk, beside the names of the models that took part."""
    models: tuple[str, ...] = ()
    temperature: float | None = 0.0
    max_tokens: int | None = None
    """Most tokens of one answer; None: as many as the questions of a call need."""
    params: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    document: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """The rubric file as resolved: texts read in, plain data."""

    @property
    def digest(self) -> str:
        """Changes when anything changes that a rater is told. Which models are asked is no part of the instrument."""
        told = {key: value for key, value in self.document.items() if key not in ("models", "about")}
        # Not the canonical form: in which order fields stand is something that a rater sees.
        return identity.text_hash(msgspec.json.encode(told))

    @property
    def sees_profile(self) -> bool:
        """Whether anything of this rubric touches the subject's hidden profile."""
        return self.needs_profile or any(item.truth for item in self.items)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """One answer to one item about one unit, or why there is none."""

    item: str
    value: Value
    unit: int = 0
    """The number of the subject's turn, from 1; 0 for the whole session."""
    turn: int = 0
    """The same turn as the procedure counted it."""
    mask: str = ""
    """The name of the unit towards raters: it tells nothing about the trial."""
    missing: Missing = ""
    explanation: str = ""
    call: str = ""
    """The address of the call that gave it."""
    order: int = 0
    """Its place in the order in which this rater got the units, from 1."""
    labels: tuple[str, ...] = ()
    """The labels in the order in which they were shown."""
