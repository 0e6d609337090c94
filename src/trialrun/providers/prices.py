"""What models cost: the study's own prices first, then the price list that comes with genai-prices.

P1. A price that nobody knows is None, never 0. Zero is stated: by the study, for `local/*` and for `rehearsal/*`.
P2. A price is an upper bound in time: where it depends on the hour, the dearest of the coming day holds.
P3. How a price was found is part of it, and so is the version of the list.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, cast

from trialrun.core.discounts import batch_price
from trialrun.core.study import Price

LIST_IDS: Mapping[str, str] = MappingProxyType(
    {
        "gemini": "google",
        "vertex": "google",
        "openai-responses": "openai",
        "xai": "x-ai",
        "bedrock": "aws",
        "moonshot": "moonshotai",
    }
)
"""Our name of a provider -> its id in the price list, where they differ."""

_FREE = ("local", "rehearsal")
_KEYS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
# A charge that tokens alone do not explain: to price such a model by tokens would be too cheap.
_EXTRA = ("requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "input_text_messages_kcount")
# What may follow a known name without making it another model: `-2025-08-07`, `@20250929`, `-latest`, `-001`, `:free`
# is not among them, as it changes the price.
_VERSION = re.compile(r"(?:[-@.:](?:\d{2,8}|v\d+|latest|preview|exp|experimental|beta|snapshot))+")


class GenaiPrices:
    """The price book of a run. `given` are the study's prices, by model or by pattern (`mylab/*`)."""

    def __init__(self, given: Mapping[str, Price] | None = None, *, at: datetime | None = None) -> None:
        self._given = dict(given or {})
        self._at = at or datetime.now(tz=UTC)
        self._found: dict[str, Price | None] = {}

    @property
    def snapshot(self) -> str:
        """Name and version of the price list, for the archive."""
        from importlib.metadata import version

        return f"genai-prices {version('genai-prices')}"

    @property
    def latest_change(self) -> date | None:
        """The newest price with a date that the list knows, of those in force: the list is no older than this."""
        from genai_prices import data_snapshot

        starts = (
            start
            for provider in data_snapshot.get_snapshot().providers
            for entry in provider.models
            if isinstance(entry.prices, list)
            for conditional in entry.prices
            if (start := getattr(conditional.constraint, "start_date", None)) is not None
        )
        return max((start for start in starts if start <= self._at.date()), default=None)

    def price_of(self, model: str) -> Price | None:
        if model not in self._found:
            self._found[model] = (
                self._given_price(model) or self._stated_zero(model) or self._listed_price(model)
            )
        return self._found[model]

    def batch_price_of(self, model: str) -> Price | None:
        """What the study states for batches, else the live price under the provider's rule."""
        live = self.price_of(model)
        if live is None:
            return None
        return live.batch or batch_price(model.partition("/")[0], live)

    def _given_price(self, model: str) -> Price | None:
        if model in self._given:
            return self._given[model]
        patterns = [pattern for pattern in self._given if fnmatchcase(model, pattern)]
        return self._given[max(patterns, key=len)] if patterns else None

    def _stated_zero(self, model: str) -> Price | None:
        provider = model.partition("/")[0]
        return Price(input=Decimal(0), output=Decimal(0), source=provider) if provider in _FREE else None

    def _listed_price(self, model: str) -> Price | None:
        provider, _, name = model.lower().partition("/")
        if not name:
            return None
        entry, how = _entry_of(LIST_IDS.get(provider, provider), name)
        if entry is None:
            return None
        price = _dearest(self._rates_of(entry))
        return price and _named(price, f"{self.snapshot}: {how}")

    def _rates_of(self, entry: Any) -> "Iterable[Price | None]":
        """The entry's price in each hour of the coming day."""
        seen: list[object] = []
        for hour in range(25):
            rates = entry.get_prices(self._at + timedelta(hours=hour))
            if rates not in seen:
                seen.append(rates)
                yield _price_from(rates)


def _entry_of(provider_id: str, name: str) -> tuple[Any, str]:
    """The entry of the list for a model, and how it was found; None without one."""
    from genai_prices import data_snapshot

    snapshot = data_snapshot.get_snapshot()
    try:
        provider = snapshot.find_provider(None, provider_id, None)
    except LookupError:
        return None, ""
    exact = next((entry for entry in provider.models if entry.id.lower() == name), None)
    if exact is not None:
        return exact, f"{provider.id}/{exact.id}"
    alias = provider.find_model(name, all_providers=snapshot.providers)
    if alias is not None:
        return alias, f"{provider.id}/{alias.id} (alias)"
    prefixes = [entry for entry in provider.models if _is_version_of(name, entry.id.lower())]
    if prefixes:
        longest = max(prefixes, key=lambda entry: len(entry.id))
        return longest, f"{provider.id}/{longest.id} (longest prefix, assumed)"
    return None, ""


def listed_models(provider: str) -> list[str]:
    """The models that the list has of a provider, by our name of it."""
    from genai_prices import data_snapshot

    try:
        found = data_snapshot.get_snapshot().find_provider(None, LIST_IDS.get(provider, provider), None)
    except LookupError:
        return []
    return [entry.id for entry in found.models]


def _is_version_of(name: str, known: str) -> bool:
    """Whether `name` is `known` with a date or a version behind it: `gpt-5-pro` is not a version of `gpt-5`."""
    return name.startswith(known) and _VERSION.fullmatch(name[len(known) :]) is not None


def _price_from(rates: Any) -> Price | None:
    """Our price from one of the list; None when it charges for more than tokens, or not for both directions."""
    stated = cast("dict[str, Any]", vars(rates))
    if any(stated.get(key) is not None for key in _EXTRA) or any(
        stated.get(key) is None for key in _KEYS[:2]
    ):
        return None
    starts = sorted({tier.start for key in _KEYS for tier in getattr(stated.get(key), "tiers", ())})
    base = _flat(stated, above=None)
    return replace(base, tiers=tuple((start, _flat(stated, above=start)) for start in starts))


def _flat(stated: Mapping[str, Any], *, above: int | None) -> Price:
    """The rates of a call with just more than so many input tokens."""
    values = [_rate(stated.get(key), above) for key in _KEYS]
    return Price(
        input=values[0] or Decimal(0),
        output=values[1] or Decimal(0),
        cached_input=values[2],
        cache_write=values[3],
    )


def _rate(rate: Any, above: int | None) -> Decimal | None:
    if rate is None or isinstance(rate, Decimal):
        return rate
    reached = [tier.price for tier in rate.tiers if above is not None and tier.start <= above]
    return reached[-1] if reached else rate.base


def _dearest(prices: "Iterable[Price | None]") -> Price | None:
    """The price that none of these exceeds; None if one of them is unknown."""
    joint: Price | None = None
    for price in prices:
        if price is None:
            return None
        joint = price if joint is None else _higher(joint, price)
    return joint


def _higher(one: Price, other: Price) -> Price:
    starts = sorted({start for start, _ in (*one.tiers, *other.tiers)})
    tiers = tuple((start, _higher(_at(one, start), _at(other, start))) for start in starts)
    return Price(
        input=max(one.input, other.input),
        output=max(one.output, other.output),
        cached_input=_higher_rate(one.cached_input, other.cached_input, one.input, other.input),
        cache_write=_higher_rate(one.cache_write, other.cache_write, one.input, other.input),
        tiers=tiers,
    )


def _higher_rate(
    one: Decimal | None, other: Decimal | None, first: Decimal, second: Decimal
) -> Decimal | None:
    """The higher of two rates; without one of its own, a cached token costs what a fresh one does."""
    if one is None and other is None:
        return None
    return max(first if one is None else one, second if other is None else other)


def _at(price: Price, start: int) -> Price:
    reached = [rates for above, rates in price.tiers if above <= start]
    return replace(reached[-1] if reached else price, tiers=())


def _named(price: Price, source: str) -> Price:
    tiers = tuple((start, replace(rates, source=source)) for start, rates in price.tiers)
    return replace(price, source=source, tiers=tiers)
