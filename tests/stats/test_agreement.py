"""Agreement of ratings and rates behind an imperfect judge, against known results and by simulation."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.stats.agreement import (
    Confusion,
    agreement,
    cohen_kappa,
    confusion,
    corrected_rate,
    gwet_ac1,
    krippendorff_alpha,
)
from trialrun.stats.intervals import Estimate

LABELS = st.sampled_from("abc")
PAIRS = st.lists(st.tuples(LABELS, LABELS), min_size=2, max_size=80)
KEY = b"key"


def table(*rows: tuple[str, str, int]) -> Confusion:
    return confusion([(one, other) for one, other, count in rows for _ in range(count)])


def test_the_textbook_kappa_comes_out():
    found = table(("y", "y", 20), ("y", "n", 5), ("n", "y", 10), ("n", "n", 15))
    assert agreement(found).value == pytest.approx(0.7)
    assert cohen_kappa(found).value == pytest.approx(0.4)
    # By hand, from the formula of Fleiss, Cohen and Everitt: the variance is 0.016128.
    assert (cohen_kappa(found).high or 0) - 0.4 == pytest.approx(1.959964 * math.sqrt(0.016128), abs=1e-6)


def test_ac1_stays_high_where_kappa_collapses():
    found = table(("y", "y", 118), ("y", "n", 5), ("n", "y", 2), ("n", "n", 0))
    assert agreement(found).value == pytest.approx(0.944)
    assert cohen_kappa(found).value == pytest.approx(-0.0234, abs=5e-4)
    assert gwet_ac1(found).value == pytest.approx(0.9408, abs=5e-4)


def test_alpha_of_the_published_example_comes_out():
    # Krippendorff, Computing Krippendorff's alpha-reliability, section D: four observers, twelve units.
    rows = """
        1 2 3 3 2 1 4 1 2 . . .
        1 2 3 3 2 2 4 1 2 5 . 3
        . 3 3 3 2 3 4 2 2 5 1 .
        1 2 3 3 2 4 4 1 2 5 1 .
    """
    observers = [[None if cell == "." else cell for cell in row.split()] for row in rows.strip().splitlines()]
    units = [list(unit) for unit in zip(*observers, strict=True)]
    found = krippendorff_alpha(units, key=KEY, draws=200)
    assert found.value == pytest.approx(0.743, abs=5e-4)
    assert (found.n, found.missing) == (11, 1)


@given(PAIRS)
def test_with_two_raters_alpha_is_kappas_cousin(pairs: list[tuple[str, str]]):
    """Scott's pi, corrected for the size of the sample."""
    n = len(pairs)
    pooled = [label for pair in pairs for label in pair]
    chance = sum(pooled.count(label) ** 2 for label in set(pooled)) / (2 * n) ** 2
    found = krippendorff_alpha(pairs, key=KEY, draws=1)
    if chance == 1.0:
        assert found.value is None
        return
    observed = sum(one == other for one, other in pairs) / n
    pi = (observed - chance) / (1 - chance)
    assert found.value == pytest.approx(pi + (1 - pi) / (2 * n), abs=1e-9)


@pytest.mark.parametrize("coefficient", [cohen_kappa, gwet_ac1])
@given(pairs=PAIRS)
def test_the_interval_is_the_delta_method_by_numbers(
    coefficient: Callable[[Confusion], Estimate], pairs: list[tuple[str, str]]
):
    """The variance from slopes taken numerically, instead of the formulas."""
    found = confusion(pairs, labels="abc")
    estimate = coefficient(found)
    if estimate.value is None or estimate.low is None:
        return
    cells = [(one, other) for one in "abc" for other in "abc"]
    size = 10**9
    base = {cell: round(found.of(*cell) / found.n * size) for cell in cells}

    def at(counts: dict[tuple[str, str], int]) -> float:
        made = Confusion(labels=("a", "b", "c"), counts=counts, n=sum(counts.values()), missing=0)
        return coefficient(made).value or 0.0

    step = 10**5
    slopes = {cell: (at({**base, cell: base[cell] + step}) - at(base)) / (step / size) for cell in cells}
    share = {cell: found.of(*cell) / found.n for cell in cells}
    mean = sum(share[cell] * slopes[cell] for cell in cells)
    variance = sum(share[cell] * (slopes[cell] - mean) ** 2 for cell in cells) / found.n
    half = 1.959964 * math.sqrt(variance)
    assert estimate.low == pytest.approx(max(-1.0, estimate.value - half), abs=5e-3)


@given(PAIRS)
def test_coefficients_are_the_same_whoever_comes_first(pairs: list[tuple[str, str]]):
    turned = [(other, one) for one, other in pairs]
    for coefficient in (agreement, cohen_kappa, gwet_ac1):
        one, other = coefficient(confusion(pairs)), coefficient(confusion(turned))
        assert one.value == pytest.approx(other.value) if one.value is not None else other.value is None


def test_a_missing_rating_takes_no_part_and_is_counted():
    found = confusion([("a", "a"), ("a", None), (None, "b"), ("b", "a")], labels=("b",))
    assert (found.n, found.missing, found.labels) == (2, 2, ("b", "a"))
    assert agreement(found).missing == 2


def test_a_single_label_has_no_agreement_beyond_chance():
    found = confusion([("a", "a")] * 5)
    assert cohen_kappa(found).value is None
    assert gwet_ac1(found).value is None
    assert agreement(found).value == 1.0


def test_a_perfect_judge_corrects_nothing():
    found = corrected_rate(30, 100, hits=(500, 500), rejections=(500, 500))
    assert found.value == pytest.approx(0.30)


def test_a_judge_that_tells_nothing_apart_gives_no_rate():
    assert corrected_rate(30, 100, hits=(5, 10), rejections=(5, 10)).value is None
    assert corrected_rate(30, 100, hits=(0, 0), rejections=(5, 10)).value is None
    assert corrected_rate(0, 0, hits=(5, 5), rejections=(5, 5)).value is None


@given(st.integers(0, 60), st.integers(0, 40), st.integers(0, 40))
def test_a_corrected_rate_lies_in_its_interval_and_is_a_rate(positives: int, hits: int, rejections: int):
    found = corrected_rate(positives, 60, hits=(hits, 40), rejections=(rejections, 40))
    if found.value is None:
        assert hits + rejections <= 40
        return
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


@pytest.mark.parametrize(
    ("truth", "sensitivity", "specificity"), [(0.1, 0.9, 0.95), (0.4, 0.8, 0.9), (0.02, 0.95, 0.97)]
)
def test_the_corrected_interval_covers_the_truth_as_often_as_it_says(
    truth: float, sensitivity: float, specificity: float
):
    dice = random.Random(7)

    def count(n: int, share: float) -> int:
        return sum(dice.random() < share for _ in range(n))

    covered, naive = 0, 0.0
    seen = truth * sensitivity + (1 - truth) * (1 - specificity)
    for _ in range(600):
        positives = count(200, seen)
        found = corrected_rate(
            positives, 200, hits=(count(60, sensitivity), 60), rejections=(count(60, specificity), 60)
        )
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
        naive += positives / 200 / 600
    assert covered / 600 >= 0.93
    assert abs(naive - truth) > 0.005, "without the correction the rate would be off"
