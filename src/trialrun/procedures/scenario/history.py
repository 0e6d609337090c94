"""What happened in a world, turn by turn, and who knows of it.

H1. What was said in private is known to those who took part, and to nobody else: not to the narrator either.
H2. Nothing here depends on the order in which actors are listed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

TalkKind = Literal["bilateral", "coalition"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """What some actors said to each other in private."""

    kind: TalkKind
    members: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What an actor decided, and why. Only the action is for others."""

    action: str
    reasoning: str = ""
    goals: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class Turn:
    """One turn as it goes along."""

    number: int
    events: list[str] = field(default_factory=list[str])
    statements: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    talks: list[Talk] = field(default_factory=list[Talk])
    decisions: dict[str, Decision] = field(default_factory=dict[str, Decision])
    changes: tuple[str, ...] = ()
    state: str = ""

    def talks_of(self, actor: str) -> list[Talk]:
        return [talk for talk in self.talks if actor in talk.members]


@dataclass(kw_only=True, slots=True)
class History:
    """All turns so far, and what is left of those that are too long ago to be told in full."""

    state: str
    turns: list[Turn] = field(default_factory=list[Turn])
    summary: str = ""
    """What everybody knows of the turns before the window."""
    memories: dict[str, str] = field(default_factory=dict[str, str])
    """What an actor alone remembers of its own talks before the window."""
    values: dict[str, object] = field(default_factory=dict[str, object])
    """The latest value of each metric."""
    happened: frozenset[str] = frozenset()

    def window(self, size: int) -> list[Turn]:
        """The last turns that are over, oldest first."""
        return self.turns[-size:]

    def goals_of(self, actor: str) -> Iterator[tuple[int, Decision]]:
        """What the actor wanted in its last two turns."""
        for turn in self.turns[-2:]:
            if actor in turn.decisions:
                yield turn.number, turn.decisions[actor]
