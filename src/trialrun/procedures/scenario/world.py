"""The nouns of a scenario: a world, its actors, what is measured, what happens to it, and what is checked.

Actors are in the order of their names, whatever the order of the files: nothing that an actor reads depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from trialrun.core.identity import text_hash
from trialrun.core.reading.catalogue import Better
from trialrun.procedures.scenario.conditions import Condition
from trialrun.procedures.scenario.files import Severity

Value = str | int | float | bool
Kind = Literal["whole", "number", "truth", "label", "text"]
Method = Literal["pattern", "keyword", "model", "manual"]
EventKind = Literal["trend", "random", "conditional", "scheduled"]

NARRATOR, EXTRACTOR, CHECKER, WORLD = "narrator", "extractor", "checker", "world"
_LONGEST_PARTY = 40
RESERVED = (NARRATOR, EXTRACTOR, CHECKER, WORLD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """One who takes part."""

    name: str
    """The short name: the party of the study."""
    title: str
    control: Literal["ai", "human"] = "ai"
    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    system_prompt: str = ""
    about: tuple[tuple[str, str], ...] = ()
    """Headings and texts that the actor alone reads."""
    public: str = ""
    """What everybody knows about it."""
    files: tuple[str, ...] = ()
    """Background texts that only those see who name them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A number, label or text that is taken from the world's state or from an actor's decision in each turn."""

    name: str
    kind: Kind
    method: Method
    description: str = ""
    unit: str = ""
    pattern: str = ""
    keywords: tuple[str, ...] = ()
    scoring: Literal["count", "presence", "density"] = "count"
    question: str = ""
    model: str = ""
    actors: tuple[str, ...] = ()
    """Of whose decisions it is taken; empty means from the world's state."""
    is_per_actor: bool = False
    """Whether its values are named after the actors: `mayor.concessions`."""
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    warning: float | None = None
    critical: float | None = None
    better: Better | None = None

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of its values."""
        return tuple(f"{actor}.{self.name}" for actor in self.actors) if self.is_per_actor else (self.name,)

    @property
    def party(self) -> str:
        """Who is asked, if a model takes it."""
        if not self.model:
            return EXTRACTOR
        whole = f"{EXTRACTOR}-{self.name}"
        return (
            whole
            if len(whole) <= _LONGEST_PARTY
            else f"{whole[: _LONGEST_PARTY - 9]}-{text_hash(self.name)[:8]}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happens to the world and that nobody in it decided."""

    kind: EventKind
    name: str
    text: str
    first: int = 1
    last: int | None = None
    once: bool = True
    every: int = 1
    probability: float = 0.0
    turn: int = 0
    conditions: tuple[Condition, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A question about the quality of a turn."""

    id: str
    severity: Severity
    question: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What is checked, when, and what follows."""

    checks: tuple[Check, ...] = ()
    model: str = ""
    is_each_turn: bool = True
    has_turn_reports: bool = True
    has_summary: bool = True
    halts_on_critical: bool = False
    most_issues: int | None = None
    form: Literal["markdown", "json"] = "markdown"


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A scenario as its folder describes it."""

    title: str
    description: str
    system_prompt: str
    opening: str
    """The state of the world before the first turn."""
    turn_duration: str
    turns: int
    actors: tuple[Actor, ...]
    narrator_model: str
    window: int = 3
    bilateral: bool = False
    coalitions: bool = False
    statements: bool = False
    talks_per_turn: int = 2
    reflects: bool = False
    background: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    metrics: tuple[Metric, ...] = ()
    events: tuple[Event, ...] = ()
    rules: Rules = field(default_factory=Rules)
    success: tuple[Condition, ...] = ()
    failure: tuple[Condition, ...] = ()
    until: tuple[Condition, ...] = ()
    """What ends the scenario without saying how it turned out."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(actor.name for actor in self.actors)

    def others(self, actor: Actor) -> list[Actor]:
        return [other for other in self.actors if other.name != actor.name]
