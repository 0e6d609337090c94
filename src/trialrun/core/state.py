"""Fold of the facts of one trial: its status, outcome, money and counts. Always recomputable from the journal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from trialrun.core import facts as f

ENDED: frozenset[f.Status] = frozenset({"done", "failed", "timed_out", "cancelled"})
"""A run does not take these up again by itself. `stopped_by_budget`, `parked` and `running` it does."""

_ZERO = Decimal(0)
BATCH = "batch"
"""What a trial waits for whose calls travel in the batch lane."""


@dataclass(kw_only=True, slots=True)
class TrialState:
    """Where one trial stands. Only `apply` changes it."""

    id: str
    condition: str = ""
    levels: dict[str, str] = field(default_factory=dict[str, str])
    replicate: int = 0
    block: int = 0
    planned: int = 0
    actual: int = 0
    spec: str = ""
    status: f.Status = "planned"
    reason: str = ""
    boundary: str = ""
    waiting_for: str = ""
    values: dict[str, object] = field(default_factory=dict[str, object])
    end_reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    spent_usd: Decimal = _ZERO
    unknown_costs: int = 0
    """Calls whose cost is not known; they are missing from `spent_usd`, never counted as 0."""
    calls: int = 0
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    turns: int = 0
    generation: int = 0
    forked_from: str = ""
    judging: str = ""
    """The judging pass that this trial belongs to; empty for the trials of the study itself, and their forks."""
    holds: dict[tuple[str, int], Decimal] = field(default_factory=dict[tuple[str, int], Decimal])
    """Attempts whose cost is open, at their ceilings."""
    lost_holds_usd: Decimal = _ZERO
    """Holds known only as a sum, when the state was read back from a stored row."""
    doubts: int = 0

    @property
    def held_usd(self) -> Decimal:
        return sum(self.holds.values(), self.lost_holds_usd)

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED

    def apply(self, fact: f.TrialFact, at: float) -> None:
        """Take one more fact of this trial into account. Those of every trial are looked at first."""
        match fact:
            case f.Held():
                self._leave()
                self.holds[fact.at, fact.attempt] = fact.ceiling_usd or _ZERO
            case f.Settled():
                self._settle(fact)
            case f.Started():
                self._start(fact, at)
            case f.Finished():
                self.values, self.end_reason = fact.values, fact.end_reason
                self._end("done", at)
            case f.Charged():
                self._charge(fact)
            case f.Released():
                self.holds.pop((fact.at, fact.attempt), None)
                self._results_came()
            case f.Doubted():
                self.doubts += 1
            case f.Confirmed():
                self._confirm(fact)
            case f.Answered():
                self._answer(fact)
            case f.TurnBegan():
                self.turns = max(self.turns, fact.turn)
            case f.Forked() | f.Judges():
                self._come_from(fact)
            case f.Superseded():
                self._begin_anew()
            case f.Retried():
                self._take_up()
            case f.Waiting():
                self.status = "parked"
                self.waiting_for = fact.waiting_for
            case f.Failed():
                self.boundary = fact.boundary
                self._end("failed", at, fact.reason)
            case f.TimedOut():
                self.boundary = "limit"
                self._end("timed_out", at, fact.reason)
            case f.Cancelled():
                self._end("cancelled", at, fact.reason)
            case f.StoppedByBudget():
                self.status, self.reason = "stopped_by_budget", f"the {fact.level} budget"
            case (
                f.GaveUp() | f.Said() | f.Measured() | f.Rated() | f.StateLogged() | f.ArtefactKept() | f.Ticked()
                | f.Asked() | f.ActBegan() | f.ActEnded()
            ):  # fmt: skip
                pass

    def _come_from(self, fact: f.Forked | f.Judges) -> None:
        """The trial comes from another one: it branches off, or rates it."""
        if isinstance(fact, f.Forked):
            self.forked_from = fact.source
        else:
            self.judging = fact.judging

    def _start(self, fact: f.Started, at: float) -> None:
        self.condition, self.levels, self.replicate = fact.condition, fact.levels, fact.replicate
        self.block, self.planned, self.actual, self.spec = fact.block, fact.planned, fact.actual, fact.spec
        self.started_at = at
        self.status = "running"

    def _leave(self) -> None:
        """A call is on its way: whatever stopped the trial does so no longer."""
        self.attempts += 1
        if self.status == "stopped_by_budget":
            self.status, self.reason = "running", ""

    def _settle(self, fact: f.Settled) -> None:
        self.calls += 1
        self._results_came()
        if fact.cost_usd is None:
            # Paid, and nobody can say how much: the hold stays.
            self.unknown_costs += 1
        else:
            self.holds.pop((fact.at, fact.attempt), None)
            self.spent_usd += fact.cost_usd
        if fact.usage is not None:
            self.tokens_in += fact.usage.tokens_in
            self.tokens_out += fact.usage.tokens_out

    def _charge(self, fact: f.Charged) -> None:
        if fact.cost_usd is None:
            self.unknown_costs += 1
        else:
            self.spent_usd += fact.cost_usd

    def _results_came(self) -> None:
        """A trial that waits for a batch goes on with whatever comes; what is still out, its replay waits for again."""
        if self.status == "parked" and self.waiting_for == BATCH:
            self.status, self.waiting_for = "running", ""

    def _confirm(self, fact: f.Confirmed) -> None:
        self.holds.pop((fact.at, fact.attempt), None)
        self.spent_usd += fact.cost_usd
        if fact.was_answered:
            self.unknown_costs = max(0, self.unknown_costs - 1)
        else:
            self.doubts = max(0, self.doubts - 1)

    def _answer(self, fact: f.Answered) -> None:
        """What the trial waited for has come: it can go on."""
        if self.status == "parked" and self.waiting_for == f"human:{fact.at}":
            self.status, self.waiting_for = "running", ""

    def _end(self, status: f.Status, at: float, reason: str = "") -> None:
        self.status, self.reason, self.ended_at, self.waiting_for = status, reason, at, ""

    def _take_up(self) -> None:
        self.status, self.reason, self.boundary, self.ended_at = "running", "", "", None

    def _begin_anew(self) -> None:
        self._take_up()
        self.status = "planned"
        self.values, self.end_reason, self.waiting_for, self.turns = {}, "", "", 0
        self.generation += 1


def in_force(entries: list[f.Entry], *, when: int | None = None) -> list[f.Entry]:
    """The entries of a trial that still count: those after the last time that it began anew.

    With `when`, those of the generation that was in force when a fact got that number: a fork keeps its past when the
    trial that it branches off begins anew.
    """
    begin, end = 0, len(entries)
    for place, entry in enumerate(entries):
        if isinstance(entry.fact, f.Superseded):
            if when is not None and entry.seq > when:
                end = place
                break
            begin = place + 1
    return entries[begin:end]


def branching_of(entries: Sequence[f.Entry]) -> tuple[f.Forked, int] | None:
    """Where a fork branches off, and the number of the fact that says so; None for any other trial."""
    for entry in reversed(entries):
        if isinstance(entry.fact, f.Forked):
            return entry.fact, entry.seq
    return None


def before_turn(entries: Sequence[f.Entry], turn: int) -> list[f.Entry]:
    """What happened before this turn began: the part that a fork shares with its source."""
    for place, entry in enumerate(entries):
        if isinstance(entry.fact, f.TurnBegan) and entry.fact.turn >= turn:
            return list(entries[:place])
    return list(entries)
