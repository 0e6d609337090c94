"""Tests of two groups and adjustments for many: scipy, the published examples, and plain enumeration."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trialrun.stats.comparisons import benjamini_hochberg, fisher_exact, holm, permutation_test, welch_test

KEY = b"a study's own key"
stats: Any = scipy.stats
groups = st.lists(st.integers(0, 9).map(lambda value: value / 10), min_size=1, max_size=6)
tables = st.lists(st.integers(0, 40), min_size=4, max_size=4).filter(lambda t: t[0] + t[1] and t[2] + t[3])
p_values = st.lists(st.none() | st.floats(0, 1), max_size=30)


# --- permutation --------------------------------------------------------------------------------------------------


def squared_t(first: list[Fraction], second: list[Fraction]) -> Fraction | float:
    """The square of Welch's t, exactly; of a group with a single value, which has no spread, that of the difference."""
    difference = sum(first) / len(first) - sum(second) / len(second)
    if min(len(first), len(second)) == 1:
        return difference**2
    error = Fraction(0)
    for group in (first, second):
        mean = sum(group) / len(group)
        error += sum((value - mean) ** 2 for value in group) / (len(group) - 1) / len(group)
    if not error:
        return float("inf") if difference else Fraction(0)
    return difference**2 / error


@settings(max_examples=50)
@given(groups, groups)
def test_few_ways_are_all_counted(first: list[float], second: list[float]):
    """In fractions, where nothing is rounded."""
    values = [Fraction(round(10 * value), 10) for value in first + second]
    n = len(first)
    observed = squared_t(values[:n], values[n:])
    ways = [
        squared_t(
            [values[i] for i in chosen], [value for i, value in enumerate(values) if i not in set(chosen)]
        )
        >= observed
        for chosen in combinations(range(len(values)), n)
    ]
    found = permutation_test(first, second, key=KEY)
    assert found.p == sum(ways) / len(ways)
    assert found.method == f"permutation, all {len(ways)} ways"


def welch_t(a: Any, b: Any) -> float:
    return abs(np.mean(a) - np.mean(b)) / np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))


def test_many_ways_are_drawn_and_agree_with_scipy():
    chance = np.random.default_rng(3)
    first, second = chance.normal(0, 1, 30).tolist(), chance.normal(0.5, 2, 20).tolist()
    found = permutation_test(first, second, key=KEY)
    theirs = stats.permutation_test((first, second), welch_t, alternative="greater", rng=chance).pvalue
    assert found.method == "permutation, 10000 draws"
    assert found.difference == pytest.approx(np.mean(first) - np.mean(second))
    # Each of the two is a share of about 10,000 draws.
    assert found.p == pytest.approx(theirs, abs=5 * (2 * theirs * (1 - theirs) / 10_000) ** 0.5)


@pytest.mark.parametrize(
    ("n", "spread", "other_n", "other_spread", "at_most"),
    [
        (10, 1, 10, 1, 0.08),
        (10, 4, 30, 1, 0.09),  # the plain difference of means is called significant 23 times in 100
        (30, 4, 10, 1, 0.08),
        (5, 3, 20, 1, 0.12),
    ],
)
def test_means_that_are_equal_are_seldom_called_different_also_where_spreads_and_sizes_differ(
    n: int, spread: float, other_n: int, other_spread: float, at_most: float
):
    chance = np.random.default_rng(5)
    studies = 300
    claims = 0
    for number in range(studies):
        first = chance.normal(3, spread, n).tolist()
        second = chance.normal(3, other_spread, other_n).tolist()
        found = permutation_test(first, second, key=KEY + number.to_bytes(2, "big"), draws=99)
        claims += (found.p or 1) <= 0.05
    assert claims / studies <= at_most


@settings(max_examples=50)
@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=40),
    st.lists(st.floats(-100, 100), min_size=2, max_size=40),
)
def test_welchs_test_agrees_with_scipy(first: list[float], second: list[float]):
    found = welch_test(first, second)
    assume(min(np.std(first), np.std(second)) > 1e-3)  # else scipy warns that it loses precision
    theirs = stats.ttest_ind(first, second, equal_var=False).pvalue
    assert found.p == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_without_spread_or_values_there_is_no_welch_test():
    assert welch_test([1, 1], [2, 2]).method == "no test: no spread in either group"
    assert welch_test([1], [1, 2, 3]).p is None
    assert welch_test([], [1, 2, 3]).p is None


def test_a_drawn_p_value_is_never_0():
    found = permutation_test(range(100), range(1000, 1100), key=KEY, draws=999)
    assert found.p == 1 / 1000


def test_drawn_and_counted_p_values_agree():
    first, second = [1, 5, 6, 8, 9, 3], [2, 2, 4, 1, 7]
    counted = permutation_test(first, second, key=KEY).p
    drawn = permutation_test(first, second, key=KEY, draws=461).p
    assert counted is not None
    assert drawn == pytest.approx(counted, abs=0.1)


@settings(max_examples=30)
@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=12),
    st.lists(st.floats(-5, 5), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_neither_the_order_nor_the_side_of_the_groups_matters(first: Any, second: Any, chance: Any):
    shuffled = list(first)
    chance.shuffle(shuffled)
    one = permutation_test(first, second, key=KEY, draws=200)
    assert 0 < (one.p or 0) <= 1
    assert permutation_test(shuffled, second, key=KEY, draws=200).p == one.p
    if len(first) != len(second):
        assert permutation_test(second, first, key=KEY, draws=200).p == one.p


def test_equal_values_are_no_evidence():
    assert permutation_test([2] * 30, [2] * 30, key=KEY, draws=100).p == 1
    assert permutation_test([0.1] * 3, [0.1] * 3, key=KEY).p == 1


def test_missing_values_are_counted_and_change_nothing_else():
    full = permutation_test([1, 2, 3], [3, 4], key=KEY)
    holed = permutation_test([1, None, 2, 3], [3, float("nan"), 4], key=KEY)
    assert (holed.missing, holed.n) == (2, 5)
    assert (holed.p, holed.difference, holed.method) == (full.p, full.difference, full.method)


def test_a_group_without_values_has_no_p_value():
    found = permutation_test([None], [1, 2], key=KEY)
    assert (found.p, found.difference, found.method) == (None, None, "no test: a group has no values")
    assert fisher_exact(0, 0, 1, 2).p is None


# --- Fisher -------------------------------------------------------------------------------------------------------


@given(tables)
def test_fishers_test_agrees_with_scipy(table: list[int]):
    a, b, c, d = table
    found = fisher_exact(a, a + b, c, c + d)
    assert found.p == pytest.approx(float(stats.fisher_exact([[a, b], [c, d]]).pvalue), rel=1e-9)


def test_the_lady_tasting_tea():
    assert fisher_exact(3, 4, 1, 4).p == pytest.approx(0.4857, abs=1e-4)


def test_fishers_test_agrees_on_a_million_trials():
    found = fisher_exact(300_000, 1_000_000, 301_000, 1_000_000)
    assert found.p == pytest.approx(
        float(stats.fisher_exact([[300_000, 700_000], [301_000, 699_000]]).pvalue), rel=1e-6
    )
    assert fisher_exact(0, 1_000_000, 1_000_000, 1_000_000).p == 0


# --- many questions -----------------------------------------------------------------------------------------------

# Benjamini and Hochberg 1995, the example of section 3.1: 15 hypotheses.
BH_1995 = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
           0.7590, 1.0]  # fmt: skip


def test_the_example_of_benjamini_and_hochberg_1995():
    assert sum(p <= 0.05 for p in benjamini_hochberg(BH_1995) if p is not None) == 4
    assert sum(p <= 0.05 for p in holm(BH_1995) if p is not None) == 3


def test_holms_procedure_step_by_step():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_values)
def test_benjamini_hochberg_agrees_with_scipy(family: list[float | None]):
    there = [p for p in family if p is not None]
    theirs = iter(stats.false_discovery_control(there).tolist() if there else [])
    wanted = [None if p is None else next(theirs) for p in family]
    for ours, other in zip(benjamini_hochberg(family), wanted, strict=True):
        assert ours == (None if other is None else pytest.approx(other))


@given(p_values)
def test_adjusting_keeps_the_order_and_never_helps(family: list[float | None]):
    strict, mild = holm(family), benjamini_hochberg(family)
    asked = sorted(zip(family, mild, strict, strict=True), key=lambda row: -1 if row[0] is None else row[0])
    for p, bh, h in asked:
        if p is None:
            assert bh is h is None
        else:
            assert bh is not None
            assert h is not None
            assert p <= bh + 1e-15
            assert bh <= h + 1e-15
            assert h <= 1
    for column in zip(*asked, strict=True):
        there = [p for p in column if p is not None]
        assert there == sorted(there)


def test_one_question_needs_no_adjustment():
    assert holm([0.03]) == benjamini_hochberg([0.03]) == [0.03]
    assert holm([]) == benjamini_hochberg([]) == []


def test_what_is_no_p_value_is_refused():
    for adjust in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match="p-value"):
            adjust([0.1, 1.5])
