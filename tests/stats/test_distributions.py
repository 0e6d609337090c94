"""Distributions, held against scipy over the range that studies of one trial to a billion can reach."""

import math
from typing import Any

import pytest
import scipy.special as oracle
from hypothesis import given
from hypothesis import strategies as st

from trialrun.stats.distributions import (
    beta_cdf,
    chi_square_cdf,
    chi_square_tail,
    normal_cdf,
    normal_quantile,
    student_cdf,
    student_quantile,
)

special: Any = oracle

shares = st.floats(1e-300, 1 - 2**-53)
parameters = st.floats(-3, 6).map(lambda power: 10.0**power)
freedoms = st.floats(-0.3, 9).map(lambda power: 10.0**power)


def agrees(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-13)


@given(st.floats(-37, 9))
def test_the_normal_distribution_agrees_in_the_middle_and_in_the_tails(x: float):
    # In the far tail the argument's own rounding, times x, is all that is left between any two implementations.
    assert math.isclose(normal_cdf(x), float(special.ndtr(x)), rel_tol=1e-9 * max(1.0, abs(x)))


@given(shares)
def test_the_normal_quantile_agrees(p: float):
    assert math.isclose(normal_quantile(p), float(special.ndtri(p)), rel_tol=1e-12, abs_tol=1e-15)


@given(st.floats(-1e3, 1e3), freedoms)
def test_students_distribution_agrees(t: float, df: float):
    assert agrees(student_cdf(t, df), float(special.stdtr(df, t)))


@given(st.floats(1e-12, 1 - 1e-12), freedoms)
def test_students_quantile_agrees(p: float, df: float):
    assert math.isclose(student_quantile(p, df), float(special.stdtrit(df, p)), rel_tol=1e-9, abs_tol=1e-12)


@given(st.floats(1e-30, 1 - 2**-53), freedoms)
def test_students_quantile_undoes_the_distribution(p: float, df: float):
    assert math.isclose(student_cdf(student_quantile(p, df), df), p, rel_tol=1e-11)


@given(st.floats(1e-30, 1.0), parameters, parameters)
def test_the_incomplete_beta_function_agrees(x: float, a: float, b: float):
    assert agrees(beta_cdf(x, a, b), float(special.betainc(a, b, x)))


@given(st.floats(0.2, 5), parameters.map(lambda a: a + 1), parameters.map(lambda b: b + 1))
def test_the_incomplete_beta_function_agrees_where_it_turns(near: float, a: float, b: float):
    x = min(1.0, near * a / (a + b))
    assert agrees(beta_cdf(x, a, b), float(special.betainc(a, b, x)))


@given(st.floats(0.05, 20), st.floats(-2, 8).map(lambda power: 10.0**power))
def test_chi_square_and_its_tail_agree(near: float, df: float):
    x = near * df
    assert agrees(chi_square_cdf(x, df), float(special.chdtr(df, x)))
    assert agrees(chi_square_tail(x, df), float(special.chdtrc(df, x)))


def test_small_tails_are_not_rounded_to_nothing():
    assert math.isclose(chi_square_tail(200, 1), float(special.chdtrc(1, 200)), rel_tol=1e-11)
    assert math.isclose(student_cdf(-40, 30), float(special.stdtr(30, -40)), rel_tol=1e-11)


@pytest.mark.parametrize(
    ("df", "share", "printed"),
    [(1, 0.975, 12.706), (4, 0.975, 2.776), (9, 0.95, 1.833), (29, 0.995, 2.756), (120, 0.975, 1.980)],
)
def test_the_table_at_the_back_of_every_textbook_holds(df: int, share: float, printed: float):
    assert round(student_quantile(share, df), 3) == printed


@pytest.mark.parametrize(
    ("df", "statistic", "p"), [(1, 3.841, 0.05), (5, 15.086, 0.01), (10, 18.307, 0.05), (100, 124.342, 0.05)]
)
def test_the_chi_square_table_holds(df: int, statistic: float, p: float):
    assert math.isclose(chi_square_tail(statistic, df), p, rel_tol=1e-3)


def test_the_ends_are_exact():
    assert (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3)) == (0, 1)
    assert (chi_square_cdf(0, 3), chi_square_tail(0, 3), chi_square_cdf(math.inf, 3)) == (0, 1, 1)
    assert (student_quantile(0, 5), student_quantile(0.5, 5), student_quantile(1, 5)) == (
        -math.inf,
        0,
        math.inf,
    )
    assert (normal_quantile(0), normal_quantile(0.5), normal_quantile(1)) == (-math.inf, 0, math.inf)
    assert (student_cdf(math.inf, 5), student_cdf(-math.inf, 5), student_cdf(0, 5)) == (1, 0, 0.5)


@given(freedoms, st.floats(1e-9, 0.5))
def test_students_quantile_is_odd(df: float, p: float):
    assert math.isclose(student_quantile(p, df), -student_quantile(1 - p, df), rel_tol=1e-6, abs_tol=1e-12)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: normal_quantile(1.5),
        lambda: normal_quantile(math.nan),
        lambda: student_quantile(0.5, 0),
        lambda: student_cdf(1, -1),
        lambda: beta_cdf(0.5, 0, 1),
        lambda: beta_cdf(-0.1, 1, 1),
        lambda: chi_square_cdf(1, math.nan),
    ],
)
def test_arguments_that_mean_nothing_are_refused(ask: Any):
    with pytest.raises(ValueError, match=r"must be positive|not between"):
        ask()
