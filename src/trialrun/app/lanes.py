"""How calls travel: live to the providers, or to the rehearsal that plays them; and what they cost."""

from types import TracebackType
from typing import Self

from trialrun.app.studies import Plan
from trialrun.core.ports import Clock, Provider
from trialrun.core.study import Price
from trialrun.providers.rehearsal import RehearsalProvider


class StudyPrices:
    def __init__(self, plan: Plan) -> None:
        self._given = plan.study.prices

    def price_of(self, model: str) -> Price | None:
        return self._given.get(model)


class Lanes:
    """The providers and prices of one run."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._rehearsal = RehearsalProvider(plan.study.rehearsal, clock=clock)
        self.prices = StudyPrices(plan)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._rehearsal.close()

    def route(self, model: str) -> Provider:
        return self._rehearsal


def rehearsing(*, length_quantile: float | None = None) -> Provider:
    """A rehearsal that waits for nothing and never fails, for walks."""
    return RehearsalProvider(length_quantile=length_quantile)
