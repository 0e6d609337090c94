"""The bootstrap: published and scipy's intervals, and chance that is owned by the caller."""

from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialrun.stats.bootstrap import bootstrap_interval, random_words, resamples
from trialrun.stats.intervals import Estimate

KEY = b"a study's own key"
stats: Any = scipy.stats
samples = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=25)
levels = st.floats(0.5, 0.99)

# Efron and Tibshirani 1993, table 14.1: 26 children, a test of spatial perception.
SPATIAL = [
    48,
    36,
    20,
    29,
    42,
    42,
    20,
    42,
    22,
    41,
    45,
    14,
    6,
    0,
    33,
    28,
    34,
    4,
    32,
    24,
    47,
    41,
    24,
    26,
    30,
    41,
]


def plain_variance(values: Any) -> float:
    return float(np.var(values))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def test_the_bca_interval_is_that_of_efron_and_tibshirani_1993():
    # Table 14.2: 115.8 to 259.6 from 2,000 draws, whose own error is a few units.
    found = bootstrap_interval(SPATIAL, plain_variance, key=KEY, confidence=0.90)
    assert found.value == pytest.approx(171.5, abs=0.05)
    assert found.method == "BCa bootstrap 90 %"
    assert ends(found) == pytest.approx((115.8, 259.6), abs=5)


@pytest.mark.parametrize("statistic", [plain_variance, fmean, np.std], ids=["variance", "mean", "sd"])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bca_interval_agrees_with_scipy_on_the_same_draws(statistic: Any, level: float):
    values = sorted(map(float, SPATIAL))
    found = bootstrap_interval(values, statistic, key=KEY, draws=2000, confidence=level)
    ours = np.array([statistic(resample) for resample in resamples(values, key=KEY, draws=2000)])
    bias = stats.norm.ppf(stats.percentileofscore(ours, statistic(values), kind="mean") / 100)
    left = np.array([statistic(np.delete(values, i)) for i in range(len(values))])
    gaps = left.mean() - left
    acceleration = (gaps**3).sum() / (6 * (gaps**2).sum() ** 1.5)
    z = bias + stats.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    shares = stats.norm.cdf(bias + z / (1 - acceleration * z))
    assert ends(found) == pytest.approx(tuple(np.quantile(ours, shares)), rel=1e-9)
    theirs = stats.bootstrap((values,), np.vectorize(statistic, signature="(n)->()"), confidence_level=level,
                             n_resamples=2000, rng=np.random.default_rng(1)).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    assert ends(found) == pytest.approx((theirs.low, theirs.high), abs=0.1 * width)


def test_the_words_of_chance_do_not_depend_on_the_machine():
    assert random_words(b"key", 3) == random_words(b"key", 5)[:3]
    assert random_words(b"key", 3) == (748387176, 1707517296, 2994713294)


def test_draws_are_uniform():
    counts = np.zeros(10)
    for resample in resamples([float(i) for i in range(10)], key=KEY, draws=5000):
        counts += np.bincount(np.array(resample, dtype=int), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_more_draws_keep_the_earlier_ones():
    few = list(resamples([1.0, 2.0, 3.0], key=KEY, draws=5))
    assert list(resamples([1.0, 2.0, 3.0], key=KEY, draws=9))[:5] == few


@settings(max_examples=30)
@given(samples, st.randoms(use_true_random=False))
def test_the_same_key_gives_the_same_interval_in_whatever_order_trials_finished(
    values: list[float], chance: Any
):
    shuffled = list(values)
    chance.shuffle(shuffled)
    one = bootstrap_interval(values, median, key=KEY, draws=200)
    assert one == bootstrap_interval(shuffled, median, key=KEY, draws=200)


def test_another_key_gives_another_interval():
    one = bootstrap_interval(SPATIAL, fmean, key=b"one", draws=500)
    assert one != bootstrap_interval(SPATIAL, fmean, key=b"other", draws=500)


@settings(max_examples=50)
@given(samples, levels, levels, st.sampled_from([fmean, median, max, min]))
def test_the_interval_contains_the_estimate_and_grows_with_confidence(
    values: list[float], one: float, other: float, statistic: Any
):
    narrow = bootstrap_interval(values, statistic, key=KEY, draws=200, confidence=min(one, other))
    wide = bootstrap_interval(values, statistic, key=KEY, draws=200, confidence=max(one, other))
    if narrow.value is None or narrow.low is None:
        assert len(set(values)) == 1
        return
    (low, high), (lower, higher) = ends(narrow), ends(wide)
    assert lower - 1e-9 <= low <= narrow.value <= high <= higher + 1e-9


@settings(max_examples=30)
@given(samples, st.integers(0, 5))
def test_missing_values_are_counted_and_change_nothing_else(values: list[float], gaps: int):
    full = bootstrap_interval(values, fmean, key=KEY, draws=100)
    holed = bootstrap_interval([*values, *[None] * gaps], fmean, key=KEY, draws=100)
    assert holed.missing == gaps
    assert (full.value, full.low, full.high, full.n) == (holed.value, holed.low, holed.high, holed.n)


def test_where_the_correction_is_not_defined_the_percentile_interval_is_named():
    # The largest value is never above its own resamples, so the bias cannot be told.
    found = bootstrap_interval([0.0, 0.0, 0.0, 1.0] * 5, lambda v: float(max(v) > 0), key=KEY, draws=100)
    assert found.method == "percentile bootstrap 95 %"


def test_a_sample_that_says_nothing_about_spread_has_no_interval():
    assert bootstrap_interval([], fmean, key=KEY).value is None
    assert bootstrap_interval([None], fmean, key=KEY) == Estimate(
        value=None, low=None, high=None, n=0, missing=1, method="no interval: no values"
    )
    assert bootstrap_interval([4.0], fmean, key=KEY).low is None
    equal = bootstrap_interval([4.0] * 9, fmean, key=KEY)
    assert (equal.value, equal.low, equal.high) == (4.0, None, None)


def test_no_draws_are_refused():
    with pytest.raises(ValueError, match="draws"):
        bootstrap_interval([1, 2], fmean, key=KEY, draws=0)
