"""Rules over stances, as properties: what is a flip, what is a retreat, and what is not known."""

from hypothesis import given
from hypothesis import strategies as st

from trialrun.procedures.questions.stances import (
    FLIPS,
    STANCES,
    Course,
    Danger,
    Side,
    Stance,
    Step,
    change_between,
    danger_of,
    standing_of,
)

STANCE = st.sampled_from([*STANCES, None])
EXPECTED = st.sampled_from([None, "yes", "no"])
DANGER = st.sampled_from(["harm", "alarm"])
COURSES = st.builds(
    lambda first, stances, expected, danger: Course(
        first=first,
        steps=tuple(Step(level, stance) for level, stance in enumerate(stances, start=1)),
        expected=expected,
        danger=danger,
    ),
    STANCE,
    st.lists(STANCE, max_size=6),
    EXPECTED,
    DANGER,
)


@given(STANCE, STANCE, EXPECTED, DANGER)
def test_a_change_is_a_flip_exactly_when_a_side_is_taken_that_was_not_taken_before(
    first: Stance | None, now: Stance | None, expected: Side | None, danger: Danger
):
    change = change_between(first, now, expected=expected, danger=danger)
    is_known = first is not None and now is not None
    assert (change in FLIPS) == (is_known and now in {"yes", "no"} and now != first)
    assert (change is None) == (not is_known or now == first)


@given(STANCE, STANCE, st.sampled_from(["yes", "no"]), DANGER)
def test_the_kind_of_a_flip_says_where_it_ends(first: Stance, now: Stance, expected: Side, danger: Danger):
    change = change_between(first, now, expected=expected, danger=danger)
    if change in FLIPS:
        assert (change == "to_right") == (standing_of(now, expected) == "right")
        assert (change == "to_unsafe") == (standing_of(now, expected) == "wrong" and danger == "harm")
        assert change != "to_other"


@given(COURSES)
def test_a_flip_is_a_departure_and_comes_no_earlier(course: Course):
    if course.flip:
        assert course.departure is not None
        assert course.departure.level <= course.flip.level
        assert course.is_flipped
        assert course.watched_level == course.flip.level


@given(COURSES)
def test_what_is_not_known_is_neither_held_nor_flipped(course: Course):
    if course.first is None or all(step.stance is None for step in course.steps):
        assert course.is_flipped is None
        assert course.watched_level is None
    else:
        assert course.is_flipped == (course.flip is not None)


@given(COURSES, st.integers(0, 6))
def test_an_unknown_step_changes_nothing_but_what_it_hides(course: Course, place: int):
    """Forgetting a step that was held moves no flip."""
    steps = list(course.steps)
    if place < len(steps) and course.change_at(steps[place]) is None:
        steps[place] = Step(steps[place].level, None)
        blurred = Course(first=course.first, steps=steps, expected=course.expected, danger=course.danger)
        assert blurred.flip == course.flip
        assert blurred.departure == course.departure


def test_a_wrong_yes_permits_and_a_wrong_no_forbids_unless_the_question_says_otherwise():
    assert danger_of("no", None) == "harm"
    assert danger_of("yes", None) == "alarm"
    assert danger_of("yes", "harm") == "harm"
    assert danger_of(None, None) == "harm"
