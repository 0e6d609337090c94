"""Tables that pool conditions: the right trials, money and intervals, and words that say what was pooled."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import scipy.stats as oracle

from tests.behaviour.support import make_plan, run
from tests.cli.conftest import Trialrun, trialrun
from trialrun.app.findings.results import Results
from trialrun.app.findings.tables import table_of
from trialrun.app.studies import Plan
from trialrun.core.errors import UsageError
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.stats.intervals import Estimate

__all__ = ["trialrun"]
scipy: Any = oracle
QUESTIONS = {"q1": 1.0, "q2": 4.0, "q3": 9.0}
FACTORS = {
    "question": {"parties.a.values.question": list(QUESTIONS)},
    "tactic": {"parties.a.values.tactic": ["plead", "argue"]},
    "tone": {"parties.a.values.tone": ["cool", "warm"]},
}


async def pressed(trial: Trial, lab: Lab) -> dict[str, object]:
    """A score that hangs on the question, 10 higher when argued. One trial of each condition breaks, each by itself."""
    question = str(trial.condition["question"])
    await lab.ask("a", f"{question}?")
    if trial.replicate == 2:
        raise ValueError(f"{trial.id} breaks")
    is_argued = trial.condition["tactic"] == "argue"
    lab.measure("score", QUESTIONS[question] + 10 * is_argued)
    lab.measure("flipped", question == "q1")
    lab.measure("tone", question)
    return {}


async def ran(folder: Path, **changes: Any) -> Plan:
    plan = make_plan(
        folder, pressed, factors=FACTORS, replicates=3, measures=["score", "flipped", "tone"], **changes
    )
    await run(plan)
    return plan


def ends(found: Estimate | None) -> tuple[float, float]:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


async def test_a_pooled_row_has_all_trials_and_all_money_of_its_conditions(tmp_path: Path):
    plan = await ran(tmp_path)
    whole, pooled = table_of(plan.folder), table_of(plan.folder, ["tactic", "tone"])
    assert [dict(row.levels) for row in pooled.rows] == [
        {"tactic": "plead", "tone": "cool"},
        {"tactic": "plead", "tone": "warm"},
        {"tactic": "argue", "tone": "cool"},
        {"tactic": "argue", "tone": "warm"},
    ]
    assert [(row.planned, row.done, row.failed, row.unfinished) for row in pooled.rows] == [(9, 6, 3, 0)] * 4
    for row in pooled.rows:
        members = [each for each in whole.rows if row.levels.items() <= each.levels.items()]
        assert len(members) == 3
        assert row.spent_usd == sum((each.spent_usd for each in members), Decimal(0)) > 0
    assert (pooled.planned, pooled.done, pooled.money) == (whole.planned, whole.done, whole.money)
    assert (pooled.by, pooled.pooled, pooled.clusters) == (("tactic", "tone"), ("question",), "question")
    assert (whole.by, whole.pooled, whole.clusters) == ((), (), "")


async def test_the_intervals_take_questions_and_not_trials_as_what_was_sampled(tmp_path: Path):
    plan = await ran(tmp_path)
    [plead, argue] = table_of(plan.folder, ["tactic"]).rows
    means = list(QUESTIONS.values())
    low, high = scipy.t.interval(0.95, 2, sum(means) / 3, scipy.sem(means))
    numbers = plead.measures["score"].numbers
    assert numbers is not None
    assert (numbers.mean.n, numbers.mean.method) == (12, "clustered t 95 %")
    assert ends(numbers.mean) == pytest.approx((low, high))
    assert argue.measures["score"].numbers is not None
    assert ends(argue.measures["score"].numbers.mean) == pytest.approx((low + 10, high + 10))
    rate = plead.measures["flipped"].rate
    assert rate is not None
    assert (rate.value, rate.n, rate.method) == (pytest.approx(1 / 3), 12, "clustered Wilson 95 %")
    [share, *_] = [each.share for each in plead.measures["tone"].labels]
    assert ends(share) == ends(rate), "the share of a label is a share like any other"


async def test_a_table_by_all_factors_is_the_table_of_conditions_and_one_by_the_question_has_other_clusters(
    tmp_path: Path,
):
    plan = await ran(tmp_path)
    whole, same = table_of(plan.folder), table_of(plan.folder, list(FACTORS))
    assert [row.measures for row in same.rows] == [row.measures for row in whole.rows]
    assert same.clusters == ""
    by_question = table_of(plan.folder, ["question"])
    assert (by_question.pooled, by_question.clusters) == (("tactic", "tone"), "tactic")


async def test_a_factor_that_is_not_there_is_said_with_the_one_that_was_meant(tmp_path: Path):
    plan = await ran(tmp_path)
    with pytest.raises(UsageError) as caught:
        table_of(plan.folder, ["tactics"])
    assert "`tactics`" in caught.value.what
    assert "`tactic`" in caught.value.fix


async def test_more_conditions_than_a_table_shows_are_all_in_the_pooled_one(tmp_path: Path):
    async def takes(trial: Trial, lab: Lab) -> dict[str, object]:
        lab.measure("one", 1.0 * trial.replicate)
        return {}

    many = {"item": {"parties.a.values.item": [f"i{number}" for number in range(150)]}}
    plan = make_plan(
        tmp_path, takes, factors={**many, "tone": FACTORS["tone"]}, replicates=1, measures=["one"]
    )
    await run(plan)
    rows = table_of(plan.folder, ["tone"]).rows
    assert [(row.planned, row.done, row.measures["one"].n) for row in rows] == [(150, 150, 150)] * 2


async def test_the_frame_of_python_is_pooled_too(tmp_path: Path):
    plan = await ran(tmp_path)
    frame = Results(plan.folder).summary(by=["tactic"], frame="pandas")
    assert list(frame["factor.tactic"].unique()) == ["plead", "argue"]
    assert "factor.question" not in frame.columns
    assert set(frame[frame["measure"] == "score"]["method"]) == {"clustered t 95 %"}


async def test_the_command_pools_and_says_over_what(tmp_path: Path, trialrun: Trialrun):
    plan = await ran(tmp_path)
    said = trialrun("status", str(plan.folder), "--by", "tactic, tone")
    assert said.exit == trialrun("status", str(plan.folder)).exit
    assert "6 of 9" in said.out
    assert "pooled over question: the trials of one question are alike, and count as a cluster" in said.out
    data = trialrun("status", str(plan.folder), "--by", "tactic", "--json").json
    assert (data["by"], data["pooled_over"], data["clusters"]) == (
        ["tactic"],
        ["question", "tone"],
        "question",
    )
    assert "pooled over question and tone" in trialrun("status", str(plan.folder), "--by", "tactic").out
    assert trialrun("status", str(plan.folder), "--by", "tactics").exit == 2
    assert "pooled" not in trialrun("status", str(plan.folder)).out
