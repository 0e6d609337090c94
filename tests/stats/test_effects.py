"""Effect sizes: published examples, a slow and plain form of the same definitions, and symmetry."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from trialrun.stats.effects import cliffs_delta, hedges_g
from trialrun.stats.intervals import Estimate

stats: Any = scipy.stats
special: Any = scipy.special

ratings = st.lists(st.integers(1, 7), min_size=2, max_size=30)
levels = st.floats(0.5, 0.999)


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def with_moments(mean: float, sd: float, n: int) -> list[float]:
    """So many values with exactly this mean and standard deviation, for an even n."""
    gap = sd * math.sqrt((n - 1) / n)
    return [mean - gap, mean + gap] * (n // 2)


def test_hedges_g_is_that_of_borenstein_2009():
    # Introduction to Meta-Analysis, chapter 4: means 103 and 100, standard deviations 5.5 and 4.5, 50 in each group.
    found = hedges_g(with_moments(103, 5.5, 50), with_moments(100, 4.5, 50))
    low, high = ends(found)
    assert found.value == pytest.approx(0.5924, abs=1e-4)
    assert ((high - low) / 2 / 1.959964) ** 2 == pytest.approx(0.0411, abs=1e-4)


def test_cliffs_delta_is_that_of_the_r_package_effsize():
    found = cliffs_delta([10, 10, 20, 20, 20, 30, 30, 30, 40, 50], [10, 20, 30, 40, 40, 50])
    assert found.value == -0.25
    assert ends(found) == pytest.approx((-0.7265846, 0.3890062), abs=1e-7)


@given(ratings, ratings)
def test_cliffs_delta_is_the_mann_whitney_statistic_on_another_scale(first: list[int], second: list[int]):
    u = float(stats.mannwhitneyu(first, second).statistic)
    assert cliffs_delta(first, second).value == pytest.approx(2 * u / (len(first) * len(second)) - 1)


@given(ratings, ratings, levels)
def test_cliffs_interval_follows_from_the_dominance_matrix(first: list[int], second: list[int], level: float):
    """The definition, cell by cell."""
    na, nb = len(first), len(second)
    matrix = [[(a > b) - (a < b) for b in second] for a in first]
    delta = sum(map(sum, matrix)) / (na * nb)
    if abs(delta) == 1 or len({*first, *second}) == 1:
        return
    rows = sum((sum(row) / nb - delta) ** 2 for row in matrix)
    columns = sum((sum(row[j] for row in matrix) / na - delta) ** 2 for j in range(nb))
    cells = sum((cell - delta) ** 2 for row in matrix for cell in row)
    variance = (nb**2 * rows + na**2 * columns - cells) / (na * nb * (na - 1) * (nb - 1))
    variance = max(variance, (1 - delta**2) / (na * nb - 1))
    t = float(stats.t.ppf((1 + level) / 2, na + nb - 2))
    half = t * math.sqrt(variance) * math.sqrt((1 - delta**2) ** 2 + t * t * variance)
    middle, width = delta - delta**3, 1 - delta**2 + t * t * variance
    wanted = max(-1, (middle - half) / width), min(1, (middle + half) / width)
    assert ends(cliffs_delta(first, second, confidence=level)) == pytest.approx(wanted, abs=1e-9)


@given(ratings, ratings)
def test_hedges_g_follows_from_its_definition(first: list[int], second: list[int]):
    found = hedges_g(first, second).value
    df = len(first) + len(second) - 2
    squares = float(np.var(first) * len(first) + np.var(second) * len(second))
    if squares == 0.0:
        assert found is None
        return
    unbias = float(special.gamma(df / 2) / special.gamma((df - 1) / 2)) / math.sqrt(df / 2)
    d = float(np.mean(first) - np.mean(second)) / math.sqrt(squares / df)
    assert found == pytest.approx(unbias * d, abs=1e-12)


@pytest.mark.parametrize("effect", [hedges_g, cliffs_delta])
@given(first=ratings, second=ratings, one=levels, other=levels)
def test_an_effect_is_inside_its_interval_which_grows_with_confidence(
    effect: Any, first: list[int], second: list[int], one: float, other: float
):
    narrow = effect(first, second, confidence=min(one, other))
    wide = effect(first, second, confidence=max(one, other))
    if narrow.low is None:
        assert "equal" in narrow.method or "spread" in narrow.method
        return
    assert wide.low - 1e-12 <= narrow.low <= narrow.value <= narrow.high <= wide.high + 1e-12


@pytest.mark.parametrize("effect", [hedges_g, cliffs_delta])
@given(first=ratings, second=ratings)
def test_an_effect_turns_around_with_its_groups(effect: Any, first: list[int], second: list[int]):
    there, back = effect(first, second), effect(second, first)
    if there.value is None:
        assert back.value is None
        return
    assert there.value == pytest.approx(-back.value)
    if there.low is not None:
        assert ends(there) == pytest.approx((-back.high, -back.low))


@pytest.mark.parametrize("effect", [hedges_g, cliffs_delta])
@given(first=ratings, second=ratings, gaps=st.integers(0, 5))
def test_missing_values_are_counted_and_change_nothing_else(
    effect: Any, first: list[int], second: list[int], gaps: int
):
    full, holed = effect(first, second), effect([*first, *[None] * gaps], [math.nan, *second])
    assert holed.missing == gaps + 1
    assert (full.value, full.low, full.high, full.n) == (holed.value, holed.low, holed.high, holed.n)


def test_groups_that_do_not_overlap_still_have_an_interval():
    low, high = ends(cliffs_delta([5, 6, 7, 8], [1, 2, 3, 4]))
    assert (low < 1.0, high) == (True, 1.0)
    assert ends(cliffs_delta([1, 2, 3, 4], [5, 6, 7, 8])) == (-1.0, -low)
    many = ends(cliffs_delta(range(100, 200), range(100)))
    assert many[0] > 0.9


@pytest.mark.parametrize("effect", [hedges_g, cliffs_delta])
def test_empty_groups_have_no_effect_and_never_0(effect: Any):
    for first, second in [([], []), ([], [1, 2]), ([1, 2], [None])]:
        assert effect(first, second).value is None


def test_a_single_value_can_win_but_has_no_interval():
    found = cliffs_delta([3], [1, 2, 4])
    assert (found.value, found.low) == (pytest.approx(1 / 3), None)


def test_without_any_spread_a_difference_in_standard_deviations_has_no_meaning():
    assert hedges_g([1, 1, 1], [2, 2]).value is None
    assert cliffs_delta([1, 1], [1, 1]).value == 0.0
    assert cliffs_delta([1, 1], [1, 1]).low is None
