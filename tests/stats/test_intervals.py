"""Intervals: against scipy, against published examples, and the promises I1 to I3 of the module."""

import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
import scipy.stats as oracle
from hypothesis import assume, given
from hypothesis import strategies as st

from trialrun.stats.intervals import Estimate, mean_difference, mean_interval, rate_difference, rate_interval

scipy: Any = oracle

Interval = Callable[..., Estimate]

levels = st.floats(0.5, 0.999)
plain = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
samples = st.lists(plain, min_size=2, max_size=40)
with_gaps = st.lists(st.none() | plain, max_size=40)
counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def close(ours: Sequence[float], theirs: Sequence[float], *, scale: float = 1.0) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale) for a, b in zip(ours, theirs, strict=True)
    )


# --- against scipy ------------------------------------------------------------------------------------------------


@given(samples, levels)
def test_the_t_interval_agrees_with_scipy(values: list[float], level: float):
    assume(max(values) - min(values) > 1e-3)
    theirs = scipy.ttest_1samp(values, 0.0).confidence_interval(level)
    assert close(ends(mean_interval(values, confidence=level)), (theirs.low, theirs.high), scale=1e3)


@given(samples, samples, levels)
def test_welchs_interval_agrees_with_scipy(first: list[float], second: list[float], level: float):
    assume(max(first) - min(first) > 1e-3)
    assume(max(second) - min(second) > 1e-3)
    theirs = scipy.ttest_ind(first, second, equal_var=False).confidence_interval(level)
    assert close(ends(mean_difference(first, second, confidence=level)), (theirs.low, theirs.high), scale=1e3)


@given(counts, levels)
def test_wilsons_interval_agrees_with_scipy(count: tuple[int, int], level: float):
    theirs = scipy.binomtest(*count).proportion_ci(level, method="wilson")
    assert close(ends(rate_interval(*count, confidence=level)), (theirs.low, theirs.high))


# --- published ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_that_of_newcombe_1998a(successes: int, n: int, low: float, high: float):
    found = ends(rate_interval(successes, n))
    assert (round(found[0], 4), round(found[1], 4)) == (low, high)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_the_difference_of_rates_is_method_10_of_newcombe_1998b(
    table: tuple[int, int, int, int], low: float, high: float
):
    found = ends(rate_difference(*table))
    assert (round(found[0], 4), round(found[1], 4)) == (low, high)


def test_the_interval_of_students_own_sleep_data():
    # Student 1908, extra hours of sleep under one drug against the other; the limits are those that R prints.
    gains = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    low, high = ends(mean_interval(gains))
    assert (round(low, 7), round(high, 7)) == (0.7001142, 2.4598858)


# --- I1: an interval contains its estimate; and grows with confidence ---------------------------------------------


def every_interval(
    first: list[float | None], second: list[float | None], a: tuple[int, int], b: tuple[int, int]
) -> list[Interval]:
    return [
        lambda **how: mean_interval(first, **how),
        lambda **how: mean_difference(first, second, **how),
        lambda **how: rate_interval(*a, **how),
        lambda **how: rate_difference(*a, *b, **how),
    ]


@given(with_gaps, with_gaps, counts, counts, st.tuples(levels, levels).map(sorted))
def test_i1_an_interval_contains_its_estimate_and_grows_with_confidence(
    first: list[float | None],
    second: list[float | None],
    a: tuple[int, int],
    b: tuple[int, int],
    two_levels: list[float],
):
    for interval in every_interval(first, second, a, b):
        narrow, wide = (interval(confidence=level) for level in two_levels)
        assert narrow.value == wide.value
        assert (narrow.low is None) == (narrow.high is None) == (wide.low is None)
        if narrow.low is None:
            continue
        assert narrow.value is not None
        (low, high), (lower, higher) = ends(narrow), ends(wide)
        slack = 1e-12 * max(1.0, abs(low), abs(high))
        assert low <= narrow.value <= high
        assert lower <= low + slack
        assert high - slack <= higher


@given(counts, levels)
def test_a_rate_stays_a_rate_and_its_interval_is_never_empty(count: tuple[int, int], level: float):
    low, high = ends(rate_interval(*count, confidence=level))
    assert 0.0 <= low < high <= 1.0


@given(counts, levels)
def test_failures_are_successes_seen_from_the_other_side(count: tuple[int, int], level: float):
    successes, n = count
    low, high = ends(rate_interval(successes, n, confidence=level))
    assert close((1.0 - high, 1.0 - low), ends(rate_interval(n - successes, n, confidence=level)))


@given(samples, samples)
def test_a_difference_turns_around_with_its_groups(first: list[float], second: list[float]):
    there, back = mean_difference(first, second), mean_difference(second, first)
    assert there.value == pytest.approx(-(back.value or 0.0), abs=1e-9)
    if there.low is not None:
        low, high = ends(back)
        assert close(ends(there), (-high, -low), scale=1e3)


@given(counts, counts)
def test_a_difference_of_rates_turns_around_with_its_groups(a: tuple[int, int], b: tuple[int, int]):
    low, high = ends(rate_difference(*b, *a))
    assert close(ends(rate_difference(*a, *b)), (-high, -low))


@given(with_gaps, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(values: list[float | None], chance: Any):
    shuffled = list(values)
    chance.shuffle(shuffled)
    one, other = mean_interval(values), mean_interval(shuffled)
    assert (one.value, one.n, one.missing, one.method) == (other.value, other.n, other.missing, other.method)
    if one.low is not None:
        assert close(ends(one), ends(other))


# --- I2: no interval where the data carry none --------------------------------------------------------------------


def test_i2_no_values_give_no_mean_and_never_0():
    nothing = Estimate(value=None, low=None, high=None, n=0, missing=0, method="no interval: no values")
    assert mean_interval([]) == nothing
    assert rate_interval(0, 0) == nothing
    assert mean_interval([None, None]).missing == 2
    assert mean_interval([None, None]).value is None
    assert mean_difference([], [1, 2]).value is None
    assert rate_difference(0, 0, 1, 2).value is None


def test_i2_one_value_has_a_mean_and_no_interval():
    assert mean_interval([3.5]) == Estimate(
        value=3.5, low=None, high=None, n=1, missing=0, method="no interval: a single value"
    )
    assert mean_difference([3.5], [1, 2]).value == 2.0
    assert mean_difference([3.5], [1, 2]).low is None


@given(plain, st.integers(2, 50))
def test_i2_equal_values_say_nothing_about_spread(value: float, n: int):
    found = mean_interval([value] * n)
    assert (found.value, found.low, found.high) == (value, None, None)
    assert found.method == "no interval: all values are equal"
    assert mean_difference([value] * n, [value + 1] * n).low is None
    assert mean_difference([value] * n, [value, value + 1]).low is not None


def test_one_trial_is_enough_for_the_interval_of_a_rate():
    assert [round(end, 4) for end in ends(rate_interval(1, 1))] == [0.2065, 1.0]
    assert [round(end, 4) for end in ends(rate_interval(0, 1))] == [0.0, 0.7935]


# --- I3: missing values are counted and change nothing else -------------------------------------------------------


@given(
    samples, samples, st.integers(0, 9), st.sampled_from([None, math.nan, math.inf, Decimal("NaN"), 10**400])
)
def test_i3_missing_values_are_counted_and_change_nothing_else(
    first: list[float], second: list[float], gaps: int, gap: Any
):
    for full, holed in [
        (mean_interval(first), mean_interval([*first, *[gap] * gaps])),
        (mean_difference(first, second), mean_difference([*[gap] * gaps, *first], second)),
    ]:
        assert holed.missing == gaps
        assert (full.value, full.low, full.high, full.n, full.method) == (
            holed.value,
            holed.low,
            holed.high,
            holed.n,
            holed.method,
        )
    assert rate_interval(3, 9, missing=gaps).missing == gaps
    assert ends(rate_interval(3, 9, missing=gaps)) == ends(rate_interval(3, 9))


# --- the rest -----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_no_finite_values_break_a_mean(values: list[float]):
    found = mean_interval(values)
    assert found.value is not None
    assert min(values) <= found.value <= max(values)
    if found.low is not None:
        low, high = ends(found)
        assert low <= found.value <= high


def test_money_is_a_number():
    assert mean_interval([Decimal("0.10"), Decimal("0.30")]).value == pytest.approx(0.2)


def test_the_level_is_named():
    assert mean_interval([1, 2], confidence=0.99).method == "t 99 %"
    assert rate_interval(1, 2, confidence=0.999).method == "Wilson 99.9 %"


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
def test_a_level_that_is_none_is_refused(level: float):
    for interval in every_interval([1.0], [2.0], (1, 2), (1, 2)):
        with pytest.raises(ValueError, match="confidence"):
            interval(confidence=level)


@pytest.mark.parametrize("count", [(-1, 2), (3, 2), (0, -1)])
def test_counts_that_are_no_rate_are_refused(count: tuple[int, int]):
    with pytest.raises(ValueError, match="not a rate"):
        rate_interval(*count)
    with pytest.raises(ValueError, match="not a rate"):
        rate_difference(1, 2, *count)


# --- coverage: how often an interval holds the truth that the values were drawn from ------------------------------


def covered(found: Callable[[random.Random], Estimate], truth: float, studies: int = 2000) -> float:
    chance = random.Random(7)
    intervals = [found(chance) for _ in range(studies)]
    held = [
        each.low <= truth <= each.high for each in intervals if each.low is not None and each.high is not None
    ]
    assert len(held) > 0.9 * studies
    return sum(held) / len(held)


def drawn(chance: random.Random, n: int, mean: float = 0.0, spread: float = 1.0) -> list[float]:
    return [chance.gauss(mean, spread) for _ in range(n)]


def successes(chance: random.Random, n: int, rate: float) -> int:
    return sum(chance.random() < rate for _ in range(n))


@pytest.mark.parametrize("n", [5, 20])
def test_19_of_20_intervals_of_means_hold_the_mean(n: int):
    assert covered(lambda chance: mean_interval(drawn(chance, n, 3, 2)), 3) == pytest.approx(0.95, abs=0.02)
    ratings = [1, 2, 2, 3, 3, 3, 4, 5]
    found = covered(lambda chance: mean_interval(chance.choices(ratings, k=n)), sum(ratings) / 8)
    assert found == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(("n", "other_n"), [(5, 15), (10, 10), (30, 10)])
def test_19_of_20_intervals_of_differences_hold_the_difference_though_spreads_differ(n: int, other_n: int):
    found = covered(lambda chance: mean_difference(drawn(chance, n, 1, 4), drawn(chance, other_n, 3, 1)), -2)
    assert found == pytest.approx(0.95, abs=0.025)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_wilsons_intervals_hold_a_rate_as_often_as_they_say_on_the_whole(rate: float):
    """Of few trials only some rates can come out, so coverage swings around its level from n to n."""
    found = [
        covered(lambda chance, n=n: rate_interval(successes(chance, n, rate), n), rate, 500)
        for n in range(8, 24)
    ]
    assert min(found) > 0.86
    assert sum(found) / len(found) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("n", "rate", "other_n", "other_rate"), [(10, 0.5, 10, 0.2), (10, 0.9, 30, 0.95), (6, 0.5, 18, 0.5)]
)
def test_newcombes_intervals_hold_a_difference_at_least_as_often_as_they_say(
    n: int, rate: float, other_n: int, other_rate: float
):
    def found(chance: random.Random) -> Estimate:
        return rate_difference(successes(chance, n, rate), n, successes(chance, other_n, other_rate), other_n)

    assert covered(found, rate - other_rate) > 0.93
