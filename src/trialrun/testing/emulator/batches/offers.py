"""What each provider takes in one batch and how long it keeps the results, as data. Prices: `core/discounts.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_MB = 1_000_000
_DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """The limits of one provider."""

    requests: int = 50_000
    size_bytes: int = 200 * _MB
    window_s: float = _DAY_S
    """What has not run by then never will."""
    kept_s: float | None = None
    """How long results stay after they are there; for ever if None."""


_OFFERS: Mapping[str, Offer] = MappingProxyType(
    {
        "openai": Offer(kept_s=30 * _DAY_S),
        "anthropic": Offer(requests=100_000, size_bytes=256 * _MB, kept_s=29 * _DAY_S),
        "gemini": Offer(size_bytes=2_000 * _MB, window_s=2 * _DAY_S, kept_s=2 * _DAY_S),
        "google": Offer(size_bytes=2_000 * _MB, window_s=2 * _DAY_S, kept_s=2 * _DAY_S),
        "vertex": Offer(requests=200_000, size_bytes=1_000 * _MB, window_s=4 * _DAY_S),
        "mistral": Offer(requests=1_000_000, size_bytes=512 * _MB),
        "groq": Offer(size_bytes=100 * _MB),
        "together": Offer(size_bytes=100 * _MB),
        "xai": Offer(requests=1_000_000, size_bytes=200 * _MB),
    }
)


def offer_of(provider: str) -> Offer:
    """What this provider offers; an OpenAI-shaped one's limits for a name that is not known."""
    return _OFFERS.get(provider, Offer())
