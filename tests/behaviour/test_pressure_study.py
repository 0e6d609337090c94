"""The example studies of pressure, from study file to report."""

import json
import shutil
from pathlib import Path
from typing import cast

import pytest

import trialrun as tr
from trialrun.app.exits import Exit
from trialrun.app.findings.pressure import batch_analysis_of
from trialrun.core.errors import UsageError
from trialrun.store.archive import Archive

EXAMPLE = Path(__file__).parents[2] / "examples" / "pressure"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("pressure")
    for name in ("study.yaml", "judge.yaml"):
        shutil.copy(EXAMPLE / name, home / name)
        ran = tr.run(home / name, lane="rehearsal", progress=False)
        assert ran.exit is Exit.DONE
    return home


def test_the_example_presses_every_condition_and_every_answer_is_plausible(folder: Path):
    results = tr.load(folder / "study.yaml")
    with Archive(results.folder) as archive:
        states = list(archive.trials())
        first_words = {row.text.split()[0] for row in archive.messages() if row.party == "subject"}
    assert len(states) == 12 * 3 * 2 * 2
    assert {state.end_reason for state in states} >= {"not_pressed", "flipped", "held", "changed"}
    assert first_words == {"Yes.", "No.", "It"}, "a rehearsed answer takes a side"
    pairs = [
        (stance, state.values["first_stance"])
        for state in states
        for stance in cast("list[str | None]", state.values["stances"])
    ]
    assert 0.5 < sum(stance == first for stance, first in pairs) / len(pairs) < 0.95, "and mostly keeps to it"


def test_the_example_explains_every_outcome_by_itself(folder: Path):
    assert tr.load(folder / "study.yaml").verify().differences == ()


def test_the_report_adds_up_and_is_plain_data(folder: Path):
    report = tr.load(folder / "study.yaml").pressure()
    assert [tuple(group.levels.values()) for group in report.groups][:2] == [
        ("openai/gpt-5-mini", "authority"),
        ("openai/gpt-5-mini", "emotion"),
    ]
    assert sum(group.trials for group in report.groups) == report.done == report.planned == 144
    with Archive(tr.load(folder / "study.yaml").folder) as archive:
        total = archive.total()
    assert sum(group.cost_usd for group in report.groups) == total.spent_usd
    data = json.loads(json.dumps(report.as_data()))
    assert data["lane"] == "rehearsal"
    assert data["groups"][0]["flipped"]["method"] == "Wilson 95 %"
    text = str(report)
    assert text.startswith("REHEARSAL")
    assert "are not advice" in text


def test_the_report_can_be_grouped_by_factor_or_field(folder: Path):
    results = tr.load(folder / "study.yaml")
    assert len(results.pressure(by=["family", "tactic_kind"]).groups) == 12 * 2
    assert len(results.pressure(by=["question"]).groups) == 12
    with pytest.raises(UsageError, match="cannot be grouped by `colour`"):
        results.pressure(by=["colour"])


def test_a_calibration_says_what_the_judge_is_worth_and_corrects_with_it(folder: Path):
    judge = tr.load(folder / "judge.yaml")
    (found,) = judge.calibration().judges
    assert found.ratings == 345
    assert found.with_itself is not None
    assert json.loads(json.dumps(judge.calibration().as_data()))["judges"][0]["confusion"]["yes"]
    report = tr.load(folder / "study.yaml").pressure(calibration=judge)
    assert all(group.wrong_after_corrected is not None for group in report.groups)
    assert "(corrected)" in str(report)


def test_reports_of_the_wrong_study_are_refused(folder: Path):
    with pytest.raises(UsageError, match="is no study of `replies`"):
        tr.load(folder / "study.yaml").calibration()
    with pytest.raises(UsageError, match="is no study of `questions`"):
        tr.load(folder / "judge.yaml").pressure()


def test_the_flat_analysis_names_every_question(folder: Path):
    found = batch_analysis_of(tr.load(folder / "study.yaml").folder)
    assert found["total_questions"] == 144
    assert all(result["question"].endswith("?") for result in found["detailed_results"])
    json.dumps(found)


def test_a_study_that_ran_out_of_money_goes_on_to_the_same_results(tmp_path: Path, folder: Path):
    shutil.copy(EXAMPLE / "study.yaml", tmp_path / "study.yaml")
    cut = tr.run(tmp_path / "study.yaml", lane="rehearsal", budget_usd="0.2", progress=False)
    assert cut.exit is Exit.BUDGET
    assert 0 < cut.pressure().done < 144
    whole = tr.run(tmp_path / "study.yaml", lane="rehearsal", progress=False)
    assert whole.exit is Exit.DONE
    assert whole.pressure().as_data() == tr.load(folder / "study.yaml").pressure().as_data()
