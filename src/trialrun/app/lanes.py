"""How calls travel: live to the providers, or to the rehearsal that plays them; and what they cost."""

import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trialrun.app.clock import SystemClock
from trialrun.app.connections import most_connections
from trialrun.app.studies import Plan, models_of
from trialrun.core.batches import BatchRoute
from trialrun.core.calls import Call
from trialrun.core.errors import UsageError
from trialrun.core.ports import Clock, Provider
from trialrun.providers.prices import GenaiPrices

if TYPE_CHECKING:
    from trialrun.providers.registry import Providers


class Lanes:
    """The providers and prices of one run. Keys and addresses come from the environment."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.prices = GenaiPrices(plan.study.prices)
        self._plan = plan
        self._clock = clock
        self._providers: Providers | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._providers is not None:
            await self._providers.close()

    def route(self, model: str) -> Provider:
        """The provider of a model."""
        return self._opened().provider_of(model)

    def account_of(self, model: str) -> str:
        """Whose limits hold for a model; empty where nobody else's do."""
        return self._opened().account_of(model)

    def batch_route(self, model: str) -> BatchRoute:
        """The batch API of the model's provider."""
        return self._opened().batch_route_of(model)

    def _opened(self) -> "Providers":
        if self._providers is None:
            # The HTTP client takes a while to import, and a plan has no need for it.
            from trialrun.providers.registry import Providers

            self._providers = Providers(
                "rehearsal" if self._plan.lane == "rehearsal" else "live",
                settings=os.environ,
                clock=self._clock,
                rehearsal=self._plan.study.rehearsal,
                concurrency=most_connections(),
            )
        return self._providers

    def check(self) -> None:
        """Every model of the study finds its provider, and the provider its key, before anything is spent."""
        models = sorted(models_of(self._plan.study))
        self._opened().check(models, in_batches=self._plan.lane == "batch")
        for model in models:
            self.route(model)
            if self._plan.lane == "batch":
                self.batch_route(model)


def check_spelling(call: Call) -> None:
    """RequestRefused if the provider's own spelling of the call cannot be: what `params` ask for may not be sent."""
    from trialrun.providers.registry import Providers

    with suppress(UsageError):  # a model that nobody knows; `run` says so
        Providers("rehearsal", settings=os.environ, clock=SystemClock()).provider_of(
            call.request.model
        ).prepare(call)


def rehearsing(*, length_quantile: float | None = None) -> Provider:
    """A rehearsal that waits for nothing and never fails, for walks."""
    from trialrun.providers.rehearsal import RehearsalProvider

    return RehearsalProvider(length_quantile=length_quantile)
