"""A map of topics with distances between them, and which topic a text is about by its words. Pure functions."""

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, cast

from trialrun.procedures.therapy.prompts import read_data

_WORD = re.compile(r"[a-z][a-z']+")
_EMPTY = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "before",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "get",
        "had",
        "has",
        "have",
        "he",
        "her",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "like",
        "me",
        "more",
        "most",
        "my",
        "no",
        "not",
        "of",
        "on",
        "one",
        "or",
        "our",
        "out",
        "over",
        "own",
        "she",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "they",
        "this",
        "those",
        "to",
        "too",
        "up",
        "us",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_WEIGHTS = {"parent": 1, "sibling": 2}


@dataclass(frozen=True)
class Topics:
    """Topics as a tree of three levels, with roads between related ones. `roads`: topic → neighbour → weight 1 to 3."""

    about: Mapping[str, str]
    parents: Mapping[str, str]
    roads: Mapping[str, Mapping[str, int]]

    @cached_property
    def words(self) -> Mapping[str, frozenset[str]]:
        """What each topic's name and description say."""
        return {topic: words_of(f"{topic} {about}") for topic, about in self.about.items()}

    @property
    def top(self) -> tuple[str, ...]:
        return tuple(topic for topic in self.about if topic not in self.parents)

    def depth(self, topic: str) -> int:
        """0 for an area, 2 for what is most specific."""
        return 1 + self.depth(self.parents[topic]) if topic in self.parents else 0

    def children(self, topic: str) -> tuple[str, ...]:
        return tuple(child for child, parent in self.parents.items() if parent == topic)


def distances(roads: Mapping[str, Mapping[str, int]], start: str) -> dict[str, int]:
    """The length of the shortest way from `start` to everything that can be reached (Dijkstra)."""
    found: dict[str, int] = {}
    ahead = [(0, start)]
    while ahead:
        length, topic = heapq.heappop(ahead)
        if topic in found:
            continue
        found[topic] = length
        for neighbour, weight in roads.get(topic, {}).items():
            if neighbour not in found:
                heapq.heappush(ahead, (length + weight, neighbour))
    return found


def by_words(topics: Topics, text: str) -> str | None:
    """The topic whose description shares most words with the text; of equals the most specific, then the first. None if
    no topic shares any."""
    said = words_of(text)
    shared = {topic: len(said & words) for topic, words in topics.words.items()}
    best = max(topics.about, key=lambda topic: (shared[topic], topics.depth(topic)))
    return best if shared[best] else None


def words_of(text: str) -> frozenset[str]:
    """The words that carry meaning."""
    return frozenset(_WORD.findall(text.lower())) - _EMPTY


@lru_cache(maxsize=1)
def our_topics() -> Topics:
    """The topics that come with Trialrun."""
    return topics_of(cast("dict[str, dict[str, Any]]", read_data("topics.yaml")))


def topics_of(data: Mapping[str, Mapping[str, Any]]) -> Topics:
    """Reads `topic: {about, parent, near: [topic, ...]}`. Parent and child are 1 apart, the children of one parent 2,
    topics that are near each other 3."""
    parents = {topic: str(entry["parent"]) for topic, entry in data.items() if entry.get("parent")}
    roads: dict[str, dict[str, int]] = {topic: {} for topic in data}

    def join(one: str, other: str, weight: int) -> None:
        for here, there in ((one, other), (other, one)):
            roads[here][there] = min(weight, roads[here].get(there, weight))

    for topic, entry in data.items():
        if topic in parents:
            join(topic, parents[topic], _WEIGHTS["parent"])
        for near in cast("list[str]", entry.get("near") or []):
            join(topic, near, 3)
        for other, parent in parents.items():
            if other != topic and parent == parents.get(topic):
                join(topic, other, _WEIGHTS["sibling"])
    about = {topic: str(entry["about"]) for topic, entry in data.items()}
    return Topics(
        about=MappingProxyType(about),
        parents=MappingProxyType(parents),
        roads=MappingProxyType({topic: MappingProxyType(ways) for topic, ways in roads.items()}),
    )
