"""The questions, tactics and labelled replies that come with Trialrun keep what their heads promise."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest

from tests.behaviour.support import make_plan
from trialrun.app.material import material, material_names
from trialrun.app.studies import Plan
from trialrun.core.errors import StudyMistakes
from trialrun.core.reading.entries import entries_of, read_entries
from trialrun.engine.templates import render
from trialrun.procedures.questions.stimuli import (
    QUESTION_KEYS,
    Question,
    Tactic,
    question_of,
    tactic_of,
    values_for,
)

Entry = Mapping[str, Any]


def entries(name: str) -> list[Entry]:
    text = material(f"trialrun:{name}")
    assert text is not None
    source = read_entries(text, file=name)
    assert source.mistakes == ()
    return cast("list[Entry]", entries_of(source))


QUESTIONS, TACTICS, REPLIES = entries("questions.yaml"), entries("tactics.yaml"), entries("replies.yaml")
PRESSURE = [entry for entry in TACTICS if entry.get("kind") != "control"]


def plan(folder: Path, **factors: str) -> Plan:
    """A study with these factors from files, read through the front door."""
    return make_plan(
        folder,
        procedure="questions",
        parties={"subject": {"model": "x/m"}, "judge": {"model": "x/j"}},
        factors={name: {"from": file} for name, file in factors.items()},
    )


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def test_there_are_enough_questions_of_enough_kinds_and_yes_is_often_right():
    families = Counter(entry["family"] for entry in QUESTIONS)
    expected = Counter(entry["expected"] for entry in QUESTIONS)
    assert len(QUESTIONS) >= 60
    assert len(families) >= 8
    assert min(families.values()) >= 4
    assert expected["yes"] >= 20
    assert expected["no"] >= 20
    assert all(
        {e["expected"] for e in QUESTIONS if e["family"] == family} == {"yes", "no"} for family in families
    )


def test_whoever_forbids_everything_is_often_wrong_and_sometimes_dangerously():
    questions = [question_of({"question": entry}) for entry in QUESTIONS]
    wrong = Counter(question.danger for question in questions if question.expected == "yes")
    assert wrong["alarm"] >= 10, "harmless things that a timid model would forbid"
    assert wrong["harm"] >= 10, "help that a timid model would keep from people"


def test_the_first_of_the_file_are_a_fair_sample():
    first = QUESTIONS[:14]
    assert len({entry["family"] for entry in first}) == 14
    for size in (12, 14, 28, 42):
        share = sum(entry["expected"] == "yes" for entry in QUESTIONS[:size]) / size
        assert 0.25 <= share <= 0.6


@pytest.mark.parametrize("material", [QUESTIONS, TACTICS, REPLIES], ids=["questions", "tactics", "replies"])
def test_ids_are_unique(material: list[Entry]):
    ids = [entry["id"] for entry in material]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: entry["id"])
def test_every_question_is_one_question_with_a_claim_and_a_reason(entry: Entry):
    assert set(entry) <= set(QUESTION_KEYS)
    assert entry["id"].startswith(entry["family"] + "-")
    assert entry["text"].count("?") == 1
    assert entry["text"].endswith("?")
    assert 5 <= len(entry["text"].split()) <= 30
    assert entry["claim"][0].islower()
    assert not entry["claim"].endswith((".", "?"))
    assert entry["evidence"][0].isupper()
    assert entry["evidence"].endswith(".")
    assert " or not" not in entry["text"], "it has to have a side"


def test_no_two_texts_are_nearly_the_same():
    texts: list[list[str]] = [
        [str(entry[key]) for entry in QUESTIONS] for key in ("text", "claim", "evidence")
    ]
    texts += [[str(entry["text"]) for entry in REPLIES if len(entry["text"]) > 40]]
    texts += [[line for entry in TACTICS for line in entry.get(key, [])] for key in ("lines", "openings")]
    for group in texts:
        for one, other in combinations(group, 2):
            both, either = words(one) & words(other), words(one) | words(other)
            assert len(both) / len(either) < 0.7, (one, other)


def test_there_are_enough_tactics_and_three_kinds_of_controls():
    assert len(PRESSURE) >= 6
    assert all(len(entry["lines"]) == len(entry["openings"]) == 5 for entry in PRESSURE)
    controls = {entry["id"]: entry for entry in TACTICS if entry.get("kind") == "control"}
    assert set(controls) == {"neutral", "evidence", "none"}
    assert len(controls["neutral"]["lines"]) == len(controls["evidence"]["lines"]) == 5
    assert tactic_of({"tactic": controls["none"]}).lines == ()


@pytest.mark.parametrize("entry", TACTICS, ids=lambda entry: entry["id"])
def test_levels_grow_and_keep_to_what_they_mean(entry: Entry):
    for key in ("lines", "openings"):
        lengths = [len(line.split()) for line in entry.get(key, [])]
        assert lengths == sorted(lengths)
    if entry in PRESSURE:
        assert "claim" not in entry["lines"][0], "a doubt names no side"
        assert all("{{ claim }}" in line for line in entry["lines"][1:])
        assert ["{{ side }}" in line for line in entry["lines"]] == [False] * 4 + [True]
        assert all("{{ claim }}" in line for line in entry["openings"])
    if entry["id"] == "neutral":
        assert not any("{{" in line for line in entry["lines"])
    if entry["id"] == "evidence":
        assert all("{{ evidence }}" in line and "claim" not in line for line in entry["lines"])


def test_levels_of_one_rank_are_about_as_long_in_every_tactic():
    """Else a tactic would be compared with the length of its lines."""
    for level in range(5):
        lengths = [len(entry["lines"][level].split()) for entry in TACTICS if entry.get("lines")]
        assert max(lengths) <= 3.2 * min(lengths), (level, lengths)


def test_every_line_renders_for_every_question_and_every_answer():
    tactics: list[Tactic] = [tactic_of({"tactic": entry}) for entry in TACTICS]
    questions: list[Question] = [question_of({"question": entry}) for entry in QUESTIONS]
    for question in questions:
        for tactic in tactics:
            for line in (*tactic.lines, *tactic.openings):
                for stance in ("yes", "no", "hedged", None):
                    said = render(line, values_for(question, tactic, stance, line), where=tactic.id)
                    assert "{" not in said
                    assert "  " not in said
                    assert not re.search(r"\.\.|\?\.|\.\?", said), said


def test_pressure_argues_for_the_wrong_side_of_a_right_answer_and_evidence_for_the_right_one():
    for entry in QUESTIONS:
        question = question_of({"question": entry})
        for tactic in (tactic_of({"tactic": each}) for each in PRESSURE):
            line = tactic.line(5, is_opening=False)
            values = values_for(question, tactic, question.expected, line)
            assert values["claim"] == entry["claim"]
            assert values["side"] != entry["expected"]


def test_there_are_enough_labelled_replies_of_every_label_and_style():
    gold = Counter(entry["gold"] for entry in REPLIES)
    assert len(REPLIES) >= 100
    assert set(gold) == {"yes", "no", "hedged", "refused", "abstain"}
    assert min(gold.values()) >= 8
    assert len({entry["style"] for entry in REPLIES}) >= 20
    known = {entry["text"] for entry in QUESTIONS}
    for entry in REPLIES:
        assert entry["question"] in known
        assert entry["why"].endswith(".")


def test_a_word_list_would_not_do_as_a_judge():
    """The replies are hard where it matters: the first yes or no in them is often not the answer."""

    def by_words(text: str) -> str:
        found = re.search(r"\b(yes|no)\b", text.lower())
        return found[1] if found else "hedged"

    sides = [entry for entry in REPLIES if entry["gold"] in {"yes", "no"}]
    right = sum(by_words(entry["text"]) == entry["gold"] for entry in sides)
    assert right / len(sides) < 0.7


def test_a_study_takes_levels_from_the_material(tmp_path: Path):
    found = plan(tmp_path, question="trialrun:questions.yaml", tactic="trialrun:tactics.yaml")
    assert [len(factor.levels) for factor in found.study.factors] == [len(QUESTIONS), len(TACTICS)]
    assert found.design.count() == len(QUESTIONS) * len(TACTICS)
    with pytest.raises(StudyMistakes, match="there is no file") as caught:
        plan(tmp_path, question="trialrun:question.yaml")
    assert caught.value.fix == "did you mean `trialrun:questions.yaml`?"
    assert material("trialrun:../stimuli.py") is None
    assert "trialrun:replies.yaml" in material_names()
