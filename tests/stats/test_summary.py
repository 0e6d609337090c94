"""Summaries: the kind decides, missing stays missing, and what is mixed is said to be mixed."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.stats.clusters import clustered_mean, clustered_rate
from trialrun.stats.intervals import mean_interval, rate_interval
from trialrun.stats.summary import Summary, summarise

anything = st.lists(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-9, 9)
    | st.sampled_from(["yes", "no", ""])
    | st.just([1])
)


def test_truth_values_give_a_rate():
    found = summarise([True, False, True, None])
    assert (found.kind, found.n, found.missing) == ("truth", 3, 1)
    assert found.rate == rate_interval(2, 3, missing=1)
    assert (found.numbers, found.labels) == (None, ())


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_numbers_give_a_mean_and_a_spread_as_numpy_has_them(values: list[float]):
    found = summarise([*values, None]).numbers
    assert found is not None
    assert found.mean == mean_interval([*values, None])
    assert found.sd == pytest.approx(float(np.std(values, ddof=1)), abs=1e-6)
    quartiles = (found.minimum, found.lower_quartile, found.median, found.upper_quartile, found.maximum)
    assert quartiles == pytest.approx(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), abs=1e-6)


def test_text_gives_the_share_of_each_label_most_frequent_first():
    found = summarise(["mild", "none", "mild", None, "severe"])
    assert found.kind == "label"
    assert [(label.label, label.count) for label in found.labels] == [("mild", 2), ("none", 1), ("severe", 1)]
    assert found.labels[0].share == rate_interval(2, 4, missing=1)


def test_a_declared_label_that_does_not_occur_is_0_of_n():
    found = summarise(["no", "no", "perhaps"], labels=["yes", "no"])
    assert [(label.label, label.count) for label in found.labels] == [("yes", 0), ("no", 2), ("perhaps", 1)]
    assert found.labels[0].share.high == rate_interval(0, 3).high


def test_a_declared_label_of_values_that_are_all_missing_has_no_share():
    found = summarise([None, None], labels=["yes"])
    assert (found.kind, found.n, found.missing) == ("nothing", 0, 2)
    assert found.labels[0].share.value is None


def test_numbers_that_happen_to_be_0_and_1_are_numbers():
    found = summarise([0, 1, 1])
    assert (found.kind, found.rate) == ("number", None)


def test_mixed_kinds_are_each_summarised_by_themselves():
    found = summarise([True, 4, "abstained", 5.0, None, [1, 2]])
    assert (found.kind, found.n, found.missing, found.others) == ("mixed", 5, 1, 1)
    assert found.rate == rate_interval(1, 1, missing=1)
    assert found.numbers is not None
    assert (found.numbers.mean.value, found.numbers.mean.n) == (4.5, 2)
    assert found.labels[0].share == rate_interval(1, 1, missing=1)


@pytest.mark.parametrize("values", [[], [None], [math.nan, None, math.inf, Decimal("sNaN")]])
def test_nothing_is_not_0(values: list[Any]):
    assert summarise(values) == Summary(kind="nothing", n=0, missing=len(values))


def test_a_single_number_has_no_spread():
    found = summarise([7]).numbers
    assert found is not None
    assert (found.mean.value, found.mean.low, found.sd, found.median) == (7, None, None, 7)


def test_equal_numbers_have_a_spread_of_exactly_0_and_no_interval():
    found = summarise([0.1] * 7).numbers
    assert found is not None
    assert (found.mean.value, found.mean.low, found.sd, found.lower_quartile) == (0.1, None, 0.0, 0.1)


def test_money_is_summarised_as_a_number():
    found = summarise([Decimal("0.25"), Decimal("0.75")]).numbers
    assert found is not None
    assert found.mean.value == 0.5


@given(anything, st.integers(0, 5))
def test_every_value_is_counted_once_and_missing_ones_touch_nothing(values: list[Any], gaps: int):
    found, holed = summarise(values), summarise([*[None] * gaps, *values])
    parts = [found.rate.n if found.rate else 0, found.numbers.mean.n if found.numbers else 0]
    assert sum(parts) + sum(label.count for label in found.labels) + found.others == found.n
    assert found.n + found.missing == len(values)
    assert (holed.kind, holed.n, holed.missing) == (found.kind, found.n, found.missing + gaps)
    if found.numbers and holed.numbers:
        assert (found.numbers.mean.low, found.numbers.sd) == (holed.numbers.mean.low, holed.numbers.sd)


@given(anything, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(values: list[Any], chance: Any):
    shuffled = list(values)
    chance.shuffle(shuffled)
    one, other = summarise(values), summarise(shuffled)
    assert (one.kind, one.rate, one.labels, one.others) == (
        other.kind,
        other.rate,
        other.labels,
        other.others,
    )
    assert (one.numbers and one.numbers.median) == (other.numbers and other.numbers.median)


def test_the_level_reaches_every_part():
    found = summarise([True, "a", 1, 2], confidence=0.5)
    assert found.rate is not None
    assert found.numbers is not None
    methods = (found.rate.method, found.numbers.mean.method, found.labels[0].share.method)
    assert methods == ("Wilson 50 %", "t 50 %", "Wilson 50 %")


def test_clusters_are_those_of_the_values_that_are_there_whatever_stands_between_them():
    values = [1, None, True, 3.0, "yes", 5, "no", False, "yes", math.nan, [1]]
    clusters = ["a", "a", "a", "b", "b", "c", "c", "b", "a", "z", "z"]
    found = summarise(values, clusters=clusters)
    assert found.numbers is not None
    assert found.numbers.mean == clustered_mean([1, 3, 5, None, None], ["a", "b", "c", "y", "z"])
    assert found.rate == clustered_rate([True, False], ["a", "b"], missing=2)
    assert [label.share for label in found.labels] == [
        clustered_rate([True, False, True], ["b", "c", "a"], missing=2),
        clustered_rate([False, True, False], ["b", "c", "a"], missing=2),
    ]
