"""Intervals by resampling, for statistics that have no formula of their own: a median, a trimmed mean, a ratio.

Chance is an argument: resample number k draws from branch k of the caller's key (`core.chance`), so the same key gives
the same interval on every machine, and more draws keep the earlier ones. Values are sorted first, so the order in
which trials finished does not matter either.
"""

import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence

from trialrun.core import chance
from trialrun.stats.distributions import normal_cdf, normal_quantile
from trialrun.stats.intervals import Estimate, check_confidence, named, without_interval
from trialrun.stats.moments import Number, mean_of, numbers_in, quantile_of

Statistic = Callable[[Sequence[float]], float]

DRAWS = 10_000


def bootstrap_interval(
    values: Sequence[Number | None],
    statistic: Statistic,
    *,
    key: bytes,
    draws: int = DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """A statistic with Efron's BCa interval, or the percentile interval where BCa is not defined; `method` says which.

    `statistic` sees the values in ascending order, but those of a resample in any order.
    """
    check_confidence(confidence)
    if draws < 1:
        raise ValueError(f"a bootstrap needs draws, not {draws}")
    there = sorted(numbers_in(values))
    n, missing = len(there), len(values) - len(there)
    if n == 0:
        return without_interval(None, n=n, missing=missing, why="no values")
    value = statistic(there)
    if n == 1 or there[0] == there[-1]:
        why = "a single value" if n == 1 else "all values are equal"
        return without_interval(value, n=n, missing=missing, why=why)
    resampled = sorted(statistic(resample) for resample in resamples(there, key=key, draws=draws))
    tails = ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0)
    shares = _bca_shares(value, resampled, _acceleration(there, statistic), tails)
    low, high = (quantile_of(resampled, share) for share in shares or tails)
    return Estimate(
        value=value,
        # A statistic that resampling pushes to one side can leave the interval; then the interval is widened.
        low=min(low, value),
        high=max(high, value),
        n=n,
        missing=missing,
        method=named("BCa bootstrap" if shares else "percentile bootstrap", confidence),
    )


def resamples(values: Sequence[float], *, key: bytes, draws: int) -> Iterator[list[float]]:
    """So many samples of the same size, drawn with replacement."""
    n = len(values)
    for draw in range(draws):
        words = random_words(chance.derive(key, "bootstrap", draw), n)
        yield [values[word * n >> 32] for word in words]


def random_words(key: bytes, count: int) -> tuple[int, ...]:
    """So many numbers of 32 bits from one branch of chance.

    `word * n >> 32` makes of one a number below n; the bias, n in 2**32, is far below what a resample can show.
    """
    return struct.unpack(f"<{count}I", hashlib.shake_128(key).digest(4 * count))


def _bca_shares(
    value: float, resampled: Sequence[float], acceleration: float | None, tails: tuple[float, float]
) -> tuple[float, float] | None:
    """Which quantiles of the resampled statistics to take; None where the correction is not defined."""
    below = sum(other < value for other in resampled)
    same = sum(other == value for other in resampled)
    bias = normal_quantile((below + same / 2.0) / len(resampled))
    if acceleration is None or math.isinf(bias):
        return None
    return _bca_share(tails[0], bias, acceleration), _bca_share(tails[1], bias, acceleration)


def _bca_share(share: float, bias: float, acceleration: float) -> float:
    z = bias + normal_quantile(share)
    room = 1.0 - acceleration * z
    # Past the pole the formula turns around; the limit before it is the end of the distribution.
    return normal_cdf(bias + z / room) if room > 0.0 else float(z > 0.0)


def _acceleration(values: Sequence[float], statistic: Statistic) -> float | None:
    """How the spread of the statistic changes with its value, by the jackknife."""
    left_out = [statistic([*values[:i], *values[i + 1 :]]) for i in range(len(values))]
    middle = mean_of(left_out)
    scale = max(abs(middle - other) for other in left_out)
    if not 0.0 < scale < math.inf:
        return None
    gaps = [(middle - other) / scale for other in left_out]
    return math.fsum(gap**3 for gap in gaps) / (6.0 * math.fsum(gap * gap for gap in gaps) ** 1.5)
