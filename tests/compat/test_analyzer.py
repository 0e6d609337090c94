"""`BatchAnalyzer` and the two scripts, as the guide of Scenario Lab uses them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.compat.batches import project, two_models
from tests.compat.test_batch_tree import run
from tests.procedures.worlds import cast_of
from trialrun.compat.batch_analyzer import BatchAnalyzer
from trialrun.core.calls import Call
from trialrun.core.errors import UsageError
from trialrun.testing.scripted import Scripted

EXAMPLES = Path(__file__).parents[2] / "examples"


def warm_and_cold() -> Scripted:
    """Where Claude plays the regulator there is more cooperation, and always an agreement."""

    def world(call: Call, properties: Mapping[str, Any]) -> dict[str, Any]:
        if "world_state" not in properties:
            return {}
        replicate = int(call.trial.rpartition("-r")[2])
        is_warm = call.trial.rpartition("-r")[0] in warm
        state = (
            f"Cooperation: {6 + replicate % 2 if is_warm else 3 - replicate % 2}\nRobots on the streets: 5"
        )
        return {"world_state": f"{state}\nRules agreed: {'yes' if is_warm and call.turn == 3 else 'no'}"}

    warm: set[str] = set()
    inner = cast_of(world)

    def answer(call: Call) -> Any:
        if call.party == "regulator" and call.request.model.endswith("claude-3-haiku"):
            warm.add(call.trial.rpartition("-r")[0])
        return inner._answer_to(call)

    return Scripted(answer)


async def test_the_documented_example_of_the_guide(tmp_path: Path):
    file = project(
        tmp_path, runs_per_variation=8, variations=[two_models("regulator"), two_models("tech-company")]
    )
    assert (await run(file, warm_and_cold())).exit == 0

    analyzer = BatchAnalyzer(str(file.parent))
    assert len(analyzer.collect_run_data()) == 32
    metrics: Any = analyzer.calculate_metric_statistics()
    assert f"{metrics['cooperation_level']['mean']:.2f}" == "4.50"
    comparison = analyzer.compare_variations("cooperation_level")
    assert comparison[0][0] in (3, 4)
    assert comparison[0].mean == 6.5
    assert [each.mean for each in comparison] == [6.5, 6.5, 2.5, 2.5]
    patterns: Any = analyzer.identify_patterns()
    assert f"{patterns['success_rate'] * 100:.1f}%" == "100.0%"
    assert patterns["outcome_rate"]["value"] == 0.5
    [agreed, level, success] = sorted(patterns["success_factors"], key=lambda each: str(each["metric"]))
    assert {each["factor"] for each in (agreed, level, success)} == {"regulator"}
    assert level["verdict"] == "raises"
    assert level["low"] < 4 < level["high"]
    assert patterns["best_variation"] is None, "two share the highest outcome rate"
    assert patterns["cost_efficiency"][0]["runs_per_dollar"] > 0


async def test_the_order_of_methods_means_nothing_and_files_are_written(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2)
    await run(file, warm_and_cold())
    first = BatchAnalyzer(file.parent)
    assert first.calculate_variation_statistics()[1]["successful_runs"] == 2
    assert first.generate_analysis_report().startswith("# an-experiment")
    assert [path.name for path in first.save_analysis_data()] == [
        "metrics-analysis.json", "variation-statistics.json", "patterns.json",
    ]  # fmt: skip


async def test_the_declared_direction_decides_what_is_best(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2)
    metrics = tmp_path / "scenarios/test-regulation-negotiation/metrics.yaml"
    text = metrics.read_text().replace("direction: higher", "direction: lower", 1)
    metrics.write_text(text, encoding="utf-8")
    await run(file, warm_and_cold())
    comparison = BatchAnalyzer(file.parent).compare_variations("cooperation_level")
    assert [each.variation_id for each in comparison] == [1, 2]
    assert comparison[0].direction == "lower"
    robots = BatchAnalyzer(file.parent).compare_variations("robots")
    assert {each.direction for each in robots} == {None}


async def test_a_metric_that_nobody_takes_is_a_mistake_with_a_near_miss(tmp_path: Path):
    file = project(tmp_path)
    await run(file, warm_and_cold())
    with pytest.raises(UsageError) as caught:
        BatchAnalyzer(file.parent).compare_variations("cooperation_levle")
    assert "cooperation_level" in caught.value.fix


def test_a_folder_without_results_is_said(tmp_path: Path):
    with pytest.raises(UsageError):
        BatchAnalyzer(tmp_path)
    file = project(tmp_path)
    with pytest.raises(UsageError, match="no results yet"):
        BatchAnalyzer(file.parent)


def script(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip


def test_the_scripts_take_the_documented_command_lines(tmp_path: Path):
    project(tmp_path)
    config = "experiments/e/batch-config.yaml"
    ran = script("batch_runner.py", config, "--lane", "rehearsal", "--resume", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    ran = script("batch_analyzer.py", "experiments/e/", "--report", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "experiments/e.rehearsal/analysis/analysis-report.md").exists()
    ran = script("batch_runner.py", "nowhere.yaml", cwd=tmp_path)
    assert ran.returncode == 2
