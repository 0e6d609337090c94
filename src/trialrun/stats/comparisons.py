"""Are two groups different? p-values, and their adjustment when several questions are asked at once.

A p-value answers one question only; how large a difference is, `intervals` and `effects` say. All tests are two-sided.
None needs the values to be normal: a permutation test needs only that the groups could have been swapped, Fisher's
only the counts.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from trialrun.core import chance
from trialrun.stats.bootstrap import DRAWS, random_words
from trialrun.stats.intervals import check_counts
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

    The drawn p-value counts the data themselves as one draw, so it is never 0.
    """
    a, b, missing = groups_of(first, second)
    n = len(a) + len(b)
    if not a or not b:
        return _without_test(n, missing)
    difference = mean_of(a) - mean_of(b)
    middle = mean_of(a + b)
    values = sorted(value - middle for value in a + b)
    smaller = min(len(a), len(b))
    # Around the common mean, the sum of one group orders the splits as the difference of means does.
    observed = abs(math.fsum(value - middle for value in (a if len(a) == smaller else b)))
    # Splits that are equal on paper must count as equal, whatever the rounding of their sums.
    bound = observed - 1e-12 * math.fsum(abs(value) for value in values)
    ways = _ways(n, smaller, at_most=draws)
    if ways is not None:
        extreme = sum(abs(sum(split)) >= bound for split in combinations(values, smaller))
        p, method = extreme / ways, f"permutation, all {ways} ways"
    else:
        extreme = sum(abs(sum(split)) >= bound for split in _splits(values, smaller, key, draws))
        p, method = (extreme + 1) / (draws + 1), f"permutation, {draws} draws"
    return Comparison(difference=difference, p=p, n=n, missing=missing, method=method)


def fisher_exact(
    successes: int, n: int, other_successes: int, other_n: int, *, missing: int = 0
) -> Comparison:
    """Fisher's exact test of two rates: the share of tables with these margins that are no likelier than this one."""
    check_counts(successes, n)
    check_counts(other_successes, other_n)
    total, drawn = n + other_n, successes + other_successes
    if n == 0 or other_n == 0:
        return _without_test(total, missing)
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


def _without_test(n: int, missing: int) -> Comparison:
    return Comparison(difference=None, p=None, n=n, missing=missing, method="no test: a group has no values")


def _ranked(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    found = [(p, place) for place, p in enumerate(p_values) if p is not None]
    if not all(0.0 <= p <= 1.0 for p, _ in found):
        raise ValueError("a p-value must be between 0 and 1")
    return sorted(found)


def _splits(values: Sequence[float], size: int, key: bytes, draws: int) -> Iterator[list[float]]:
    """So many random subsets of this size: the head of a shuffle, each from its own branch of chance."""
    n = len(values)
    for draw in range(draws):
        pool = list(values)
        for place, word in enumerate(random_words(chance.derive(key, "permutation", draw), size)):
            other = place + (word * (n - place) >> 32)
            pool[place], pool[other] = pool[other], pool[place]
        yield pool[:size]


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
