"""Questions that want one answer out of a few: letters, labels, yes or no, a number on a scale."""

import re
from dataclasses import dataclass
from functools import lru_cache

_WINDOW = 2400
_LETTERED = re.compile(r"(?:^|[\s(])([A-J])[).:]\s+\S")
_SCALE = re.compile(
    r"\b(?:from|between|of|scale|score|rating|rate|number)\b[^.\n]{0,60}?(?<![\d.])(-?\d{1,3})\s*(?:to|and|-|–|\.\.)\s*(\d{1,3})(?!\.?\d)"
)
_LABELS = re.compile(
    r"\b(?:one of(?: the following)?|either|only with|exactly with|labels?|options?|categor(?:y|ies)|verdicts?|"
    r"answer with|respond with|reply with|answer only)\b[^:\n\"]{0,60}(?::\s*|(?=\"))([^\n]{3,300})",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"\s*(?:,\s*or\b|,|;|\||/|\bor\b)\s*")
_QUOTED = re.compile(r"[\"'`“]([^\"'`”]{1,40})[\"'`”]")
_BARE = re.compile(
    r"\b(only|exactly|just|nothing else|one word|single word|single letter|one letter|no explanation)\b"
)
_SAID = re.compile(r"\(?\b([A-J])\b[).:]?")
_LONGEST_LABEL = 40
_MOST_LABELS = 12
_SIGNS = (
    "A)",
    "A.",
    "A:",
    "ne of",
    "nly",
    "ither",
    "ption",
    "abel",
    "ategor",
    "erdict",
    "nswer",
    "espond with",
    "eply with",
    "xactly",
    "yes",
    "Yes",
    "YES",
    "true",
    "True",
    "gree",
    "scale",
    "score",
    "rate ",
    "rating",
    "Rate",
)
_PLACES_OF_A_QUESTION = ("scale", "rate", "rating", "score", "number", "from ", "between ")


@dataclass(frozen=True, slots=True)
class Options:
    """What may be answered, in the question's own spelling, and whether a reason is welcome."""

    labels: tuple[str, ...]
    is_bare: bool


def may_offer(text: str) -> bool:
    """A cheap look before `options_in`: nine in ten messages of a conversation offer nothing."""
    return any(sign in text for sign in _SIGNS)


@lru_cache(maxsize=256)
def options_in(text: str) -> Options | None:
    """The options that a message offers, or None for an open question."""
    end = text[-_WINDOW:]
    labels = _letters_in(end) or _labels_in(end) or _yes_or_no_in(end) or _scale_in(end)
    return Options(labels, bool(_BARE.search(end.lower()))) if labels else None


def said_before(options: Options, answer: str) -> str | None:
    """The option that an earlier answer named first, if it did."""
    lower = answer.lower()
    if all(len(label) == 1 and label.isalpha() for label in options.labels):
        found = _SAID.search(answer)
        return found[1] if found and found[1] in options.labels else None
    places = [(place, label) for label in options.labels if (place := lower.find(label.lower())) >= 0]
    return min(places)[1] if places else None


def _letters_in(text: str) -> tuple[str, ...]:
    """A, B, … in order from A, at least two."""
    found = set(_LETTERED.findall(text))
    letters = "ABCDEFGHIJ"
    size = next((at for at, letter in enumerate(letters) if letter not in found), len(letters))
    return tuple(letters[:size]) if size > 1 else ()


def _labels_in(text: str) -> tuple[str, ...]:
    for found in reversed(list(_LABELS.finditer(text))):
        listed = found[1].split(". ")[0].strip().rstrip(".")
        quoted = _QUOTED.findall(listed)
        parts = quoted if len(quoted) > 1 else [part.strip(" .'\"`()[]") for part in _SPLIT.split(listed)]
        labels = tuple(dict.fromkeys(part for part in parts if part))
        if 2 <= len(labels) <= _MOST_LABELS and all(len(label) <= _LONGEST_LABEL for label in labels):
            return labels
    return ()


def _yes_or_no_in(text: str) -> tuple[str, ...]:
    lower = text.lower()
    for one, other in (("yes", "no"), ("true", "false"), ("agree", "disagree")):
        for joint in (" or ", "/", " / ", "' or '", '" or "'):
            place = lower.find(one + joint + other)
            if place >= 0:
                second = place + len(one + joint)
                return text[place : place + len(one)], text[second : second + len(other)]
    return ()


def _scale_in(text: str) -> tuple[str, ...]:
    lower = text.lower()
    if not any(word in lower for word in _PLACES_OF_A_QUESTION):
        return ()
    for found in reversed(list(_SCALE.finditer(lower))):
        low, high = int(found[1]), int(found[2])
        if -100 <= low < high <= 100 and ("scale" in lower or "rat" in lower or "score" in lower):
            return tuple(str(number) for number in range(low, high + 1))
    return ()
