"""Intervals where trials come in clusters: those of one item are alike, so together they say less than as many others.

K1. The estimate is that of all trials, each counted the same; only its interval knows of clusters.
K2. An interval is never narrower than it would be if trials were independent.
K3. One cluster says nothing about others: then there is no interval.

The spread between clusters is that of a ratio of sums (Taylor's linearisation), with Student's t at one degree less
than there are clusters: with clusters of one size exactly the t interval over their means. Why:
docs/design/statistics.md.
"""

import math
from collections.abc import Hashable, Sequence

from trialrun.stats.intervals import (
    Estimate,
    check_confidence,
    mean_interval,
    named,
    t_factor,
    wilson,
    without_interval,
    z_factor,
)
from trialrun.stats.moments import Number, as_number, deviation_of, mean_of

Cluster = Hashable
"""What says which trials belong together: the level of a factor."""


def clustered_mean(
    values: Sequence[Number | None], clusters: Sequence[Cluster], *, confidence: float = 0.95
) -> Estimate:
    """The mean of values of which those of one cluster are alike. `clusters` has the cluster of each value."""
    plain = mean_interval(values, confidence=confidence)
    if plain.value is None or plain.low is None:
        return plain
    found = zip(map(as_number, values), clusters, strict=True)
    there = [(value, cluster) for value, cluster in found if value is not None]
    groups = len({cluster for _, cluster in there})
    if groups == 1:
        return without_interval(plain.value, n=plain.n, missing=plain.missing, why="a single cluster")
    numbers = [value for value, _ in there]
    alone = deviation_of(numbers) / math.sqrt(len(numbers))
    half = t_factor(confidence, groups - 1) * max(alone, _error(there))
    return Estimate(
        value=plain.value,
        low=plain.value - half,
        high=plain.value + half,
        n=plain.n,
        missing=plain.missing,
        method=named("clustered t", confidence),
    )


def clustered_rate(
    truths: Sequence[bool], clusters: Sequence[Cluster], *, missing: int = 0, confidence: float = 0.95
) -> Estimate:
    """The share of True: Wilson's interval at so many independent trials as would have the same spread.

    None or all of them say nothing about how alike the trials of a cluster are: each cluster then counts as one trial.
    """
    check_confidence(confidence)
    n = len(truths)
    if n == 0:
        return without_interval(None, n=0, missing=missing, why="no values")
    rate = sum(truths) / n
    groups = len(set(clusters))
    if groups == 1:
        return without_interval(rate, n=n, missing=missing, why="a single cluster")
    spread = rate * (1.0 - rate)
    independent = float(groups)
    if spread > 0.0:
        error = _error([(float(truth), cluster) for truth, cluster in zip(truths, clusters, strict=True)])
        independent = spread / max(spread / n, error * error)
    # Few clusters tell their own spread badly: t instead of z, as a smaller sample (Korn and Graubard).
    independent *= (z_factor(confidence) / t_factor(confidence, groups - 1)) ** 2
    low, high = wilson(rate, independent, confidence)
    return Estimate(
        value=rate, low=low, high=high, n=n, missing=missing, method=named("clustered Wilson", confidence)
    )


def _error(there: Sequence[tuple[float, Cluster]]) -> float:
    """The standard error of the mean from how far the sums of clusters are from what the mean lets expect."""
    mean = mean_of([value for value, _ in there])
    sums: dict[Cluster, float] = {}
    for value, cluster in there:
        sums[cluster] = sums.get(cluster, 0.0) + (value - mean)
    m = len(sums)
    return math.hypot(*sums.values()) * math.sqrt(m / (m - 1)) / len(there)
