"""What a run is made of, and what it counts. The engine works on these; `app` puts them together."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol

from trialrun.core import facts as f
from trialrun.core.ports import Clock, Door, Journal, Procedure, Utterance
from trialrun.core.state import TrialState
from trialrun.core.study import Limits, Spec, Trial
from trialrun.engine.sitting import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A trial in its planned place. A fork has no place, and specifications of its sources."""

    trial: Trial
    block: int = 0
    planned: int = 0
    earlier: tuple[tuple[int, Spec], ...] = ()
    """Of a fork: until which turn which other specification is in force, earliest first."""
    judges: f.Judges | None = None
    """Of a trial that rates another one: which."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `judges` names."""

    @property
    def capped_by(self) -> str:
        """The condition whose cap counts the trial's calls. A fork is outside the sums, so outside the cap."""
        return "" if self.earlier else self.trial.condition.id


class Money(Protocol):
    """What the engine tells the gateway's ledger."""

    def open_trial(self, trial: str, state: TrialState | None) -> None: ...

    def close_trial(self, trial: str) -> None: ...

    def forget(self, condition: str, trial: str, held_usd: Decimal) -> None:
        """A hold of an earlier run was for something that never left."""
        ...

    def carries(self, trials: int) -> bool:
        """Whether so many trials are expected to come to their end with what is left."""
        ...

    def drain(self) -> None: ...


class SlowLane(Protocol):
    """Where calls travel that take hours. Trials that wait for it are parked, and woken when something came."""

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that this run stays for."""
        ...

    def waits_for(self, state: TrialState) -> bool:
        """Whether something is out for this trial."""
        ...

    def has(self, trial: str, at: str, attempt: int) -> bool:
        """Whether this attempt of a call is out, or waits for company."""
        ...

    def nothing_else(self) -> None:
        """No trial can go on by itself: what waits for company leaves now."""
        ...

    async def run(self, wake: Callable[[Iterable[str]], None]) -> None:
        """Carry what is out, and tell which trials may go on: names that can be gone through more than once.

        Ends when it is cancelled.
        """
        ...

    async def rest(self, *, is_patient: bool) -> None:
        """Come to where nothing is lost by stopping. Patient: let everything that is out come back first.

        Raises what stopped the lane, if anything did.
        """
        ...


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counts of the planned trials as this run finds and leaves them. The journal is the truth."""

    started: int = 0
    ended_now: int = 0
    """Trials that ended in this run, well or not."""
    calls_of_ended: int = 0
    """Calls that they made in this run."""
    done_in_plan: int = 0
    failed_in_plan: int = 0
    parked: int = 0
    stopped_by_budget: int = 0
    forks_left: int = 0
    """Forks that have not ended, parked ones included."""
    forks_failed: int = 0
    open: int = 0
    done_by_condition: dict[str, int] = field(default_factory=dict[str, int])
    open_by_condition: Counter[str] = field(default_factory=Counter[str])
    began_at: float = 0.0
    titles: dict[str, str] | None = None
    """Titles of the first conditions, kept here by whoever shows the progress."""
    stop: str = ""

    def count_open(self, condition: str, change: Literal[1, -1]) -> None:
        self.open += change
        self.open_by_condition[condition] += change

    def count_done(self, condition: str) -> None:
        self.done_in_plan += 1
        self.done_by_condition[condition] = self.done_by_condition.get(condition, 0) + 1

    def count_ended(self, by_condition: Mapping[str, Mapping[str, int]]) -> None:
        """Trials that ended in earlier runs: condition → status → how many."""
        for condition, by_status in by_condition.items():
            if done := by_status.get("done", 0):
                self.done_in_plan += done
                self.done_by_condition[condition] = self.done_by_condition.get(condition, 0) + done
            self.failed_in_plan += sum(by_status.values()) - done


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a run is made of."""

    journal: Journal
    door: Door
    money: Money
    clock: Clock
    limits: Limits
    mode: Mode
    session: str
    procedure_of: Callable[[Spec], Procedure]
    check: Callable[[], None]
    """Called before a trial begins or goes on; what it raises ends the run."""
    reopen: Callable[[TrialState], Awaitable[Slot | None]]
    """The slot of a trial that was parked and has its answer."""
    measures_of: Callable[[Trial, Sequence[Utterance]], Mapping[str, float | None]]
    """Values that are taken from the transcript of a finished trial."""
    ended: Callable[[str | None], None]
    """Told of each ending: None, or why the trial failed. Raises BreakerOpen when it has seen enough."""
    snapshot: Callable[[Progress], dict[str, object]]
    """What the heartbeat publishes."""
    slow: SlowLane | None = None
