"""Effect sizes of two groups: how large a difference is in units of spread, and how often one side wins.

Both come with an interval, and both say why when they have none (see `intervals`, I1 to I3).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from trialrun.stats.intervals import Estimate, check_confidence, named, t_factor, without_interval, z_factor
from trialrun.stats.moments import Number, deviation_of, groups_of, mean_of


def hedges_g(
    first: Sequence[Number | None], second: Sequence[Number | None], *, confidence: float = 0.95
) -> Estimate:
    """The difference of means in pooled standard deviations, freed of small-sample bias (exact factor).

    The interval is the large-sample one of Hedges and Olkin.
    """
    check_confidence(confidence)
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    if len(a) < 2 or len(b) < 2:
        return without_interval(None, n=n, missing=missing, why="a group has fewer than two values")
    df = n - 2
    pooled = math.hypot(
        deviation_of(a) * math.sqrt((len(a) - 1) / df), deviation_of(b) * math.sqrt((len(b) - 1) / df)
    )
    if pooled == 0.0:
        return without_interval(None, n=n, missing=missing, why="no spread in either group")
    d = (mean_of(a) - mean_of(b)) / pooled
    unbias = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
    half = z_factor(confidence) * unbias * math.sqrt(n / (len(a) * len(b)) + d * d / (2 * n))
    return Estimate(
        value=unbias * d,
        low=unbias * d - half,
        high=unbias * d + half,
        n=n,
        missing=missing,
        method=named("Hedges-Olkin", confidence),
    )


def cliffs_delta(
    first: Sequence[Number | None], second: Sequence[Number | None], *, confidence: float = 0.95
) -> Estimate:
    """How much more often a value of the first group is above one of the second than below it: -1 to 1.

    It needs an order and no distances, so it suits ratings. The interval is Feng and Cliff's, which stays inside
    -1..1 and is not symmetric.
    """
    check_confidence(confidence)
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    a.sort()
    b.sort()
    if not a or not b:
        return without_interval(None, n=n, missing=missing, why="a group has no values")
    wins_a, wins_b = _net_wins(a, b), _net_wins(b, a)
    delta = sum(wins_a) / (len(a) * len(b))
    if len(a) < 2 or len(b) < 2:
        return without_interval(delta, n=n, missing=missing, why="a group has a single value")
    if a[0] == a[-1] == b[0] == b[-1]:
        return without_interval(delta, n=n, missing=missing, why="all values are equal")
    critical = t_factor(confidence, n - 2)
    variance = _delta_variance(delta, a, b, wins_a, wins_b)
    low, high = _feng_cliff(delta, variance, critical, min(len(a), len(b)))
    return Estimate(
        value=delta, low=low, high=high, n=n, missing=missing, method=named("Feng-Cliff", confidence)
    )


def _net_wins(values: Sequence[float], others: Sequence[float]) -> list[int]:
    """For each value: how many of the others (in order) it is above, minus how many it is below."""
    return [bisect_left(others, value) + bisect_right(others, value) - len(others) for value in values]


def _delta_variance(
    delta: float, a: Sequence[float], b: Sequence[float], wins_a: Sequence[int], wins_b: Sequence[int]
) -> float:
    """Cliff's unbiased estimate, which may come out negative, held above the least that the variance can be."""
    na, nb = len(a), len(b)
    ties = sum(bisect_right(b, value) - bisect_left(b, value) for value in a)
    rows = math.fsum((wins / nb - delta) ** 2 for wins in wins_a)
    columns = math.fsum((wins / na + delta) ** 2 for wins in wins_b)
    cells = na * nb * (1.0 - delta * delta) - ties
    unbiased = (nb * nb * rows + na * na * columns - cells) / (na * nb * (na - 1) * (nb - 1))
    return max(unbiased, (1.0 - delta * delta) / (na * nb - 1))


def _feng_cliff(delta: float, variance: float, critical: float, smaller: int) -> tuple[float, float]:
    if abs(delta) == 1.0:
        # No overlap at all leaves a variance of 0. Wilson's limit for n of n, carried over to -1..1, does not.
        limit = (smaller - critical**2) / (smaller + critical**2)
        return (limit, 1.0) if delta > 0 else (-1.0, -limit)
    rest, spread = 1.0 - delta * delta, critical**2 * variance
    half = math.sqrt(spread) * math.sqrt(rest * rest + spread)
    low = (delta * rest - half) / (rest + spread)
    high = (delta * rest + half) / (rest + spread)
    return max(-1.0, min(low, delta)), min(1.0, max(high, delta))
