"""Intervals for a mean, a rate, and the difference of two of either.

I1. An interval contains its estimate.
I2. Where the data cannot carry an interval there is none (None), and `method` says why. A mean's interval is never
    0 wide: one value, or values that are all equal, say nothing about spread.
I3. Missing values are counted and change nothing else.

Which interval for what, and why: docs/design/statistics.md. Standardised effects are in `effects`, resampling in
`bootstrap`, p-values in `comparisons`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trialrun.stats.distributions import normal_quantile, student_quantile
from trialrun.stats.moments import Number, deviation_of, groups_of, mean_of, numbers_in


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A number with its uncertainty. `value` is None when there is nothing to estimate it from."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """How many values it rests on; for a difference, of both groups together."""
    missing: int
    method: str
    """How the interval was made and at which level (`Wilson 95 %`), or why there is none."""


def mean_interval(values: Sequence[Number | None], *, confidence: float = 0.95) -> Estimate:
    """The mean with Student's t interval."""
    check_confidence(confidence)
    there = numbers_in(values)
    n, missing = len(there), len(values) - len(there)
    if n == 0:
        return without_interval(None, n=n, missing=missing, why="no values")
    mean = mean_of(there)
    if n == 1 or min(there) == max(there):
        why = "a single value" if n == 1 else "all values are equal"
        return without_interval(mean, n=n, missing=missing, why=why)
    half = t_factor(confidence, n - 1) * deviation_of(there) / math.sqrt(n)
    return Estimate(
        value=mean, low=mean - half, high=mean + half, n=n, missing=missing, method=named("t", confidence)
    )


def mean_difference(
    first: Sequence[Number | None], second: Sequence[Number | None], *, confidence: float = 0.95
) -> Estimate:
    """Mean of the first minus mean of the second, with Welch's interval: the spreads may differ."""
    check_confidence(confidence)
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    if not a or not b:
        return without_interval(None, n=n, missing=missing, why="a group has no values")
    difference = mean_of(a) - mean_of(b)
    if len(a) < 2 or len(b) < 2:
        return without_interval(difference, n=n, missing=missing, why="a group has a single value")
    error, df = welch_error(a, b)
    if error == 0.0:
        return without_interval(difference, n=n, missing=missing, why="no spread in either group")
    half = t_factor(confidence, df) * error
    return Estimate(
        value=difference,
        low=difference - half,
        high=difference + half,
        n=n,
        missing=missing,
        method=named("Welch t", confidence),
    )


def rate_interval(successes: int, n: int, *, missing: int = 0, confidence: float = 0.95) -> Estimate:
    """The share of successes with Wilson's interval, also when none or all of them are."""
    check_confidence(confidence)
    check_counts(successes, n)
    if n == 0:
        return without_interval(None, n=n, missing=missing, why="no values")
    low, high = wilson(successes / n, n, confidence)
    return Estimate(
        value=successes / n, low=low, high=high, n=n, missing=missing, method=named("Wilson", confidence)
    )


def rate_difference(
    successes: int,
    n: int,
    other_successes: int,
    other_n: int,
    *,
    missing: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """The first rate minus the other, with Newcombe's hybrid score interval (his method 10)."""
    check_confidence(confidence)
    check_counts(successes, n)
    check_counts(other_successes, other_n)
    total = n + other_n
    if n == 0 or other_n == 0:
        return without_interval(None, n=total, missing=missing, why="a group has no values")
    rate, other = successes / n, other_successes / other_n
    low, high = wilson(successes / n, n, confidence)
    other_low, other_high = wilson(other_successes / other_n, other_n, confidence)
    return Estimate(
        value=rate - other,
        low=max(-1.0, rate - other - math.hypot(rate - low, other_high - other)),
        high=min(1.0, rate - other + math.hypot(high - rate, other - other_low)),
        n=total,
        missing=missing,
        method=named("Newcombe", confidence),
    )


# --- shared with the other modules ------------------------------------------------------------------------------------


def wilson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval for a share of a sample whose size need not be whole."""
    z = z_factor(confidence)
    shrink = 1.0 + z * z / n
    middle = (share + z * z / (2.0 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2)
    # The formula gives 0, 1 and the share itself only up to rounding.
    low = 0.0 if share <= 0.0 else min(share, max(0.0, middle - half))
    high = 1.0 if share >= 1.0 else max(share, min(1.0, middle + half))
    return low, high


def without_interval(value: float | None, *, n: int, missing: int, why: str) -> Estimate:
    """An estimate alone, or nothing at all, and the reason."""
    return Estimate(value=value, low=None, high=None, n=n, missing=missing, method=f"no interval: {why}")


def named(method: str, confidence: float) -> str:
    return f"{method} {confidence * 100:g} %"


def welch_error(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """The standard error of a difference of means, with its degrees of freedom (0 where there is no spread)."""
    error_a = deviation_of(a) / math.sqrt(len(a))
    error_b = deviation_of(b) / math.sqrt(len(b))
    error = math.hypot(error_a, error_b)
    if error == 0.0:
        return 0.0, 0.0
    return error, 1.0 / ((error_a / error) ** 4 / (len(a) - 1) + (error_b / error) ** 4 / (len(b) - 1))


def z_factor(confidence: float) -> float:
    """How many standard errors to each side, when the standard error is known."""
    return -normal_quantile((1.0 - confidence) / 2.0)


def t_factor(confidence: float, df: float) -> float:
    """How many standard errors to each side, when the standard error is estimated."""
    return -student_quantile((1.0 - confidence) / 2.0, df)


def check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")


def check_counts(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is not a rate")
