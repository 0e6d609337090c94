"""Measures that are counted in a finished trial's transcript, by name.

    <party>.words        words that the party said
    <party>.characters   characters that it said, spaces included (Unicode code points)
    <party>.messages     how often it spoke
    words                words that anybody said
    turns                the last turn in which somebody spoke; 0 when nothing was said in a turn

A **word** is a run of letters and digits of any script, with apostrophes and hyphens inside it: `don't`, `l’été`,
`mother-in-law` and `4th` are one word each, `3.14` and `snake_case` are two, a dash between spaces is none. Accents
and vowel signs belong to their letter. Scripts without spaces (Chinese, Japanese, Thai) make one word of a whole run:
there, count characters.

These are counts of what happened, so a party that said nothing has 0, not a missing value. They cost nothing and can
be taken again at any time; what a trial measured while it ran, and what judges say, is not here.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence

from trialrun.core.ports import Utterance

_WORD = re.compile(r"[^\W_]+(?:['’‐‑-][^\W_]+)*")
_MAY_BE_MARK = re.compile(r"[^\w\s\x00-\x7f]")


def word_count(text: str) -> int:
    """How many words the text has, as this module's docstring defines them."""
    if not text.isascii():
        text = _MAY_BE_MARK.sub(_without_mark, text)
    return len(_WORD.findall(text))


_OF_TRANSCRIPT: dict[str, Callable[[Sequence[Utterance]], int]] = {
    "words": lambda said: sum(word_count(utterance.text) for utterance in said),
    "turns": lambda said: max((utterance.turn for utterance in said), default=0),
}
_OF_PARTY: dict[str, Callable[[Sequence[Utterance]], int]] = {
    "words": _OF_TRANSCRIPT["words"],
    "characters": lambda said: sum(len(utterance.text) for utterance in said),
    "messages": len,
}


def text_measure_names(parties: Iterable[str]) -> tuple[str, ...]:
    """Every name that can be counted with these parties: to check names, and to find near misses."""
    return (*_OF_TRANSCRIPT, *(f"{party}.{feature}" for party in parties for feature in _OF_PARTY))


def is_text_measure(name: str, parties: Collection[str]) -> bool:
    """Whether the name is counted in the transcript, given the study's parties."""
    party, _, feature = name.rpartition(".")
    return name in _OF_TRANSCRIPT or (party in parties and feature in _OF_PARTY)


def text_measures(names: Iterable[str], transcript: Sequence[Utterance]) -> dict[str, int]:
    """The counts by name. The names are those that `is_text_measure` accepts."""
    said: dict[str, list[Utterance]] = {}
    for utterance in transcript:
        said.setdefault(utterance.party, []).append(utterance)
    return {name: _measure(name, transcript, said) for name in names}


def _measure(name: str, transcript: Sequence[Utterance], said: dict[str, list[Utterance]]) -> int:
    if name in _OF_TRANSCRIPT:
        return _OF_TRANSCRIPT[name](transcript)
    party, _, feature = name.rpartition(".")
    if feature not in _OF_PARTY:
        raise ValueError(f"`{name}` is not counted in a transcript")
    return _OF_PARTY[feature](said.get(party, ()))


def _without_mark(found: re.Match[str]) -> str:
    """Nothing in place of an accent, vowel sign or joiner; any other character stays as it is."""
    character = found[0]
    return "" if unicodedata.category(character)[0] == "M" or character in "\u00ad\u200c\u200d" else character
