"""What an analysis says of studies whose truth is known, and what it refuses to say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import make_plan, run
from tests.cli.conftest import Trialrun, small, trialrun
from trialrun.app.analysis.data import Results, results_in
from trialrun.app.analysis.effects import LEAST, Effect
from trialrun.app.analysis.files import analyse
from trialrun.app.analysis.patterns import compared, patterns_of
from trialrun.app.analysis.report import plain, report
from trialrun.app.analysis.statistics import standing_of, statistics_of
from trialrun.core.ports import Lab
from trialrun.core.study import Trial

__all__ = ["small", "trialrun"]
FACTORS = {
    "mood": {"parties.a.values.mood": ["calm", "wild"]},
    "dummy": {"levels": {"one": {"settings.x": 1}, "two": {"settings.x": 2}}},
}


async def measures(trial: Trial, lab: Lab) -> dict[str, object]:
    """Mood makes the score 10 higher; the other factor does nothing. One of four has no score, and one in ten fails."""
    chance = lab.random("score")
    is_wild = trial.condition["mood"] == "wild"
    noise = chance.random()
    lab.measure("score", None if trial.replicate % 4 == 0 else 10 * is_wild + noise)
    lab.measure("success", is_wild if chance.random() < 0.9 else not is_wild)
    lab.measure("tone", "warm" if noise < 0.5 else "cool")
    if trial.replicate == 7 and is_wild:
        raise ValueError("the seventh <b>breaks</b>")
    return {}


async def results(folder: Path, replicates: int = 20, **more: Any) -> Results:
    plan = make_plan(
        folder, measures, factors=FACTORS, replicates=replicates, settings={"x": 0},
        measures=["score", "success", "tone"], **more,
    )  # fmt: skip
    await run(plan)
    return results_in(plan.folder)


def effect(found: Results, measure: str, factor: str) -> Effect:
    return next(e for e in patterns_of(found).effects if (e.measure, e.factor) == (measure, factor))


async def test_a_real_effect_is_found_and_one_that_is_not_there_is_not(tmp_path: Path):
    found = await results(tmp_path)
    real = effect(found, "score", "mood")
    assert (real.level, real.against, real.verdict) == ("wild", "calm", "raises")
    assert real.difference.low is not None
    assert real.difference.high is not None
    assert 9 < real.difference.low < real.difference.high < 11
    assert effect(found, "success", "mood").verdict == "raises"
    assert effect(found, "score", "dummy").verdict == "no clear effect"
    assert real.p is not None
    assert real.p_adjusted is not None
    assert real.p_adjusted >= real.p


async def test_few_trials_are_called_not_enough_data_however_far_apart_they_are(tmp_path: Path):
    found = await results(tmp_path, replicates=2)
    every = patterns_of(found).effects
    assert {each.verdict for each in every} == {"not enough data"}
    assert all(min(each.n) < LEAST for each in every)
    assert "not enough data for 4 of 4 questions about factors" in patterns_of(found).notes
    assert patterns_of(found).success_factors == ()


async def test_a_measure_without_a_direction_is_neither_good_nor_bad(tmp_path: Path):
    found = await results(tmp_path)
    assert effect(found, "score", "mood").is_good is None
    assert patterns_of(found).success_factors == patterns_of(found).risk_factors == ()
    assert any("no direction is declared for score" in note for note in patterns_of(found).notes)


async def test_what_is_missing_is_missing_and_never_0(tmp_path: Path):
    found = await results(tmp_path)
    score = statistics_of(found, found.trials)["score"]
    done = len(found.done)
    assert score.count + score.missing == done
    # The fifth of replicates 4, 8, …, 20 in each of four conditions.
    assert score.missing == 20
    assert score.minimum is not None
    assert score.minimum > 0
    tone = statistics_of(found, found.trials)["tone"]
    assert tone.mean.value is None
    assert sum(label.count for label in tone.labels) == done


async def test_completion_and_outcome_are_two_numbers(tmp_path: Path):
    found = await results(tmp_path)
    standing = standing_of(found)
    assert (standing.planned, standing.done, standing.failed, standing.unfinished) == (80, 78, 2, 0)
    assert standing.completion.value == 78 / 80
    assert standing.outcome is not None
    assert standing.outcome.value is not None
    assert 0.3 < standing.outcome.value < 0.7
    [mode] = patterns_of(found).failure_modes
    assert (mode.trials, mode.boundary) == (2, "procedure")
    assert "the seventh" in mode.reason


async def test_variations_are_compared_by_the_measure(tmp_path: Path):
    found = await results(tmp_path)
    order = [each.variation.levels["mood"] for each in compared(found, "score")]
    assert order == ["wild", "wild", "calm", "calm"]


async def test_an_analysis_of_nothing_says_so(tmp_path: Path):
    async def fails(trial: Trial, lab: Lab) -> dict[str, object]:
        raise ValueError("no")

    plan = make_plan(tmp_path, fails, replicates=2)
    await run(plan)
    _, patterns, written = analyse(plan.folder, with_report=True)
    assert any("no trial is finished" in note for note in patterns.notes)
    assert patterns.standing.completion.value == 0
    assert patterns.best is None
    assert "no trial is finished" in written[-1].read_text()
    for file in written[:-1]:
        json.loads(file.read_text())


async def test_the_report_is_safe_to_look_at(tmp_path: Path):
    found = await results(tmp_path)
    text = report(found, patterns_of(found))
    assert "<b>" not in text
    assert "&lt;b&gt;breaks" in text
    assert plain("a | b\n# c `d` [e](f)") == "a \\| b # c \\`d\\` [e\\](f)"


def test_every_study_can_be_analysed_by_command(trialrun: Trialrun, small: str, tmp_path: Path):
    assert trialrun("analyze", small).exit == 2, "nothing ran yet"
    trialrun("rehearse", small)
    said = trialrun("analyze", small, "--report", "--json")
    assert said.exit == 0
    assert said.json["patterns"]["successful_runs"] == 6
    assert {Path(file).name for file in said.json["files"]} == {
        "metrics-analysis.json", "variation-statistics.json", "patterns.json", "analysis-report.md",
    }  # fmt: skip
    assert "REHEARSAL" in trialrun("analyze", small).out
    folder = tmp_path / "results/small.rehearsal"
    assert "guest.words" in (folder / "analysis/analysis-report.md").read_text()


def test_a_folder_with_nothing_in_it_is_said(trialrun: Trialrun, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    said = trialrun("analyze", "empty")
    assert said.exit == 2
    assert "holds no study" in said.err
    assert trialrun("analyze", "nowhere").exit == 2


@pytest.mark.parametrize("name", ["", "x" * 500, "*bold* _it_"])
def test_plain_text_stays_on_one_short_line(name: str):
    assert "\n" not in plain(name)
    assert len(plain(name)) <= 210
