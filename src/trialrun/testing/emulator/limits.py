"""Rate limits that are enforced: token buckets for each key, and what their headers say.

L1. In any stretch of time no more is admitted than the burst and what flows in meanwhile.
L2. A request is admitted by all limits that fit it, or by none, and then it takes nothing from any.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

Positive = Annotated[float, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Unit = Literal["requests", "tokens"]


class Cut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For a while, only a part of the limit holds. Times count from the first request."""

    factor: Annotated[float, msgspec.Meta(ge=0)]
    from_s: Seconds = 0.0
    until_s: Seconds = float("inf")


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one key may ask for. Each key that fits has buckets of its own."""

    provider: str = "*"
    model: str = "*"
    key: str = "*"
    requests_per_second: Positive | None = None
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    open: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Requests in flight at one time."""
    burst: Annotated[float, msgspec.Meta(ge=1)] | None = None
    """Requests that may come at once; a second's or a minute's worth unless given."""
    cuts: tuple[Cut, ...] = ()

    def fits(self, provider: str, model: str, key: str) -> bool:
        return (
            fnmatchcase(provider, self.provider)
            and fnmatchcase(model, self.model)
            and fnmatchcase(key, self.key)
        )

    def edges(self, from_s: float, until_s: float) -> list[float]:
        """The moments between these two at which another part of the limit begins to hold, and the last of the two."""
        edges = {edge for cut in self.cuts for edge in (cut.from_s, cut.until_s) if from_s < edge < until_s}
        return [*sorted(edges), until_s]

    def factor(self, elapsed_s: float) -> float:
        """The part of the limit that holds now."""
        factor = 1.0
        for cut in self.cuts:
            if cut.from_s <= elapsed_s < cut.until_s:
                factor *= cut.factor
        return factor


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a key stands with one limit: what the provider's headers tell."""

    unit: Unit
    per: Literal["second", "minute"]
    limit: float
    left: float
    reset_s: float
    wait_s: float = 0.0
    """Until a request like this one is admitted; 0 if it was."""


@dataclass(slots=True)
class _Bucket:
    unit: Unit
    per: Literal["second", "minute"]
    rate: float
    burst: float
    filled_at: float
    level: float = field(init=False)

    def __post_init__(self) -> None:
        self.level = self.burst

    def fill(self, limit: Limit, elapsed_s: float) -> None:
        """Let flow in what the limit gave since the last time, piece by piece where it was cut meanwhile."""
        for edge in limit.edges(self.filled_at, elapsed_s) if limit.cuts else (elapsed_s,):
            factor = limit.factor(self.filled_at)
            gained = max(0.0, edge - self.filled_at) * self.rate * factor
            self.level = min(self.capacity(factor), self.level + gained)
            self.filled_at = edge
        self.level = min(self.level, self.capacity(limit.factor(elapsed_s)))

    def capacity(self, factor: float) -> float:
        return max(self.burst * factor, 1.0)

    def wait_s(self, wanted: float, factor: float) -> float:
        """Until there is so much; for ever if there never is."""
        if wanted > self.capacity(1.0):
            return math.inf
        rate = self.rate * factor
        return (wanted - self.level) / rate if rate else 3600.0

    def standing(self, factor: float, wait_s: float = 0.0) -> Standing:
        rate, capacity = self.rate * factor, self.capacity(factor)
        limit = rate * (60.0 if self.per == "minute" else 1.0)
        reset_s = (capacity - self.level) / rate if rate else 3600.0
        return Standing(self.unit, self.per, limit, max(0.0, self.level), reset_s, wait_s)


@dataclass(slots=True)
class _Gauge:
    """The buckets of one key under one limit."""

    limit: Limit
    buckets: list[_Bucket]
    open: int = 0


@dataclass(slots=True)
class Admission:
    """A request that was let in, or was not."""

    is_granted: bool
    standings: tuple[Standing, ...] = ()
    refused_by: Standing | None = None
    tokens: float = 0.0
    gauges: "tuple[_Gauge, ...]" = ()

    def correct(self, tokens: float) -> None:
        """The request took this many tokens, and not as many as were set aside."""
        if not self.gauges:
            return
        for gauge in self.gauges:
            for bucket in gauge.buckets:
                if bucket.unit == "tokens":
                    bucket.level += self.tokens - tokens
        self.tokens = tokens

    def leave(self) -> None:
        """The request is over."""
        for gauge in self.gauges:
            gauge.open -= 1


_FREE = Admission(is_granted=True)


class Limiter:
    """All limits, for all keys. Times are seconds since the first request."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = tuple(limits)
        self._gauges: dict[tuple[str, str, str], tuple[_Gauge, ...]] = {}
        self._by_key: dict[tuple[int, str, str], _Gauge] = {}

    def admit(self, provider: str, model: str, key: str, *, tokens: float, elapsed_s: float) -> Admission:
        """Let a request in, or say which limit is against it."""
        if not self._limits:
            return _FREE
        gauges = self._gauges_of(provider, model, key, elapsed_s)
        if not gauges:
            return _FREE
        refusals: list[Standing] = []
        for gauge in gauges:
            factor = gauge.limit.factor(elapsed_s)
            if gauge.limit.open is not None and gauge.open >= gauge.limit.open * factor:
                refusals.append(Standing("requests", "minute", gauge.limit.open, 0, 1.0, 1.0))
            for bucket in gauge.buckets:
                bucket.fill(gauge.limit, elapsed_s)
                wanted = 1.0 if bucket.unit == "requests" else tokens
                # A trillionth less than a whole one is a rounding error, and not a reason to wait.
                if bucket.level + 1e-9 < wanted:
                    refusals.append(bucket.standing(factor, bucket.wait_s(wanted, factor)))
        if not refusals:
            for gauge in gauges:
                gauge.open += 1
                for bucket in gauge.buckets:
                    bucket.level -= 1.0 if bucket.unit == "requests" else tokens
        standings = tuple(
            bucket.standing(gauge.limit.factor(elapsed_s)) for gauge in gauges for bucket in gauge.buckets
        )
        if refusals:
            longest = max(refusals, key=lambda standing: standing.wait_s)
            return Admission(is_granted=False, standings=standings, refused_by=longest)
        return Admission(is_granted=True, standings=standings, tokens=tokens, gauges=gauges)

    def cut(self, cut: Cut) -> None:
        """One more time at which only a part of every limit holds, beginning now: what was saved up stays as it is."""
        self._limits = tuple(replace(limit, cuts=(*limit.cuts, cut)) for limit in self._limits)
        for (number, _, _), gauge in self._by_key.items():
            for bucket in gauge.buckets:
                bucket.fill(gauge.limit, cut.from_s)
            gauge.limit = self._limits[number]

    def _gauges_of(self, provider: str, model: str, key: str, elapsed_s: float) -> tuple[_Gauge, ...]:
        place = (provider, model, key)
        found = self._gauges.get(place)
        if found is None:
            fitting = [n for n, limit in enumerate(self._limits) if limit.fits(provider, model, key)]
            found = self._gauges[place] = tuple(self._gauge(n, provider, key, elapsed_s) for n in fitting)
        return found

    def _gauge(self, number: int, provider: str, key: str, elapsed_s: float) -> _Gauge:
        place = (number, provider, key)
        if place not in self._by_key:
            self._by_key[place] = _Gauge(self._limits[number], _buckets(self._limits[number], elapsed_s))
        return self._by_key[place]


def _buckets(limit: Limit, elapsed_s: float) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    if limit.requests_per_second is not None:
        burst = limit.burst if limit.burst is not None else max(1.0, limit.requests_per_second)
        buckets.append(_Bucket("requests", "second", limit.requests_per_second, burst, elapsed_s))
    if limit.requests_per_minute is not None:
        burst = limit.burst if limit.burst is not None else limit.requests_per_minute
        buckets.append(_Bucket("requests", "minute", limit.requests_per_minute / 60, burst, elapsed_s))
    if limit.tokens_per_minute is not None:
        buckets.append(
            _Bucket("tokens", "minute", limit.tokens_per_minute / 60, limit.tokens_per_minute, elapsed_s)
        )
    return buckets
