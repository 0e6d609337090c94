"""The money of a run as its engine sees it: trials with caps of their own, and whether another trial is affordable."""

from decimal import Decimal
from typing import TYPE_CHECKING

from trialrun.core.budget import Ledger
from trialrun.core.state import TrialState
from trialrun.gateway.gateway import Gateway

if TYPE_CHECKING:
    from trialrun.gateway.batches.lane import BatchLane


class RunMoney:
    """The ledger and the gateway as the engine sees them."""

    def __init__(
        self, ledger: Ledger, gateway: Gateway, slow: "BatchLane | None", *, trial_usd: Decimal | None
    ) -> None:
        self._ledger = ledger
        self._gateway = gateway
        self._slow = slow
        self._trial_usd = trial_usd

    def open_trial(self, trial: str, state: TrialState | None) -> None:
        zero = Decimal(0)
        self._ledger.open_trial(
            trial,
            settled_usd=state.spent_usd if state else zero,
            held_usd=state.held_usd if state else zero,
            in_flight_usd=self._coming_usd(state) if state else zero,
        )

    def _coming_usd(self, state: TrialState) -> Decimal:
        """Of what the trial holds, so much is out in the slow lane, and settles in this run."""
        slow = self._slow
        if slow is None:
            return Decimal(0)
        coming = (held for (at, number), held in state.holds.items() if slow.is_coming(state.id, at, number))
        return sum(coming, Decimal(0))

    def close_trial(self, trial: str) -> None:
        self._ledger.close_trial(trial)

    def forget(self, condition: str, trial: str, held_usd: Decimal) -> None:
        self._ledger.forget(condition, trial, held_usd)

    def carries(self, trials: int) -> bool:
        return self._trial_usd is None or self._ledger.study.carries(trials * self._trial_usd)

    def drain(self) -> None:
        self._gateway.drain()
