"""What an analysis says of studies whose truth is known, and what it refuses to say."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import make_plan, one_question, run
from tests.cli.conftest import Trialrun, small, trialrun
from trialrun.app.analysis.data import Results, results_in
from trialrun.app.analysis.effects import LARGE, LEAST, Effect
from trialrun.app.analysis.files import analyse
from trialrun.app.analysis.patterns import compared, patterns_of
from trialrun.app.analysis.report import plain, report
from trialrun.app.analysis.statistics import standing_of, statistics_of
from trialrun.compat.batch_analyzer import BatchAnalyzer
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


async def analysed(
    folder: Path, value: Callable[[Trial, Lab], object], levels: int, replicates: int
) -> Results:
    """A study of one factor and one measure."""

    async def takes(trial: Trial, lab: Lab) -> dict[str, object]:
        lab.measure("m", value(trial, lab))  # pyright: ignore[reportArgumentType]  # any value, for tests
        return {}

    names = [f"l{number}" for number in range(levels)]
    plan = make_plan(
        folder, takes, factors={"f": {"parties.a.values.f": names}}, replicates=replicates, measures=["m"]
    )
    await run(plan)
    return results_in(plan.folder)


async def test_values_that_never_vary_within_a_level_are_all_the_evidence_there_can_be(tmp_path: Path):
    def fixed(trial: Trial, _: Lab) -> int:
        return 7 if trial.condition["f"] == "l1" else 3

    [found] = patterns_of(await analysed(tmp_path, fixed, levels=2, replicates=10)).effects
    assert (found.verdict, found.difference.value, found.difference.low) == ("raises", 4, None)
    assert found.why == "no interval: no spread in either group"
    assert found.p_adjusted is not None
    assert found.p_adjusted < 0.001


async def test_values_that_are_all_the_same_are_no_effect(tmp_path: Path):
    [found] = patterns_of(await analysed(tmp_path, lambda *_: 5, levels=2, replicates=10)).effects
    assert (found.verdict, found.p) == ("no clear effect", 1)


async def test_a_question_can_be_answered_however_many_others_are_asked(tmp_path: Path):
    def rare(trial: Trial, lab: Lab) -> float:
        return 100 * (trial.condition["f"] == "l7") + lab.random("m").random()

    found = patterns_of(await analysed(tmp_path, rare, levels=120, replicates=6)).effects
    assert [each.level for each in found if each.verdict == "raises"] == ["l7"]
    assert len(found) == 120


async def test_large_groups_are_compared_by_a_test_that_takes_no_time(tmp_path: Path):
    def far(trial: Trial, lab: Lab) -> float:
        return (trial.condition["f"] == "l1") + lab.random("m").random()

    [found] = patterns_of(await analysed(tmp_path, far, levels=2, replicates=LARGE)).effects
    assert (found.test, found.verdict) == ("Welch t", "raises")


async def test_the_share_of_a_label_is_compared_like_any_share(tmp_path: Path):
    def tone(trial: Trial, lab: Lab) -> object:
        if trial.replicate == 1:
            return None
        return "warm" if (trial.condition["f"] == "l1") == (lab.random("m").random() < 0.9) else "cool"

    found = await analysed(tmp_path, tone, levels=2, replicates=40)
    [each] = patterns_of(found).effects
    assert (each.measure, each.level, each.verdict) == ("m=cool", "l1", "lowers")
    values = {
        label: [trial.values["m"] for trial in found.done if trial.levels["f"] == label]
        for label in ("l0", "l1")
    }
    shares = {label: each.count("cool") / 39 for label, each in values.items()}
    assert each.difference.value == pytest.approx(shares["l1"] - shares["l0"])
    assert each.n == (39, 39), "what is missing is not another label"
    assert each.is_good is None


async def test_each_of_several_labels_is_a_question_of_one_family(tmp_path: Path):
    def side(trial: Trial, lab: Lab) -> object:
        return lab.random("m").choice(["yes", "no", "hedged"])

    found = patterns_of(await analysed(tmp_path, side, levels=3, replicates=8)).effects
    assert {each.measure for each in found} == {"m=hedged", "m=no", "m=yes"}
    assert len(found) == 9
    smallest = min(each.p for each in found if each.p is not None)
    assert min(each.p_adjusted for each in found if each.p_adjusted is not None) == min(1.0, 9 * smallest)


async def test_whole_texts_are_no_labels(tmp_path: Path):
    def text(trial: Trial, _: Lab) -> object:
        return f"utterance {trial.condition['f']} {trial.replicate}"

    assert patterns_of(await analysed(tmp_path, text, levels=2, replicates=5)).effects == ()


async def test_values_of_several_kinds_have_no_mean_in_common(tmp_path: Path):
    def several(trial: Trial, _: Lab) -> object:
        return (True, 7, "many")[trial.replicate % 3]

    found = await analysed(tmp_path, several, levels=2, replicates=9)
    assert patterns_of(found).effects == ()
    [each] = statistics_of(found, found.trials).values()
    assert (each.count, each.mean.value, each.median) == (18, None, None)
    assert each.mean.method == "no interval: values of several kinds"


async def test_the_first_of_many_is_only_called_ahead_of_those_that_it_is_clearly_ahead_of(tmp_path: Path):
    async def takes(trial: Trial, lab: Lab) -> dict[str, object]:
        number = int(str(trial.condition["f"])[1:])
        lab.measure("success", trial.replicate <= (2, 18, 20)[number])
        return {}

    plan = make_plan(
        tmp_path, takes, factors={"f": {"parties.a.values.f": ["l0", "l1", "l2"]}}, replicates=20,
        measures=["success"],
    )  # fmt: skip
    await run(plan)
    found = results_in(plan.folder)
    patterns = patterns_of(found)
    assert patterns.best is not None
    assert patterns.best.variation.number == 3
    assert [each.number for each in patterns.best.ahead_of] == [1]
    assert [each.number for each in patterns.best.not_clearly] == [2]
    assert "clearly ahead of 1 of 2 others" in report(found, patterns)
    assert "condition 3 is first, and 1 of the others is not clearly behind it" in patterns.notes


async def test_few_trials_are_called_not_enough_data_however_far_apart_they_are(tmp_path: Path):
    found = await results(tmp_path, replicates=2)
    every = patterns_of(found).effects
    assert {each.verdict for each in every} == {"not enough data"}
    assert all(min(each.n) < LEAST for each in every)
    assert "not enough data for 6 of 6 questions about factors" in patterns_of(found).notes
    assert patterns_of(found).success_factors == ()


async def test_how_many_measures_were_asked_about_is_said(tmp_path: Path):
    notes = patterns_of(await results(tmp_path)).notes
    assert "3 measures were asked about, each for itself: of many clear effects a few may be chance" in notes


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
    assert said.json["patterns"]["done_trials"] == 6
    assert set(said.json["conditions"]) == {"1", "2"}
    assert {Path(file).name for file in said.json["files"]} == {
        "measures.json", "conditions.json", "patterns.json", "report.md",
    }  # fmt: skip
    out = trialrun("analyze", small).out
    assert "REHEARSAL" in out
    assert "pleased=yes" in out, "the share that the study asks about, whether or not its effect is clear"
    assert "0 clear effects of factors; 2 others" in out
    folder = tmp_path / "results/small.rehearsal"
    assert "guest.words" in (folder / "analysis/report.md").read_text()


FOREIGN = re.compile(
    r"\b(?:runs?|variations?|metrics?)\b|_runs?\b|\bruns?_|variation_|metric_", re.IGNORECASE
)


def keys_in(data: object) -> list[str]:
    match data:
        case dict():
            return [key for name, value in data.items() for key in (str(name), *keys_in(value))]
        case list():
            return [key for value in data for key in keys_in(value)]
        case _:
            return []


@pytest.mark.parametrize("factors", [FACTORS, {}], ids=["varied", "nothing varied"])
async def test_a_study_is_analysed_in_the_words_of_trialrun_and_for_scenario_lab_in_those_of_its_files(
    tmp_path: Path, factors: dict[str, Any]
):
    plan = make_plan(
        tmp_path, measures if factors else one_question, factors=factors, settings={"x": 0}, replicates=8
    )
    await run(plan)
    _, patterns, written = analyse(plan.folder, with_report=True)
    told = [*(file.name for file in written), written[-1].read_text(), *patterns.notes]
    told += [key for file in written[:-1] for key in keys_in(json.loads(file.read_text()))]
    assert [FOREIGN.findall(text) for text in told if FOREIGN.search(text)] == []
    assert "Trials planned" in written[-1].read_text()

    analyzer = BatchAnalyzer(plan.folder)
    text = analyzer.generate_analysis_report()
    assert "Runs planned" in text
    assert "## Metrics over all completed runs" in text
    assert not re.search(r"\b(?:trials?|conditions?|measures?)\b", text), "one word per idea there, too"
    assert analyzer.save_analysis_data()[0].name == "metrics-analysis.json"
    assert "success_rate" in analyzer.identify_patterns()


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
