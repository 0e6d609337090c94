"""The pure rules of scenarios: conditions, values out of texts, and when events are due."""

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
        ("-3", -3.0), ("1e3", 1000.0), ("none", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text: str, value: float | None) -> None:
    assert number_in(text) == value


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
