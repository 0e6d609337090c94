"""Are two groups different? p-values, and their adjustment when several questions are asked at once.

A p-value answers one question only; how large a difference is, `intervals` and `effects` say. All tests are two-sided.
None needs the values to be normal: a permutation test needs only that the groups could have been swapped, Fisher's
only the counts, and Welch's many values.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import mul

from trialrun.core import chance
from trialrun.stats.bootstrap import DRAWS, random_words
from trialrun.stats.distributions import student_cdf
from trialrun.stats.intervals import check_counts, welch_error
from trialrun.stats.moments import Number, groups_of, mean_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A difference between two groups and how often chance alone makes one as large. None when there is no answer."""

    difference: float | None
    p: float | None
    n: int
    missing: int
    method: str


def permutation_test(
    first: Sequence[Number | None],
    second: Sequence[Number | None],
    *,
    key: bytes,
    draws: int = DRAWS,
) -> Comparison:
    """Tests the difference of means by reassigning the values to the groups: all ways if they are few, else `draws`.

    Splits are ordered by Welch's t and not by the bare difference: where spreads and sizes of the groups differ, the
    difference of equal means is called significant up to five times too often. A single value has no spread; with
    one, the difference decides. The drawn p-value counts the data themselves as one draw, so it is never 0.
    """
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    if not a or not b:
        return _without_test("a group has no values", n=n, missing=missing)
    difference = mean_of(a) - mean_of(b)
    middle = mean_of(a + b)
    scale = max(abs(value - middle) for value in a + b) or 1.0
    a, b = sorted((value - middle) / scale for value in a), sorted((value - middle) / scale for value in b)
    values, smaller = sorted(a + b), min(len(a), len(b))
    splits = _Splits(values, smaller, a if len(a) == smaller else b)
    ways = _ways(n, smaller, at_most=draws)
    if ways is not None:
        extreme = sum(splits.is_extreme(split) for split in combinations(values, smaller))
        p, method = extreme / ways, f"permutation, all {ways} ways"
    else:
        extreme = sum(splits.is_extreme(split) for split in _drawn(values, smaller, key, draws))
        p, method = (extreme + 1) / (draws + 1), f"permutation, {draws} draws"
    return Comparison(difference=difference, p=p, n=n, missing=missing, method=method)


def welch_test(first: Sequence[Number | None], second: Sequence[Number | None]) -> Comparison:
    """Welch's t test: what the permutation test comes to where both groups are large, at no cost."""
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    if not a or not b:
        return _without_test("a group has no values", n=n, missing=missing)
    difference = mean_of(a) - mean_of(b)
    if len(a) < 2 or len(b) < 2:
        return _without_test("a group has a single value", n=n, missing=missing, difference=difference)
    error, df = welch_error(a, b)
    if error == 0.0:
        return _without_test("no spread in either group", n=n, missing=missing, difference=difference)
    p = 2.0 * student_cdf(-abs(difference) / error, df)
    return Comparison(difference=difference, p=min(1.0, p), n=n, missing=missing, method="Welch t")


def fisher_exact(
    successes: int, n: int, other_successes: int, other_n: int, *, missing: int = 0
) -> Comparison:
    """Fisher's exact test of two rates: the share of tables with these margins that are no likelier than this one."""
    check_counts(successes, n)
    check_counts(other_successes, other_n)
    total, drawn = n + other_n, successes + other_successes
    if n == 0 or other_n == 0:
        return _without_test("a group has no values", n=total, missing=missing)
    weights = _hypergeometric_weights(drawn, n, other_n)
    mine = weights[successes - max(0, drawn - other_n)]
    # Tables that are equally likely on paper must count as such, whatever the rounding.
    p = math.fsum(weight for weight in weights if weight <= mine * (1.0 + 1e-7)) / math.fsum(weights)
    return Comparison(
        difference=successes / n - other_successes / other_n,
        p=min(1.0, p),
        n=total,
        missing=missing,
        method="Fisher exact",
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values that keep the chance of any false claim in the family below the level: for confirmation.

    A question without an answer (None) stays one and does not count.
    """
    order = _ranked(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    worst = 0.0
    for rank, (p, place) in enumerate(order):
        worst = max(worst, min(1.0, p * (len(order) - rank)))
        adjusted[place] = worst
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values that keep the share of false claims among the claims below the level: for exploration.

    A question without an answer (None) stays one and does not count.
    """
    order = _ranked(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    best = 1.0
    for rank in range(len(order), 0, -1):
        p, place = order[rank - 1]
        best = min(best, p * len(order) / rank)
        adjusted[place] = best
    return adjusted


def _without_test(why: str, *, n: int, missing: int, difference: float | None = None) -> Comparison:
    return Comparison(difference=difference, p=None, n=n, missing=missing, method=f"no test: {why}")


def _ranked(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    found = [(p, place) for place, p in enumerate(p_values) if p is not None]
    if not all(0.0 <= p <= 1.0 for p, _ in found):
        raise ValueError("a p-value must be between 0 and 1")
    return sorted(found)


class _Splits:
    """Compares splits of the values with the one that was observed, by the square of Welch's t.

    A split is given by its smaller group. The values lie around 0 and within -1..1, so that rounding has one size.
    """

    _EQUAL = 1e-13
    """Splits that are equal on paper must count as equal, whatever the rounding of their sums."""

    def __init__(self, values: Sequence[float], size: int, observed: Sequence[float]) -> None:
        self._size, self._rest = size, len(values) - size
        self._sum, self._squares = math.fsum(values), math.fsum(map(mul, values, values))
        self._difference, self._error = self._squared(observed)

    def is_extreme(self, split: Sequence[float]) -> bool:
        """Whether its t is at least the observed one. No division: a group without spread has an error of 0."""
        difference, error = self._squared(split)
        return difference * self._error >= self._difference * error - self._EQUAL

    def _squared(self, split: Sequence[float]) -> tuple[float, float]:
        """The squares of the difference of means and of its standard error."""
        size, rest = self._size, self._rest
        total, squares = sum(split), sum(map(mul, split, split))
        other, other_squares = self._sum - total, self._squares - squares
        difference = total / size - other / rest
        if size == 1:
            return difference * difference, 1.0
        within = (squares - total * total / size) / (size - 1) / size
        other_within = (other_squares - other * other / rest) / (rest - 1) / rest
        return difference * difference, max(0.0, within) + max(0.0, other_within)


def _drawn(values: Sequence[float], size: int, key: bytes, draws: int) -> Iterator[list[float]]:
    """So many random subsets of this size: the head of a shuffle, each from its own branch of chance."""
    pool, n = list(values), len(values)
    for draw in range(draws):
        words = random_words(chance.derive(key, "permutation", draw), size)
        others = [place + (word * (n - place) >> 32) for place, word in enumerate(words)]
        for place, other in enumerate(others):
            pool[place], pool[other] = pool[other], pool[place]
        yield pool[:size]
        # Put back, which costs the size of the smaller group and not of the whole.
        for place in range(size - 1, -1, -1):
            other = others[place]
            pool[place], pool[other] = pool[other], pool[place]


def _ways(n: int, size: int, *, at_most: int) -> int | None:
    """How many subsets of this size there are, for a size up to n / 2; None when there are more than `at_most`."""
    ways = 1
    for taken in range(size):
        ways = ways * (n - taken) // (taken + 1)
        if ways > at_most:
            return None
    return ways


def _hypergeometric_weights(drawn: int, n: int, other_n: int) -> list[float]:
    """Relative likelihoods of the first group's possible counts, from the smallest, with 1 for the likeliest."""
    least, most = max(0, drawn - other_n), min(drawn, n)
    mode = min(max((drawn + 1) * (n + 1) // (n + other_n + 2), least), most)
    upward, downward = [1.0], [1.0]
    for k in range(mode, most):
        upward.append(upward[-1] * (drawn - k) * (n - k) / ((k + 1) * (other_n - drawn + k + 1)))
    for k in range(mode, least, -1):
        downward.append(downward[-1] * k * (other_n - drawn + k) / ((drawn - k + 1) * (n - k + 1)))
    return downward[:0:-1] + upward
