"""The batch file of Scenario Lab: what it stands for, from where it may be named, and what is said of its mistakes."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Trialrun, trialrun
from tests.compat.batches import FILE, project, two_models
from trialrun.app.studies import Plan, load
from trialrun.core.design import in_file_order
from trialrun.core.errors import StudyMistakes

__all__ = ["trialrun"]

GUIDE = """\
experiment_name: "Model Comparison Study"
description: "Who gives way"
base_scenario: "scenarios/test-regulation-negotiation"
runs_per_variation: 10      # each variation ten times
max_parallel: 2
timeout_per_run: 1800
budget_limit: 20.00
cost_per_run_limit: 1.00
variations:
  - type: "actor_model"
    actor: "regulator"
    values:
      - "openai/gpt-4o-mini"
      - "anthropic/claude-3-haiku"
  - type: "actor_model"
    actor: "tech-company"
    values:
      - "openai/gpt-4o-mini"
      - "anthropic/claude-3-haiku"
output_dir: "experiments/e"
save_individual_runs: true
aggregate_metrics: true
"""


def conditions(plan: Plan) -> list[str]:
    return [condition.title for condition in in_file_order(plan.study, plan.design)]


def mistakes(file: Path) -> list[tuple[str, int | None, str]]:
    with pytest.raises(StudyMistakes) as caught:
        load(file)
    return [(each.what, each.line, each.fix) for each in caught.value.mistakes]


def test_a_batch_is_a_study_with_the_documented_arithmetic(tmp_path: Path) -> None:
    plan = load(project(tmp_path, text=GUIDE))
    assert plan.trials == 2 * 2 * 10
    assert plan.study.name == "model-comparison-study"
    assert [factor.name for factor in plan.study.factors] == ["regulator", "tech-company"]
    assert plan.study.limits.open_trials == 2
    assert plan.study.limits.trial_timeout_s == 1800
    assert (plan.study.budget.study_usd, plan.study.budget.trial_usd) == (20, 1)
    assert plan.folder == tmp_path / "experiments/e"
    assert load(tmp_path / FILE, lane="rehearsal").folder == tmp_path / "experiments/e.rehearsal"


def test_what_a_batch_leaves_out_has_the_documented_default(tmp_path: Path) -> None:
    plan = load(project(tmp_path, variations=[], output_dir=None, max_parallel=None))
    assert (plan.trials, plan.study.limits.open_trials, plan.study.limits.trial_timeout_s) == (1, 1, 1800)
    assert plan.study.budget.study_usd is None
    assert plan.folder == tmp_path / "experiments/batch-run"


def test_the_last_factor_varies_fastest_in_the_order_of_the_list(tmp_path: Path) -> None:
    three = {**two_models("regulator"), "values": ["openai/b", "openai/c", "openai/a"]}
    plan = load(project(tmp_path, variations=[two_models("tech-company"), three]))
    found = [
        {name: level.label for name, level in condition.levels.items()}
        for condition in in_file_order(plan.study, plan.design)
    ]
    assert [each["regulator"] for each in found] == ["openai/b", "openai/c", "openai/a"] * 2
    assert [each["tech-company"] for each in found] == ["openai/gpt-4o-mini"] * 3 + [
        "anthropic/claude-3-haiku"
    ] * 3


def test_scenario_parameters_and_dotted_paths_reach_what_they_name(tmp_path: Path) -> None:
    plan = load(
        project(
            tmp_path,
            variations=[
                {"type": "scenario_parameter", "parameter": "num_turns", "values": [1, 2]},
                {"type": "path", "path": "actors.regulator.goals", "values": [["Be quick."], ["Be safe."]]},
                {
                    "type": "path",
                    "path": "parties.regulator.temperature",
                    "name": "heat",
                    "values": [0.0, 1.0],
                },
            ],
        )
    )
    assert plan.trials == 8
    worlds: list[Any] = [plan.specs.spec_of(condition).settings["world"] for condition in plan.design]
    assert {world["scenario"]["turns"] for world in worlds} == {1, 2}, "the file says `turns`"
    assert {world["actors"]["regulator"]["goals"][0] for world in worlds} == {"Be quick.", "Be safe."}
    assert {p.specs.spec_of(c).parties["regulator"].temperature for p in [plan] for c in p.design} == {0, 1}
    assert "heat" in {factor.name for factor in plan.study.factors}


def test_models_of_openrouter_are_asked_there_and_free_ones_cost_nothing(tmp_path: Path) -> None:
    free = "alibaba/tongyi-deepresearch-30b-a3b:free"
    plan = load(project(tmp_path, budget_limit=1, variations=[{**two_models("regulator"), "values": [free]}]))
    model = f"openrouter/{free}"
    assert [level.value for level in plan.study.factors[0].levels] == [model]
    assert plan.study.prices[model].input == Decimal(0)


def test_the_later_spelling_of_variations_is_read_too(tmp_path: Path) -> None:
    models = ["openai/gpt-4o", "openai/gpt-4o-mini"]
    plan = load(project(tmp_path, variations={"actor_models": {"regulator": models, "tech-company": models}}))
    assert plan.trials == 4


def test_all_mistakes_of_a_batch_file_are_said_at_once_with_line_and_fix(tmp_path: Path) -> None:
    text = """\
experiment_name: "x"
base_scenario: "scenarios/test-regulation-negotiation"
runs_per_variaton: 10
max_parallel: 0
budget_limit: lots
variations:
  - type: actor_models
    actor: regulator
    values: [a/b]
  - type: actor_model
    values: []
"""
    found = mistakes(project(tmp_path, text=text))
    assert [(line, what.split("`")[1]) for what, line, _ in found] == [
        (3, "runs_per_variaton"), (4, "max_parallel"), (5, "budget_limit"), (7, "variations.0.type"),
        (11, "variations.1.values"),
    ]  # fmt: skip
    assert "did you mean `runs_per_variation`?" in found[0][2]


def test_required_fields_are_required(tmp_path: Path) -> None:
    found = mistakes(project(tmp_path, text="experiment_name: x\n"))
    assert [what for what, _, _ in found] == ["`base_scenario` is missing"]
    assert [what for what, _, _ in mistakes(project(tmp_path, experiment_name=None))] == [
        "`experiment_name` is missing"
    ]


@pytest.mark.parametrize(
    ("variations", "line", "what", "fix"),
    [
        ([{"type": "actor_model", "actor": "regulater", "values": ["a/b"]}], 6, "regulater", "`regulator`"),
        ([{"type": "actor_model", "actor": "regulator", "values": ["fast-model"]}], 8, "fast-model", "provider/"),
        ([{"type": "scenario_parameter", "values": [1]}], 5, "`parameter`", "add `parameter"),
        ([{"type": "scenario_parameter", "parameter": "turnz", "values": [1, 2]}], 5, "turnz", "turns"),
        ([{"type": "actor_model", "actor": "regulator", "path": "x", "values": ["a/b"]}], 7, "`path`", "remove"),
        ([two_models("regulator"), two_models("regulator")], 10, "two variations", "put their values"),
        ([{"type": "actor_model", "actor": "regulator", "values": ["a/b", "a/b"]}], 9, "twice", "repeats"),
    ],
)  # fmt: skip
def test_mistakes_in_variations_are_said_where_they_stand(
    tmp_path: Path, variations: list[Any], line: int, what: str, fix: str
) -> None:
    found = mistakes(project(tmp_path, max_parallel=None, variations=variations))
    assert len(found) == 1
    assert what in found[0][0]
    assert fix in found[0][2]
    assert abs((found[0][1] or 0) - line) <= 1, found


def test_a_scenario_that_is_not_there_is_a_mistake_of_the_batch_file(tmp_path: Path) -> None:
    project(tmp_path)
    found = mistakes(project(tmp_path, base_scenario="scenarios/nobody-knows"))
    assert found[0][:2] == ("there is no scenario `scenarios/nobody-knows`", 2)


def test_a_batch_is_a_study_for_every_command(tmp_path: Path, trialrun: Trialrun) -> None:
    name = str(project(tmp_path).relative_to(tmp_path))
    planned = trialrun("plan", name, "--json")
    assert planned.json["trials"] == 2
    assert trialrun("rehearse", name, "--json", "--set", "settings.world.scenario.turns=1").exit == 0
    assert (tmp_path / "experiments/e.rehearsal/study.db").exists()
    for command in ("status", "verify", "export", "doctor"):
        for study in (name, "experiments/e", "experiments/e.rehearsal"):
            said = trialrun(command, study, "--json")
            assert said.exit == 0, (command, study, said)
    again = trialrun("rehearse", "experiments/e.rehearsal", "--replicates", "2", "--json")
    assert again.exit == 0
    assert (tmp_path / "experiments/e.rehearsal/study.yaml").read_text().startswith("experiment_name")


def test_from_where_a_command_is_given_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project(tmp_path)
    there = [load(file).folder]
    for folder in ("experiments/e", "scenarios", "."):
        monkeypatch.chdir(tmp_path / folder)
        there.append(load(file).folder.resolve())
    assert set(there) == {tmp_path / "experiments/e"}


def test_a_scenario_named_by_its_whole_path_moves_no_other_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project(tmp_path)
    file = project(tmp_path, base_scenario=str(tmp_path / "scenarios/test-regulation-negotiation"))
    monkeypatch.chdir(tmp_path)
    assert load(file).folder == tmp_path / "experiments/e"


def test_the_python_api_takes_a_batch(tmp_path: Path) -> None:
    import trialrun as tr

    file = project(tmp_path)
    results = tr.run(file, lane="rehearsal", set={"settings.world.scenario.turns": 1}, progress=False)
    assert results.exit == tr.Exit.DONE
    assert tr.load(file).folder == results.folder
