"""What a study may cost and how long it may take, from walks through its procedure: arithmetic on ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

from trialrun.core.calls import Request

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class WalkedCall:
    """One call that the procedure made while it was walked with rehearsed replies."""

    party: str
    purpose: str
    turn: int
    request: Request
    tokens_in: int
    tokens_out: int
    cost_usd: Decimal | None
    ceiling_usd: Decimal | None
    latency_s: float
    address: str = ""
    batch_cost_usd: Decimal | None = None
    """In the batch lane."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """One trial, walked from beginning to end without any model and without spending."""

    calls: tuple[WalkedCall, ...]
    trace: str
    """Digest of everything that left for the outside; equal traces mean that nobody outside could tell."""
    has_acts: bool
    stopped_at: str = ""
    """Why the walk could not go to the end: an act without a stand-in, or a failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """From short replies to long ones."""

    low: float
    high: float

    def times(self, factor: float) -> "Range":
        return Range(low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What one trial, or all of them, may take."""

    calls: Range
    tokens_in: Range
    tokens_out: Range
    cost_usd: Range | None
    """None: some price is not known."""
    ceiling_usd: float | None
    """What would be held for the dearest walk, each call at its ceiling. It is no bound where what is said makes more
    calls, or calls are repeated; the budget is one."""
    seconds: Range
    """For a single trial by itself."""
    waves: Range
    """How many calls of a trial wait for each other, at the longest: so many batches come one after another."""
    batch_cost_usd: Range | None = None
    """In the batch lane; None if some price is not known."""


def estimate_of(short: Walk, long: Walk) -> Estimate:
    """A trial's estimate from a walk with short replies and one with long ones."""

    def span(values: Sequence[float]) -> Range:
        return Range(low=min(values), high=max(values))

    walks = (short, long)
    costs = [_total([call.cost_usd for call in walk.calls]) for walk in walks]
    batch = [_total([call.batch_cost_usd for call in walk.calls]) for walk in walks]
    ceilings = [_total([call.ceiling_usd for call in walk.calls]) for walk in walks]
    known = [cost for cost in costs if cost is not None]
    caps = [cap for cap in ceilings if cap is not None]
    return Estimate(
        calls=span([len(walk.calls) for walk in walks]),
        tokens_in=span([sum(call.tokens_in for call in walk.calls) for walk in walks]),
        tokens_out=span([sum(call.tokens_out for call in walk.calls) for walk in walks]),
        cost_usd=span(known) if len(known) == len(costs) else None,
        ceiling_usd=max(caps) if len(caps) == len(ceilings) else None,
        seconds=span([sum(call.latency_s for call in walk.calls) for walk in walks]),
        waves=span([waves_of([call.address for call in walk.calls]) for walk in walks]),
        batch_cost_usd=span(_known(batch)) if None not in batch else None,
    )


def waves_of(addresses: Sequence[str]) -> int:
    """How many of these calls have to come one after another: branches of `lab.together` go side by side."""
    waves, branches = 0, dict[str, dict[str, list[str]]]()
    for address in addresses:
        number, _, inner = address.partition(".")
        if inner:
            branch, _, rest = inner.partition(".")
            branches.setdefault(number, {}).setdefault(branch, []).append(rest)
        else:
            waves += 1
    return waves + sum(max(waves_of(inner) for inner in sides.values()) for sides in branches.values())


def estimate_of_draws(draws: Sequence[tuple[Walk, Walk]]) -> Estimate:
    """A trial's estimate from several draws of its chance: what it takes on average, at most the dearest."""
    estimates = [estimate_of(short, long) for short, long in draws]
    caps = [each.ceiling_usd for each in estimates]
    return replace(mean_of(estimates), ceiling_usd=None if None in caps else max(_known(caps)))


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The estimate of a trial picked at random from these."""

    def mean(spans: Sequence[Range]) -> Range:
        return Range(
            low=sum(each.low for each in spans) / len(spans),
            high=sum(each.high for each in spans) / len(spans),
        )

    costs = [each.cost_usd for each in estimates if each.cost_usd is not None]
    batch = [each.batch_cost_usd for each in estimates]
    caps = [each.ceiling_usd for each in estimates if each.ceiling_usd is not None]
    return Estimate(
        calls=mean([each.calls for each in estimates]),
        tokens_in=mean([each.tokens_in for each in estimates]),
        tokens_out=mean([each.tokens_out for each in estimates]),
        cost_usd=mean(costs) if len(costs) == len(estimates) else None,
        ceiling_usd=sum(caps) / len(caps) if len(caps) == len(estimates) else None,
        seconds=mean([each.seconds for each in estimates]),
        waves=Range(
            low=max(each.waves.low for each in estimates), high=max(each.waves.high for each in estimates)
        ),
        batch_cost_usd=mean(_known(batch)) if None not in batch else None,
    )


def scaled(estimate: Estimate, trials: int) -> Estimate:
    """The estimate of so many trials."""
    return Estimate(
        calls=estimate.calls.times(trials),
        tokens_in=estimate.tokens_in.times(trials),
        tokens_out=estimate.tokens_out.times(trials),
        cost_usd=estimate.cost_usd.times(trials) if estimate.cost_usd else None,
        ceiling_usd=estimate.ceiling_usd * trials if estimate.ceiling_usd is not None else None,
        seconds=estimate.seconds.times(trials),
        waves=estimate.waves,
        batch_cost_usd=estimate.batch_cost_usd.times(trials) if estimate.batch_cost_usd else None,
    )


def duration_s(one: Estimate, trials: int, open_trials: int) -> Range:
    """Wall time with so many trials open: the work shared out, but never shorter than one trial."""
    share = trials / max(1, min(open_trials, trials)) if trials else 0.0
    return (
        Range(low=one.seconds.low * max(1.0, share), high=one.seconds.high * max(1.0, share))
        if trials
        else one.seconds.times(0)
    )


def _known(values: Sequence[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _total(costs: Sequence[Decimal | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return float(sum(known, Decimal(0))) if len(known) == len(costs) else None
