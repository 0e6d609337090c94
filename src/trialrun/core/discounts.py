"""What the batch lane costs at each provider, relative to the live price: rules as data.

A rule is here only where the provider publishes it for all of its models. Elsewhere the live price stands, which errs
upwards; a study states a better one under `prices.<model>.batch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from trialrun.core.study import Price

Stacking = Literal["stack", "replace"]
"""Whether the discount also halves the rates of cached tokens, or a cached token has the live cache rate instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRule:
    """A provider's discount for batches."""

    share: Decimal
    """What is paid of the live price."""
    cache: Stacking = "stack"


_HALF = BatchRule(share=Decimal("0.5"))
_HALF_NOT_CACHED = BatchRule(share=Decimal("0.5"), cache="replace")
BATCH_RULES: Mapping[str, BatchRule] = MappingProxyType(
    {
        "openai": _HALF,
        "openai-responses": _HALF,
        "anthropic": _HALF,
        "google": _HALF_NOT_CACHED,
        "gemini": _HALF_NOT_CACHED,
        "vertex": _HALF_NOT_CACHED,
        "mistral": _HALF,
        "fireworks": _HALF,
        "deepinfra": BatchRule(share=Decimal("0.8")),
    }
)
"""By provider, as their price pages say in November 2026."""


def batch_price(provider: str, live: Price) -> Price:
    """What a call costs in a batch, if the study does not say otherwise."""
    rule = BATCH_RULES.get(provider)
    if rule is None:
        return replace(live, source=f"{live.source}; no batch discount known")
    tiers = tuple((above, _discounted(rates, rule)) for above, rates in live.tiers)
    return replace(_discounted(live, rule), tiers=tiers)


def _discounted(price: Price, rule: BatchRule) -> Price:
    return replace(
        price,
        input=price.input * rule.share,
        output=price.output * rule.share,
        cached_input=_cached(price.cached_input, price.input, rule),
        cache_write=_cached(price.cache_write, price.input, rule),
        reasoning=None if price.reasoning is None else price.reasoning * rule.share,
        source=f"{price.source}; batch x {rule.share}",
    )


def _cached(rate: Decimal | None, fresh: Decimal, rule: BatchRule) -> Decimal | None:
    """The rate of tokens that the cache touches. Where the discounts do not add up, the larger one holds."""
    if rate is None:
        return None
    return rate * rule.share if rule.cache == "stack" else min(rate, fresh * rule.share)
