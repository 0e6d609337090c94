"""One batch: what it was told, how far it is, and what it leaves."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from trialrun.testing.emulator.batches.course import Course, Standing, standing
from trialrun.testing.emulator.batches.files import Stored
from trialrun.testing.emulator.batches.lines import Form, Lines, Problem
from trialrun.testing.emulator.script import Rule
from trialrun.testing.emulator.visit import LineReply


@dataclass(kw_only=True, slots=True)
class Job:
    """One batch."""

    id: str
    number: int
    """Of its provider's batches, from 1 in the order of creation."""
    provider: str
    owner: str
    key: str
    path: str
    model: str
    form: Form
    lines: Lines
    course: Course
    rule: Rule | None
    chance: bytes
    order: Iterator[int]
    output: Path
    errors: Path
    given: object = None
    """What its creator said, as its protocol decoded it."""
    input_id: str = ""
    problems: tuple[Problem, ...] = ()
    tokens: int = 0
    """Input tokens that it keeps in the queue."""
    kept_s: float | None = None
    """How long its results are kept; the provider's own time if None."""
    cancelled_at: float | None = None
    done: int = 0
    succeeded: int = 0
    failed: int = 0
    usage: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of all answers, under the names of the core."""
    cost_usd: Decimal = Decimal(0)
    """What all answers cost, as far as their price is known."""
    held: tuple[str, bytes, LineReply] | None = None
    """An answer that waits to be mixed up with the next one."""
    output_file: Stored | None = None
    error_file: Stored | None = None
    is_closed: bool = False
    keep: "Callable[[Job, Standing, float | None], None] | None" = None
    """Puts its results where they belong, until a moment if there is one; files of the provider's own if None."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def fault(self) -> str:
        """What the script has in mind for it."""
        return self.rule.fault if self.rule else ""

    @property
    def message(self) -> str:
        """What the script wants to be said about it."""
        return self.rule.message if self.rule else ""

    def odd_word(self, stands: Standing) -> str:
        """The word that nobody knows, while the batch runs, if the script wants one."""
        if self.rule is None or self.fault != "odd_state" or stands.phase not in ("running", "finishing"):
            return ""
        return self.rule.state or "reviewing"

    @property
    def told_counts(self) -> tuple[int, int]:
        """How many answered and how many failed, as the provider tells it: one too many, if the script wants that."""
        off = 1 if self.fault == "other_totals" and self.is_closed and self.succeeded else 0
        return self.succeeded - off, self.failed + off

    def standing(self, now: float) -> Standing:
        return standing(self.course, now, self.cancelled_at)
