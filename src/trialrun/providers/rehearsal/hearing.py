"""What the last message was about: topics to come back to, and a number to bargain with.

Only the end of the last message is read: a reply costs the same at turn 2 and at turn 200.
"""

import re

from trialrun.providers.rehearsal.lexicon import COMMON_WORDS, NOUNS

_WINDOW = 360
_MARKS = str.maketrans(dict.fromkeys('.,;:!?()[]{}<>"*_#|/\\“”„’`~=+\n\t—–…', " "))
_TURNED = {
    "my": "your",
    "our": "your",
    "your": "my",
    "his": "his",
    "her": "her",
    "their": "their",
    "this": "this",
    "the": "the",
}
_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_HIGHEST = 1e9
_DIRECTION = re.compile(r"\s*[\[(][^\])\n]*\bfor you alone\b", re.IGNORECASE)
_SHORTEST = 4
_MOST_TOPICS = 6


def aloud(text: str) -> str:
    """What somebody said, without the directions in brackets below it that say they are for the listener alone."""
    found = _DIRECTION.search(text) if "or you alone" in text else None
    return text[: found.start()] if found else text


def topics_in(text: str) -> tuple[str, ...]:
    """Noun phrases from the end of a message, as the listener says them: what was `my sister` is `your sister`."""
    words = text[-_WINDOW:].translate(_MARKS).lower().split()
    nouns = NOUNS.intersection(words)
    topics = [_phrase(words, word) for word in words if word in nouns] if nouns else _guesses(words)
    return tuple(dict.fromkeys(topics[-_MOST_TOPICS:]))


def number_in(text: str) -> float | None:
    """The last number of a message, such as a price."""
    found = _NUMBER.findall(text[-_WINDOW:])
    number = float(found[-1].replace(",", "")) if found else 0.0
    return number if 0 < number < _HIGHEST else None


def _phrase(words: list[str], noun: str) -> str:
    place = words.index(noun)
    return f"{_TURNED.get(words[place - 1], 'the') if place else 'the'} {noun}"


def _guesses(words: list[str]) -> list[str]:
    """Without a noun that we know: words quoted as such, longest first, so that the sentence stays grammatical."""
    known = {word for word in words if len(word) >= _SHORTEST and word.isalpha() and word not in COMMON_WORDS}
    return [f'the word "{word}"' for word in sorted(known, key=lambda word: (-len(word), word))[:3]]
