"""What all labs of one trial share: the trial, its record, and the way to journal and gateway."""

from asyncio import Timeout
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trialrun.core import facts as f
from trialrun.core.calls import Message, Request
from trialrun.core.errors import StoreError, StudyStop, TrialTimeout
from trialrun.core.identity import text_hash
from trialrun.core.ports import Clock, Door, Journal, Utterance
from trialrun.core.study import Limits, Spec, Trial
from trialrun.engine.record import Record
from trialrun.engine.time_limit import TimeLimit

Mode = Literal["live", "rehearsal", "walk", "verify"]
"""walk: plan follows the procedure and nothing may happen. verify: everything must come from the journal."""


def _no_measures(_trial: Trial, _transcript: Sequence[Utterance]) -> dict[str, float | None]:
    return {}


@dataclass(kw_only=True, slots=True)
class Sitting:
    """One trial while it is open."""

    trial: Trial
    record: Record
    journal: Journal
    door: Door
    clock: Clock
    limits: Limits
    time_limit: TimeLimit
    capped_by: str = ""
    """The condition whose cap counts the trial's calls, if one does."""
    mode: Mode = "live"
    measures_of: Callable[[Trial, Sequence[Utterance]], Mapping[str, float | None]] = _no_measures
    earlier: tuple[tuple[int, Spec], ...] = ()
    """Of a fork: until which turn which specification of its sources is in force, earliest first."""
    opens_gates: bool = False
    """Of a walk: go through every gate, whatever the procedure says."""
    turn: int = 0
    calls: int = 0
    """Answered in this sitting, so not from the record."""
    asked: dict[str, tuple[str, tuple[Message, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[Message, ...]]]
    )
    """The last answered request of each party: its address and messages. The next is written as a difference to it."""
    stop: StudyStop | StoreError | TrialTimeout | None = None
    """Why this trial cannot go on, kept in case the procedure swallows the exception."""
    is_behind: Callable[[], bool] = bool
    """Whether something came for the trial since its record was laid out: what it would ask now may be answered."""
    is_revoked: bool = False
    bound: Timeout | None = None
    """The time limit of the turn."""
    visited: set[str] = field(default_factory=set[str])
    differences: list[str] = field(default_factory=list[str])
    """What a verifying replay found to differ from the journal."""

    @property
    def spec(self) -> Spec:
        """The specification in force in this turn."""
        if not self.earlier:
            return self.trial.spec
        return next((spec for until, spec in self.earlier if self.turn < until), self.trial.spec)

    @property
    def is_over(self) -> bool:
        """Whether the procedure has nothing more to do here, though it may not want to hear of it."""
        return self.is_revoked or (self.bound is not None and self.bound.expired())

    def write(self, fact: f.TrialFact, texts: Mapping[str, str | bytes] | None = None) -> None:
        self.journal.append(self.trial.id, [fact], texts)

    def delta_of(self, party: str, request: Request) -> tuple[f.RequestDelta, dict[str, str | bytes]]:
        """The request as the difference to the party's last one, and the texts that are new in it."""
        base, keep = "", 0
        if party in self.asked:
            base, before = self.asked[party]
            keep = _common(before, request.messages)
            base = base if keep else ""
        texts: dict[str, str | bytes] = {}
        add: list[tuple[f.Role, f.Hash]] = []
        for message in request.messages[keep:]:
            name = text_hash(message.stored)
            texts[name] = message.stored
            add.append((message.role, name))
        delta = f.RequestDelta(
            add=add,
            base=base,
            keep=keep,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop=request.stop,
            schema=request.schema,
            params=request.params,
            tools=request.tools or (),
        )
        return delta, texts


def _common(before: Sequence[Message], now: Sequence[Message]) -> int:
    count = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        count += 1
    return count
