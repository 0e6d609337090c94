"""Who speaks, and how: read from a party's name, a call's purpose and the prompt, once for each prompt."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

Role = Literal[
    "actor",
    "agent",
    "assistant",
    "client",
    "coder",
    "customer",
    "interviewer",
    "judge",
    "narrator",
    "negotiator",
    "respondent",
    "steward",
    "student",
    "summariser",
    "teacher",
    "therapist",
]
Tone = Literal["plain", "warm", "cool", "firm", "formal"]

_CUES: Mapping[Role, str] = MappingProxyType(
    {
        "actor": "actor|minister|president|diplomat|ambassador|general|head of state|government|delegate|senator|"
        "ceo|commander|policymaker|nation|country|faction",
        "agent": "support agent|service agent|help ?desk|customer service|customer support|receptionist",
        "assistant": "assistant|helper|advis[eo]r|expert|chatbot",
        "client": "client|patient|counsell?ee|help-seeker",
        "coder": "coding|coder|programmer|developer|software engineer|engineer|repository|codebase",
        "customer": "customer|shopper|caller",
        "interviewer": "interviewer|journalist|reporter|survey taker",
        "judge": "judge|rater|grader|evaluator|annotator|referee|classifier|verdict|rubric|coding scheme",
        "narrator": "narrator|storyteller|game master|facilitator|moderator|world|environment|scenario director",
        "negotiator": "negotiator|negotiation|negotiate|buyer|seller|bargain\\w*|landlord|tenant|supplier|vendor|"
        "employer",
        "respondent": "respondent|participant|survey|persona|citizen|voter|interviewee",
        "steward": "steward|overseer|administrator|custodian|trustee|dilemma|caretaker|guardian",
        "student": "student|learner|pupil|trainee",
        "summariser": "summari[sz]e\\w*|summary|condense|abstract|extract\\w*|memory",
        "teacher": "teacher|tutor|professor|instructor|mentor|coach",
        "therapist": "therapist|counsell?or|psychologist|psychotherap\\w+|clinician|psychiatrist|helpline",
    }
)
_ROLES = tuple(_CUES)
_CUE = re.compile(r"(?<![a-z])(?:" + "|".join(f"({cues})" for cues in _CUES.values()) + r")s?(?![a-z])")
_TONES: tuple[tuple[Tone, re.Pattern[str]], ...] = (
    (
        "cool",
        re.compile(r"\b(cold|cool|distant|detached|neutral|reserved|clinical tone|unemotional|blunt)\b"),
    ),
    ("warm", re.compile(r"\b(warm|warmly|empath\w+|kind|gentle|caring|supportive|friendly|encouraging)\b")),
    (
        "firm",
        re.compile(
            r"\b(firm|strict|confrontational|aggressive|hostile|tough|assertive|hawkish|stubborn|angry)\b"
        ),
    ),
    ("formal", re.compile(r"\b(formal|formally|official|diplomatic|professional|polite)\b")),
)
_NOT = re.compile(r"\b(?:not|never|don't|avoid(?: being)?|without being)\s+(?:\w+\s+)?$")
_BRIEF = re.compile(r"\b(brief|briefly|short|concise|concisely|terse|succinct|laconic)\b")
_LONG = re.compile(r"\b(in detail|detailed|at length|thorough|thoroughly|comprehensive|essay)\b")
_WORDS = re.compile(r"\b(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?\s+words\b")
_SENTENCES = re.compile(
    r"\b(one|a single|two|three|four|five|[1-9])(?:\s*(?:-|–|to|or)\s*(two|three|four|five|[1-9]))?"
    r"\s+(?:short\s+)?sentences?\b"
)
_END = re.compile(r"[\[<][A-Z][A-Z_ ]{2,20}[\]>]|\b[A-Z]{3,12}_[A-Z_]{3,20}\b")
_ENDING = re.compile(
    r"\b(end|finish|done|stop|conclude|over|complete|terminate|goodbye|leave)", re.IGNORECASE
)
_NUMBER: Mapping[str, int] = MappingProxyType(
    {"one": 1, "a single": 1, "two": 2, "three": 3, "four": 4, "five": 5}
)
_HEAD = 600
_SENTENCE_WORDS = 14
_REACH = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a party plays: whose words, in which tone, how long, and the mark with which it may end."""

    role: Role
    tone: Tone = "plain"
    length: "Length | None" = None
    end_mark: str = ""
    wants_json: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """A wish for the length of a reply: so many words, or a multiple of the usual."""

    words: float | None = None
    scale: float = 1.0


@lru_cache(maxsize=512)
def part_of(party: str, purpose: str, prompt: str) -> Part:
    """The part to play, from the most to the least reliable sign. `prompt` is the first message."""
    head = prompt[:_HEAD].lower()
    role = (
        _first_cue(purpose.lower())
        or _first_cue(party.lower().replace("_", " "))
        or _first_cue(head)
        or "assistant"
    )
    return Part(
        role=role,
        tone=_tone_of(head),
        length=length_in(prompt),
        end_mark=_end_mark_in(prompt),
        wants_json="json" in prompt.lower(),
    )


def length_in(text: str) -> Length | None:
    """The length that a text asks for, if it does."""
    lower = text.lower()
    if found := _WORDS.search(lower):
        low, high = int(found[1]), int(found[2] or found[1])
        # "At most 50 words" and "about 50 words" are both kept by staying a little below.
        return Length(words=max(1.0, (low + high) / 2 * (1.0 if found[2] else 0.8)))
    if found := _SENTENCES.search(lower):
        low = _number(found[1])
        return Length(words=_SENTENCE_WORDS * (low + (_number(found[2]) if found[2] else low)) / 2 - 4)
    if _BRIEF.search(lower):
        return Length(scale=0.45)
    return Length(scale=2.0) if _LONG.search(lower) else None


def may_ask_for_length(text: str) -> bool:
    """A cheap look before `length_in`, for texts that are different each time."""
    return "word" in text or "sentence" in text or "brief" in text or "concise" in text or "detail" in text


def _first_cue(text: str) -> Role | None:
    found = _CUE.search(text) if text else None
    return _ROLES[found.lastindex - 1] if found and found.lastindex else None


def _tone_of(head: str) -> Tone:
    places: list[tuple[int, Tone]] = [
        (found.start(), tone)
        for tone, pattern in _TONES
        if (found := pattern.search(head)) and not _NOT.search(head[: found.start()])
    ]
    return min(places, key=lambda place: place[0])[1] if places else "plain"


def _end_mark_in(prompt: str) -> str:
    """A mark in capitals, such as [END], that stands near a word for ending."""
    for found in _END.finditer(prompt):
        if _ENDING.search(prompt, max(0, found.start() - _REACH), found.end() + _REACH):
            return found[0]
    return ""


def _number(word: str) -> int:
    return _NUMBER.get(word) or int(word)
