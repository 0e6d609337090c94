"""The product-limit curve, against scipy, a textbook and its own rules."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from trialrun.stats.intervals import rate_interval
from trialrun.stats.survival import Watched, survival

WATCHED = st.lists(st.builds(Watched, st.integers(1, 8).map(float), st.booleans()), min_size=1, max_size=60)
# Weeks in remission under 6-MP (Freireich and others, 1963), with the curve and standard errors of every textbook.
EVENTS = [6, 6, 6, 7, 10, 13, 16, 22, 23]
CENSORED = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
TEXTBOOK = {
    6: (0.857, 0.0764),
    7: (0.807, 0.0869),
    10: (0.753, 0.0963),
    13: (0.690, 0.1068),
    16: (0.627, 0.1141),
    22: (0.538, 0.1282),
    23: (0.448, 0.1346),
}


def test_the_textbook_curve_comes_out():
    found = survival([Watched(t, True) for t in EVENTS] + [Watched(t, False) for t in CENSORED])
    steps = {step.time: step for step in found.steps}
    for time, (share, error) in TEXTBOOK.items():
        assert steps[time].left.value == pytest.approx(share, abs=6e-4)
        assert steps[time].error == pytest.approx(error, abs=6e-5)
    assert found.median == 23
    assert (found.n, found.events) == (21, 9)


@given(WATCHED)
def test_the_curve_is_scipys(watched: list[Watched]):
    died = [one.time for one in watched if one.is_event]
    lost = [one.time for one in watched if not one.is_event]
    curve = oracle.ecdf(oracle.CensoredData(uncensored=died, right=lost)).sf  # pyright: ignore[reportArgumentType]  # the stub forgets it
    for step in survival(watched).steps:
        assert step.left.value == pytest.approx(float(curve.evaluate(np.array([step.time]))[0]), abs=1e-12)


@given(WATCHED)
def test_the_curve_never_rises_and_lies_in_its_interval(watched: list[Watched]):
    found = survival(watched)
    values = [step.left.value for step in found.steps]
    assert values == sorted(values, key=lambda value: -(value or 0.0))
    for step in found.steps:
        assert step.left.low is not None
        assert step.left.high is not None
        assert step.left.value is not None
        assert 0.0 <= step.left.low <= step.left.value <= step.left.high <= 1.0
    assert sum(step.events + step.censored for step in found.steps) == len(watched)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=60))
def test_without_censoring_it_is_a_plain_share_with_wilsons_interval(times: list[int]):
    for step in survival(Watched(float(time), True) for time in times).steps:
        plain = rate_interval(sum(time > step.time for time in times), len(times))
        assert step.left.value == pytest.approx(plain.value, abs=1e-12)
        assert step.left.low == pytest.approx(plain.low, abs=1e-9)
        assert step.left.high == pytest.approx(plain.high, abs=1e-9)


@given(WATCHED, st.permutations(range(5)))
def test_order_does_not_matter(watched: list[Watched], order: list[int]):
    mixed = sorted(watched, key=lambda one: order[int(one.time) % 5])
    assert survival(mixed) == survival(watched)


def test_censoring_widens_the_interval():
    whole = survival([Watched(1, True)] * 10 + [Watched(3, False)] * 30)
    thin = survival([Watched(0.5, False)] * 20 + [Watched(1, True)] * 5 + [Watched(3, False)] * 15)
    one, other = whole.at(1), thin.at(1)
    assert one is not None
    assert other is not None
    assert one.value == pytest.approx(other.value)
    assert (other.high or 0) - (other.low or 0) > (one.high or 0) - (one.low or 0)


def test_before_the_first_step_and_with_nobody_there_is_no_estimate():
    assert survival([Watched(2, True)]).at(1) is None
    assert survival([]).steps == ()
    assert survival([Watched(1, False)] * 3).median is None
    with pytest.raises(ValueError, match="finite"):
        survival([Watched(math.inf, True)])
