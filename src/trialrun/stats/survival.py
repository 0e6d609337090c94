"""How long something lasts when not everything was watched to its end: the product-limit estimate (Kaplan and Meier).

S1. An observation that ended without the event (censored) counts as at risk up to its own time, that time included.
S2. The curve never rises, and without censoring it is the plain share that is left.
S3. Without censoring the interval is Wilson's; with it, Wilson's at the effective sample size (Rothman), which is the
    number of complete observations that would have the same Greenwood variance.

Why not the log-log interval: docs/design/statistics.md.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from trialrun.stats.intervals import Estimate, check_confidence, named, wilson, without_interval


@dataclass(frozen=True, slots=True)
class Watched:
    """One observation: until when, and whether it ended with the event."""

    time: float
    is_event: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One moment at which something happened: who was at risk just before, and what is left after it."""

    time: float
    at_risk: int
    events: int
    censored: int
    """Last seen at this time, still without the event."""
    left: Estimate
    """The share that has lasted beyond this time. `n` is everybody who was watched at all."""
    error: float
    """Greenwood's standard error of that share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survival:
    """The curve, one step for each time at which an observation ended."""

    n: int
    events: int
    steps: tuple[Step, ...]

    def at(self, time: float) -> Estimate | None:
        """The share that has lasted beyond `time`; None before the first step, where it is still everybody."""
        before = [step for step in self.steps if step.time <= time]
        return before[-1].left if before else None

    @property
    def median(self) -> float | None:
        """The first time by which half or more have had the event; None when that was not seen."""
        return next((step.time for step in self.steps if (step.left.value or 0.0) <= 0.5 + 1e-12), None)


def survival(watched: Iterable[Watched], *, confidence: float = 0.95) -> Survival:
    """The product-limit curve of these observations."""
    check_confidence(confidence)
    in_order = sorted(watched, key=lambda one: one.time)
    if any(not math.isfinite(one.time) for one in in_order):
        raise ValueError("every observation needs a finite time")
    n = at_risk = len(in_order)
    share, hazard, effective = 1.0, 0.0, float(n)
    steps: list[Step] = []
    for time, group in groupby(in_order, key=lambda one: one.time):
        ended = [one.is_event for one in group]
        events = sum(ended)
        share *= (at_risk - events) / at_risk
        if events < at_risk:
            hazard += events / (at_risk * (at_risk - events))
        effective = _effective(share, hazard, at_risk, effective)
        left = _interval(share, effective, n, confidence)
        error = share * math.sqrt(hazard)
        step = Step(
            time=time, at_risk=at_risk, events=events, censored=len(ended) - events, left=left, error=error
        )
        steps.append(step)
        at_risk -= len(ended)
    return Survival(n=n, events=sum(one.is_event for one in in_order), steps=tuple(steps))


def _effective(share: float, hazard: float, at_risk: int, before: float) -> float:
    """So many complete observations would leave the share as uncertain as it is."""
    if share <= 0.0:
        return before  # nobody is left: what is known is what was known just before
    if hazard <= 0.0:
        return float(at_risk)  # nobody had the event yet: those who came so far are what is known
    return (1.0 - share) / (share * hazard)


def _interval(share: float, n: float, counted: int, confidence: float) -> Estimate:
    """Wilson's interval at a sample size that need not be whole."""
    if n <= 0.0:
        return without_interval(share, n=counted, missing=0, why="nobody is at risk")
    low, high = wilson(share, n, confidence)
    return Estimate(
        value=share, low=low, high=high, n=counted, missing=0, method=named("Rothman", confidence)
    )
