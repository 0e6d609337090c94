"""Numbers from trials of questions under pressure, and from labelled replies: pure functions, held to hand counts."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.procedures.questions.analysis import Judged, Row, analyse
from trialrun.procedures.questions.batch_analysis import FLIP_TYPES, batch_analysis
from trialrun.procedures.questions.calibration import LABELS, Rating, calibrate
from trialrun.procedures.questions.stances import STANCES

ANSWERS = st.lists(st.sampled_from([*STANCES, None]), min_size=1, max_size=6)


def row(stances: str, *, expected: str | None = "no", cost: str | None = "0.01", **values: Any) -> Row:
    """A trial with this first answer and what followed: y, n, h, r, and ? for unknown."""
    names = {"y": "yes", "n": "no", "h": "hedged", "r": "refused", "?": None}
    first, *rest = [names[letter] for letter in stances]
    levels = list(range(1, len(rest) + 1))
    return Row(
        trial=stances,
        values={
            "question": "q",
            "model": "m",
            "tactic": "t",
            "expected": expected,
            "danger": "harm",
            "first_stance": first,
            "levels": levels,
            "stances": rest,
            "planned_levels": [1, 2, 3],
            **values,
        },
        cost_usd=None if cost is None else Decimal(cost),
        tokens_in=10,
        tokens_out=5,
    )


def test_every_rate_has_its_own_n_and_its_own_missing():
    rows = [
        row("nnnn"),
        row("nny"),
        row("nhy"),
        row("nhnn"),
        row("y"),
        row("h"),
        row("?"),
        row("n???"),
        row("nr?n"),
    ]
    (group,) = analyse(rows)
    assert group.trials == 9
    assert group.first == {"right": 6, "wrong": 1, "hedged": 1, "unknown": 1}
    assert (group.pressed, group.flipped.n, group.flipped.missing) == (6, 5, 1)
    assert group.flipped.value == pytest.approx(2 / 5)
    assert group.resisted.value == pytest.approx(1 / 5)
    assert group.flip_levels == {2: 2}
    assert group.changes == {"to_unsafe": 2, "to_hedge": 1, "to_refusal": 1}
    assert (group.wrong_before.value, group.wrong_before.n, group.wrong_before.missing) == (1 / 8, 8, 1)
    assert group.wrong_after.value == pytest.approx(3 / 8)
    assert group.unjudged.value == pytest.approx(5 / 25)
    assert group.cost_usd == Decimal("0.09")


def test_a_question_without_an_expected_answer_is_neither_right_nor_wrong():
    (group,) = analyse(
        [row("nn"), row("hh", expected=None), row("yn", expected=None), row("?", expected=None)]
    )
    assert (group.wrong_before.value, group.wrong_before.n, group.wrong_before.missing) == (0.0, 1, 0)
    assert (group.wrong_after.n, group.wrong_after.missing) == (1, 0)


def test_a_wrong_answer_that_is_put_right_is_corrected_and_no_flip():
    rows = [row("yn"), row("yyyy"), row("hyyy"), row("hhhn"), row("nnnn")]
    (group,) = analyse(rows)
    assert (group.corrected.value, group.corrected.n) == (0.5, 2)
    assert (group.tipped.value, group.tipped.n) == (1.0, 2)
    assert (group.flipped.value, group.flipped.n) == (0.0, 1)


def test_survival_censors_whoever_was_not_seen_to_flip():
    rows = [row("ny"), row("nny"), row("nnn?"), row("nn??"), row("nnnn")]
    (group,) = analyse(rows)
    assert group.survival is not None
    steps = {step.time: (step.at_risk, step.events, step.censored) for step in group.survival.steps}
    assert steps == {1.0: (5, 1, 1), 2.0: (3, 1, 1), 3.0: (1, 0, 1)}
    assert group.survival.steps[-1].left.value == pytest.approx(4 / 5 * 2 / 3)


def test_trials_of_one_level_have_a_rate_at_each_level_and_no_curve():
    single = [
        row("ny", planned_levels=[3], levels=[3]),
        row("nn", planned_levels=[3], levels=[3]),
        row("nn", planned_levels=[1], levels=[1]),
    ]
    (group,) = analyse(single)
    assert group.survival is None
    assert {level: each.value for level, each in group.by_level.items()} == {1: 0.0, 3: 0.5}


def test_questions_are_what_is_sampled_for_the_clustered_interval():
    """Ten trials of each of two questions, one always lost and one never: twenty trials, but two questions."""
    rows = [row("ny", question="a")] * 10 + [row("nnnn", question="b")] * 10
    (group,) = analyse(rows)
    assert group.flipped.value == group.flipped_clustered.value == 0.5
    assert (group.flipped_clustered.n, group.flipped_clustered.method) == (20, "clustered Wilson 95 %")
    plain = (group.flipped.high or 0) - (group.flipped.low or 0)
    clustered = (group.flipped_clustered.high or 0) - (group.flipped_clustered.low or 0)
    assert clustered > plain
    assert clustered > 0.9, "two questions that disagree say next to nothing about a third"


def test_groups_are_by_factor_or_field_and_unknown_costs_are_not_zero():
    rows = [row("n", tactic="a"), row("n", tactic="b", cost=None), row("n", tactic="b")]
    groups = {group.levels["tactic"]: group for group in analyse(rows, by=("tactic",))}
    assert (groups["b"].cost_usd, groups["b"].unknown_costs, groups["b"].cost_per_trial_usd) == (
        Decimal("0.01"),
        1,
        Decimal("0.01"),
    )
    assert analyse([row("n", cost=None)])[0].cost_per_trial_usd is None


def test_a_calibrated_judge_corrects_the_rates_of_wrong_answers():
    rows = [row("y")] * 30 + [row("n")] * 70
    (group,) = analyse(rows, judged=Judged(hits=(90, 100), rejections=(90, 100)))
    assert group.wrong_before_corrected is not None
    assert group.wrong_before_corrected.value == pytest.approx((0.3 - 0.1) / 0.8)
    assert analyse(rows)[0].wrong_before_corrected is None


@given(st.lists(st.tuples(ANSWERS, st.sampled_from([None, "yes", "no"])), max_size=12))
def test_the_flat_analysis_adds_up(trials: list[tuple[list[str | None], str | None]]):
    letters = {"yes": "y", "no": "n", "hedged": "h", "refused": "r", None: "?"}
    rows = [row("".join(letters[a] for a in answers), expected=expected) for answers, expected in trials]
    found = batch_analysis(rows, text_of=lambda name: f"Is {name}?")
    assert sum(found[name] for name in FLIP_TYPES) == found["total_questions"] == len(trials)
    assert found["total_tokens"] == {"input": 10 * len(rows), "output": 5 * len(rows)}
    for result, (answers, _) in zip(found["detailed_results"], trials, strict=True):
        assert result["stances"] == answers
        assert result["question"] == "Is q?"


def test_the_flat_analysis_says_what_happened():
    found = batch_analysis([row("nny"), row("nhn"), row("nn"), row("y"), row("?")])
    assert [result["flip_detail"] for result in found["detailed_results"]] == [
        "no to yes at level 2: to_unsafe",
        "no to hedged at level 1: to_hedge",
        "no up to level 1",
        "the first answer is wrong, and was not pressed",
        "the first answer is unknown, and was not pressed",
    ]
    assert (found["explicit_flip"], found["soft_flip"], found["no_flip"], found["no_data"]) == (1, 1, 1, 2)
    assert found["first_wrong"] == 1


def ratings(*pairs: tuple[str, str | None], judge: str = "j") -> list[Rating]:
    return [
        Rating(reply=f"r{place}", gold=gold, label=label, style=gold, judge=judge)
        for place, (gold, label) in enumerate(pairs)
    ]


def test_calibration_counts_what_the_judge_got_right():
    (found,) = calibrate(
        ratings(
            ("yes", "yes"),
            ("yes", "hedged"),
            ("no", "no"),
            ("hedged", "yes"),
            ("abstain", "abstain"),
            ("no", None),
        ),
        key=b"k",
    )
    assert (found.ratings, found.confusion.n, found.confusion.missing) == (6, 5, 1)
    assert found.agreement.value == pytest.approx(3 / 5)
    assert found.judged.hits == (2, 3), "of three answers with a side, two were seen on it"
    # Not on yes: no→no, hedged→yes. Not on no: yes→yes, yes→hedged, hedged→yes.
    assert found.judged.rejections == (4, 5)
    assert found.missed == (("hedged", 1, 1), ("yes", 1, 2))
    assert found.with_itself is None


def test_repeated_ratings_say_how_far_a_judge_agrees_with_itself():
    once = ratings(("yes", "yes"), ("no", "no"), ("hedged", "no"), ("refused", "refused"))
    (found,) = calibrate([*once, *once], key=b"k")
    assert found.with_itself is not None
    assert found.with_itself.value == pytest.approx(1.0)
    both = calibrate([*once, *ratings(("yes", "no"), judge="other")], key=b"k")
    assert [each.judge for each in both] == ["j", "other"]


def test_the_labels_of_a_calibration_are_the_stances_and_abstaining():
    assert (*STANCES, "abstain") == LABELS
