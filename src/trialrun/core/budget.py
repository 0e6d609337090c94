"""The arithmetic of caps: what is settled, what is held, and whether the next hold still fits.

I5. For the study, for each condition and for each trial that has a cap: settled + held <= cap, at every instant. A hold
    is taken at the ceiling and can only shrink: into its real cost, into nothing, or into a doubt that keeps all of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from trialrun.core.study import Budget

LevelName = Literal["study", "condition", "trial"]
Room = Literal["fits", "later", "never"]
_ZERO = Decimal(0)


@dataclass(kw_only=True, slots=True)
class Account:
    """Money of one level. `held_usd` includes what is in flight and what is in doubt."""

    cap_usd: Decimal | None
    settled_usd: Decimal = _ZERO
    held_usd: Decimal = _ZERO
    in_flight_usd: Decimal = _ZERO

    @property
    def committed_usd(self) -> Decimal:
        return self.settled_usd + self.held_usd

    def room_for(self, amount: Decimal) -> Room:
        """Whether a hold fits now, may fit when calls in flight have settled, or cannot fit under this cap."""
        if self.cap_usd is None or self.committed_usd + amount <= self.cap_usd:
            return "fits"
        # Calls in flight may settle below their ceilings and make room; money settled or in doubt will not.
        if self.in_flight_usd and self.committed_usd - self.in_flight_usd + amount <= self.cap_usd:
            return "later"
        return "never"

    def carries(self, amount: Decimal) -> bool:
        """Whether what is left, calls in flight included, is so much."""
        settled_or_in_doubt = self.committed_usd - self.in_flight_usd
        return self.cap_usd is None or settled_or_in_doubt + amount <= self.cap_usd


@dataclass(kw_only=True, slots=True)
class Ledger:
    """The accounts of one run. Synchronous on purpose: no await can come between a check and its hold."""

    budget: Budget
    study: Account = field(init=False)
    overruns: int = 0
    """Settlements above their ceiling. There must be none; each one is a ceiling that was not an upper bound."""
    _conditions: dict[str, Account] = field(default_factory=dict[str, Account])
    _trials: dict[str, Account] = field(default_factory=dict[str, Account])

    def __post_init__(self) -> None:
        self.study = Account(cap_usd=self.budget.study_usd)

    def carry(self, *, settled_usd: Decimal, held_usd: Decimal) -> None:
        """Begin with what earlier runs of the study spent and left in doubt."""
        self.study.settled_usd += settled_usd
        self.study.held_usd += held_usd

    def expect(self, condition: str, trial: str, held: Decimal) -> None:
        """Of what was carried as held, so much is under way and will settle in this run."""
        for _, account in self._levels(condition, trial):
            account.in_flight_usd += held

    def forget(self, condition: str, trial: str, held: Decimal) -> None:
        """What was carried as held, or is in doubt, was surely not billed."""
        for _, account in self._levels(condition, trial):
            account.held_usd -= held

    def carry_condition(self, condition: str, *, settled_usd: Decimal, held_usd: Decimal) -> None:
        if self.budget.condition_usd is not None:
            account = self._condition(condition)
            account.settled_usd += settled_usd
            account.held_usd += held_usd

    def open_trial(
        self, trial: str, *, settled_usd: Decimal, held_usd: Decimal, in_flight_usd: Decimal = _ZERO
    ) -> None:
        """Begin to watch a trial's own cap, if trials have one."""
        if self.budget.trial_usd is not None:
            self._trials[trial] = Account(
                cap_usd=self.budget.trial_usd,
                settled_usd=settled_usd,
                held_usd=held_usd,
                in_flight_usd=in_flight_usd,
            )

    def close_trial(self, trial: str) -> None:
        self._trials.pop(trial, None)

    def room_for(self, condition: str, trial: str, amount: Decimal) -> tuple[Room, LevelName]:
        """The worst answer of the levels, and the level that gives it."""
        later: LevelName | None = None
        for level, account in self._levels(condition, trial):
            match account.room_for(amount):
                case "never":
                    return "never", level
                case "later":
                    later = level
                case "fits":
                    pass
        return ("later", later) if later else ("fits", "study")

    def hold(self, condition: str, trial: str, amount: Decimal) -> None:
        """Take the hold. The caller has asked `room_for` in the same breath."""
        for _, account in self._levels(condition, trial):
            account.held_usd += amount
            account.in_flight_usd += amount

    def settle(self, condition: str, trial: str, held: Decimal, cost: Decimal) -> None:
        """The real cost takes the place of the hold."""
        if cost > held and self.budget.has_cap:
            self.overruns += 1
        for _, account in self._levels(condition, trial):
            account.held_usd -= held
            account.in_flight_usd -= held
            account.settled_usd += cost

    def release(self, condition: str, trial: str, held: Decimal) -> None:
        """The attempt was surely not billed."""
        self.settle(condition, trial, held, _ZERO)

    def doubt(self, condition: str, trial: str, held: Decimal) -> None:
        """Nobody knows whether the attempt was billed: the hold stays, but it no longer makes room by itself."""
        for _, account in self._levels(condition, trial):
            account.in_flight_usd -= held

    def _levels(self, condition: str, trial: str) -> Iterable[tuple[LevelName, Account]]:
        yield "study", self.study
        if self.budget.condition_usd is not None and condition:
            yield "condition", self._condition(condition)
        if trial in self._trials:
            yield "trial", self._trials[trial]

    def _condition(self, condition: str) -> Account:
        account = self._conditions.get(condition)
        if account is None:
            account = self._conditions[condition] = Account(cap_usd=self.budget.condition_usd)
        return account
