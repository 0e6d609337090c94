"""How calls travel: live to the providers, or to the rehearsal that plays them; and what they cost."""

import os
from types import TracebackType
from typing import Self

from trialrun.app.studies import Plan, models_of
from trialrun.core.ports import Clock, Provider
from trialrun.providers.prices import GenaiPrices
from trialrun.providers.registry import Providers
from trialrun.providers.rehearsal import RehearsalProvider


class Lanes:
    """The providers and prices of one run. Keys and addresses come from the environment."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.prices = GenaiPrices(plan.study.prices)
        self._plan = plan
        self._providers = Providers(
            plan.lane,
            settings=os.environ,
            clock=clock,
            rehearsal=plan.study.rehearsal,
            concurrency=max(64, plan.study.limits.open_trials),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._providers.close()

    def route(self, model: str) -> Provider:
        return self._providers.provider_of(model)

    def check(self) -> None:
        """Find every provider and key that the study needs, before anything is spent."""
        for model in sorted(models_of(self._plan.study)):
            self.route(model)


def rehearsing(*, length_quantile: float | None = None) -> Provider:
    """A rehearsal that waits for nothing and never fails, for walks."""
    return RehearsalProvider(length_quantile=length_quantile)
