"""The pure rules of scenarios: conditions, values out of texts, and when events are due."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.procedures.scenario.conditions import Condition, all_hold, condition_of, conditions_in
from trialrun.procedures.scenario.events import due
from trialrun.procedures.scenario.extraction import crossed, extracted, number_in, typed
from trialrun.procedures.scenario.world import Event, Metric

numbers = st.integers(-(10**9), 10**9)


@given(numbers, numbers)
def test_a_condition_compares_as_its_sign_says(value: int, bound: int) -> None:
    said = {sign: condition_of("m", f"{sign} {bound}") for sign in (">=", "<=", ">", "<", "==", "!=")}
    found = {sign: one.holds({"m": value}) for sign, one in said.items() if one is not None}
    assert found == {
        ">=": value >= bound, "<=": value <= bound, ">": value > bound, "<": value < bound, "==": value == bound,
        "!=": value != bound,
    }  # fmt: skip


@given(st.sampled_from([">=", "<=", ">", "<", "==", "!="]), numbers)
def test_a_missing_metric_meets_no_condition(sign: str, bound: int) -> None:
    condition = condition_of("m", f"{sign} {bound}")
    assert condition is not None
    assert not condition.holds({})
    assert not condition.holds({"m": None})
    assert not all_hold((), {"m": 1})


def test_conditions_read_the_same_in_all_their_forms() -> None:
    forms: list[object] = [{"a": ">= 7", "b": "yes"}, ["a >= 7", "b == yes"], "a >= 7 and b = yes"]
    assert len({conditions_in(form) for form in forms}) == 1
    assert conditions_in({"mood": "calm"}) == (Condition("mood", "==", "calm"),)
    assert conditions_in("they get along") is None
    assert conditions_in({"a": "> much"}) is None


def metric(**changes: object) -> Metric:
    fields: dict[str, object] = {"name": "m", "kind": "number", "method": "pattern", "pattern": r"m: (\S+)"}
    return Metric(**{**fields, **changes})  # pyright: ignore[reportArgumentType]  # any field, for tests


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_the_last_match_counts(values: list[int]) -> None:
    text = ", then ".join(f"M: {value}" for value in values)
    assert extracted(metric(kind="whole", pattern=r"m: (\d+)"), text).value == values[-1]


@given(st.text(alphabet=st.characters(exclude_categories=["Nd", "Nl", "No", "Cs"]), max_size=60))
def test_a_text_without_a_number_has_no_value_and_a_reason(text: str) -> None:
    found = extracted(metric(pattern=r"(\d+)"), text)
    assert found.value is None
    assert found.note


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7.0), ("1,200.5", 1200.5), ("10^25", 1e25), ("2.5^2", 6.25), ("40 %", 40.0), ("$1,000", 1000.0),
        ("-3", -3.0), ("1e3", 1000.0), ("none", None), ("", None), ("\N{MINUS SIGN}5", -5.0), ("3 million", 3e6),
        ("$1.2bn", 1.2e9), ("5k", 5000.0), ("10^-3", 0.001), ("4/10", 4.0), ("7, and more", 7.0), ("3.", 3.0),
        ("10**3", 1000.0), ("10^25.", 1e25), ("12 people", 12.0), ("5 kg", 5.0), ("1,234,567", 1234567.0),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text: str, value: float | None) -> None:
    found = number_in(text)
    assert (None if found is None else float(found)) == value


@pytest.mark.parametrize(
    "text",
    [
        "1,5", "12,34", "1,234,56", "5-7", "5 \N{EN DASH} 7", "2026-11-19", "1.2.3", "1_000", "10^2^3", "10^500",
        "0^-1",
        "-10^999", "1e999", "(-8)^0.5", "9" * 400, "9" * 5000, "1 000", "1e300 trillion",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["whole", "number"])
def test_what_could_be_read_in_two_ways_or_is_no_number_at_all_is_missing(text: str, kind: str) -> None:
    found = typed(metric(kind=kind), text)
    assert found.value is None
    assert "is no number" in found.note


@pytest.mark.parametrize("kind", ["whole", "number"])
@pytest.mark.parametrize("raw", [10**400, float("inf"), float("nan"), True, None, [], {}])
def test_what_a_model_may_put_in_a_number_s_place_is_missing(raw: object, kind: str) -> None:
    assert typed(metric(kind=kind), raw).value is None


def test_a_whole_number_has_all_its_digits() -> None:
    assert typed(metric(kind="whole"), "9007199254740993").value == 9007199254740993
    assert typed(metric(kind="whole"), "10^18").value == 10**18
    assert typed(metric(kind="whole"), "10^25").value == 10**25


@given(st.text(max_size=40))
def test_no_text_breaks_a_metric(text: str) -> None:
    for kind in ("whole", "number", "truth", "text"):
        value = typed(metric(kind=kind), text).value
        assert not isinstance(value, float) or math.isfinite(value)


def test_keywords_keep_to_the_range_and_the_type_as_well() -> None:
    keyed = {"method": "keyword", "keywords": ("fight",), "low": 0.0, "high": 2.0}
    found = extracted(metric(**keyed), "fight fight fight")
    assert (found.value, found.note) == (None, "3 is outside of 0 to 2")
    found = extracted(metric(**{**keyed, "high": 99.0}, kind="whole", scoring="density"), "fight or not")
    assert found.note == "33.3333 is no whole number"


def test_of_several_groups_the_first_that_holds_something_counts() -> None:
    found = metric(pattern=r"trust (?:is (\d+)|of (\d+))")
    assert extracted(found, "a trust of 4").value == 4
    assert extracted(found, "trust is 3").value == 3


@given(st.lists(st.sampled_from(["fight", "fighter", "rest", "FIGHT"]), max_size=20))
def test_keywords_are_counted_as_whole_words(words: list[str]) -> None:
    text = " ".join(words)
    count = sum(word.lower() == "fight" for word in words)
    keyed = {"method": "keyword", "keywords": ("fight",)}
    assert extracted(metric(**keyed), text).value == count
    assert extracted(metric(**keyed, scoring="presence"), text).value == int(count > 0)
    density = extracted(metric(**keyed, scoring="density"), text).value
    assert density == (100 * count / len(words) if words else None)


def test_values_are_of_the_metric_s_kind_or_missing() -> None:
    assert typed(metric(kind="whole"), "7.0").value == 7
    assert isinstance(typed(metric(kind="whole"), 7.0).value, int)
    assert typed(metric(kind="whole"), "7.5").value is None
    assert typed(metric(kind="truth"), "Yes").value is True
    assert typed(metric(kind="truth"), "perhaps").value is None
    assert typed(metric(kind="label", categories=("calm", "wild")), "Calm").value == "calm"
    assert typed(metric(kind="label", categories=("calm", "wild")), "so so").value is None
    assert typed(metric(low=0.0, high=1.0), "2").value is None


@pytest.mark.parametrize(
    ("warning", "critical", "value", "found"),
    [
        (5, 8, 4, ""), (5, 8, 5, "warning"), (5, 8, 9, "critical"), (8, 5, 9, ""), (8, 5, 7, "warning"),
        (8, 5, 5, "critical"),
    ],
)  # fmt: skip
def test_the_order_of_thresholds_says_where_trouble_lies(
    warning: float, critical: float, value: float, found: str
) -> None:
    assert crossed(metric(warning=warning, critical=critical), value) == found


@given(first=st.integers(1, 9), length=st.integers(0, 9), every=st.integers(1, 4), turn=st.integers(1, 30))
def test_a_trend_comes_every_so_many_turns_of_its_range(
    first: int, length: int, every: int, turn: int
) -> None:
    event = Event(kind="trend", name="t", text="t", first=first, last=first + length, every=every, once=False)
    is_due = bool(due([event], turn=turn, values={}, happened=frozenset({event.id}), draws={}))
    assert is_due == (turn in range(first, first + length + 1, every))


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1), st.booleans(), st.booleans())
def test_a_random_event_comes_below_its_probability_and_once_if_it_says_so(
    draw: float, probability: float, once: bool, came: bool
) -> None:
    event = Event(kind="random", name="r", text="r", probability=probability, once=once)
    happened = frozenset({event.id}) if came else frozenset[str]()
    found = due([event], turn=3, values={}, happened=happened, draws={event.id: draw})
    assert bool(found) == (draw < probability and not (once and came))


def test_patterns_are_tried_without_regard_to_case() -> None:
    assert extracted(metric(pattern=r"cooperation.*?(\d+)", kind="whole"), "COOPERATION level: 6").value == 6
    assert re.compile(r"cooperation.*?(\d+)").search("COOPERATION level: 6") is None
