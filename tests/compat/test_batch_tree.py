"""The files of a batch beside its journal: what stands where, and what becomes of them when a batch is stopped."""

import re
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.compat.batches import EXAMPLES, project
from tests.compat.trees import ANALYSIS, SMALL_RUN, data, files, run, tree
from tests.procedures.worlds import cast_of, write_world
from trialrun.app.studies import load
from trialrun.core.calls import Call


async def test_the_tree_is_the_documented_one(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2, budget_limit=20)
    folder = file.parent
    assert (await run(file)).exit == 0
    runs = {f"var-{variation:03d}-run-{number:03d}" for variation in (1, 2) for number in (1, 2)}
    shown = {name for name in files(folder) if not name.startswith(("study.", "resolved."))}
    assert shown == {
        "batch-config.yaml", "batch-summary.json", "batch-state.json", "batch-costs.json",
        *(f"runs/{run}/{name}" for run in runs for name in SMALL_RUN),
        *(f"analysis/{name}" for name in ANALYSIS),
    }  # fmt: skip


async def test_every_file_has_the_documented_keys(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2, budget_limit=20, cost_per_run_limit=1)
    folder = file.parent
    await run(file)
    summary, state, costs = (data(folder / f"batch-{name}.json") for name in ("summary", "state", "costs"))
    assert list(summary)[:10] == [
        "experiment_name", "base_scenario", "total_variations", "runs_per_variation", "total_runs_planned",
        "runs_completed", "runs_failed", "duration_seconds", "cost_summary", "failed_runs",
    ]  # fmt: skip
    assert (summary["status"], summary["runs_pending"], summary["halt_reason"]) == ("completed", 0, None)
    assert set(state) >= {
        "experiment_name",
        "completed_runs",
        "failed_runs",
        "variations",
        "start_time",
        "end_time",
    }
    assert state["variations"][1] == {
        "variation_id": 2,
        "description": "regulator=anthropic/claude-3-haiku",
        "modifications": {
            "actor_models": {"regulator": "anthropic/claude-3-haiku"},
            "scenario_overrides": {},
        },
    }
    assert list(costs) == ["summary", "run_costs", "variation_statistics"]
    assert list(costs["summary"])[:10] == [
        "total_spent", "budget_limit", "cost_per_run_limit", "remaining_budget", "runs_completed", "runs_failed",
        "runs_budget_exceeded", "avg_cost_per_run", "duration_seconds", "start_time",
    ]  # fmt: skip
    assert set(costs["run_costs"][0]) == {"run_id", "variation_id", "cost", "success", "timestamp"}
    assert set(costs["variation_statistics"]["1"]) == {
        "total_cost", "num_runs", "successful_runs", "avg_cost_per_run",
    }  # fmt: skip
    run_folder = folder / "runs/var-001-run-001"
    assert list(data(run_folder / "metrics.json"))[:5] == [
        "scenario", "metrics_definitions", "metrics_by_turn", "final_metrics", "summary_statistics",
    ]  # fmt: skip
    assert data(run_folder / "metrics.json")["final_metrics"] == {
        "cooperation_level": 7, "robots": 30, "agreed": True, "success": True,
    }  # fmt: skip
    assert list(data(run_folder / "costs.json"))[:6] == [
        "scenario_execution", "costs_by_actor", "costs_by_turn", "world_state_costs", "totals", "validation",
    ]  # fmt: skip
    assert list(data(run_folder / "scenario-state.json")) == [
        "scenario_name", "scenario_path", "status", "halt_reason", "current_turn", "total_turns", "completed_turns",
        "world_state", "actors", "cost_tracker_state", "metrics_tracker_state", "communication_manager_state",
        "execution_metadata",
    ]  # fmt: skip
    assert data(run_folder / "scenario-state.json")["status"] == "completed"
    statistics = data(folder / "analysis/metrics-analysis.json")["cooperation_level"]
    assert list(statistics)[:6] == ["count", "mean", "median", "min", "max", "stdev"]
    assert statistics["std"] == statistics["stdev"] == 0
    variation = data(folder / "analysis/variation-statistics.json")["1"]
    assert list(variation)[:8] == [
        "variation_id", "description", "total_runs", "successful_runs", "failed_runs", "success_rate", "metrics",
        "cost",
    ]  # fmt: skip
    patterns = data(folder / "analysis/patterns.json")
    assert set(patterns) >= {
        "success_rate", "total_runs", "successful_runs", "failed_runs", "best_variation", "cost_efficiency",
        "success_factors", "failure_modes",
    }  # fmt: skip


async def test_the_number_of_a_file_is_the_turn_that_it_is_about(tmp_path: Path):
    file = project(tmp_path, variations=[])
    await run(file)
    folder = file.parent / "runs/var-001-run-001"
    for turn in (1, 2, 3):
        assert f"Cooperation: {turn + 4}" in (folder / f"world-state-{turn:03d}.md").read_text()
        assert (
            f"action of regulator in turn {turn}" in (folder / f"actor-regulator-{turn:03d}.md").read_text()
        )
    assert "Cooperation: 4" in (folder / "world-state-000.md").read_text()


async def test_a_batch_has_the_events_checks_and_background_of_its_scenario(tmp_path: Path):
    file = project(tmp_path, "river-basin", variations=[])
    far_end = cast_of(lambda _, form: {"members": []} if "members" in form else {})
    assert (await run(file, far_end)).exit == 0
    asked = "\n".join(message.text for call in far_end.calls for message in call.request.messages)
    law = (EXAMPLES / "river-basin/background/water-law.md").read_text().strip()
    assert law in asked
    assert "check" in {call.purpose.split()[0] for call in far_end.calls}
    events = yaml.safe_load((EXAMPLES / "river-basin/exogenous-events.yaml").read_text())["exogenous_events"]
    shown = "\n".join(path.read_text() for path in file.parent.glob("runs/*/world-state-*.md"))
    assert any(event["description"].strip() in shown for event in events)
    assert list(file.parent.glob("runs/*/validation-*.md"))


def test_the_batch_among_the_examples_is_there_with_its_scenario():
    plan = load(EXAMPLES.parent / "experiments/model-comparison/batch-config.yaml")
    assert plan.trials == 40


async def test_two_talks_never_share_a_file_whatever_the_names_of_those_who_talk(tmp_path: Path):
    names = ["a", "a-b", "b-c", "c"]
    scenario = {
        "actors": names,
        "enable_bilateral_communication": True,
        "turns": 1,
        "max_communications_per_turn": 1,
    }
    write_world(tmp_path / "scenarios/w", scenario=scenario)
    file = project(tmp_path, "w", variations=[])

    def talks(call: Call, form: Mapping[str, Any]) -> dict[str, Any]:
        to = {"a": "b-c", "a-b": "c"}.get(call.party)
        return (
            {"contact": to is not None, "to": to or "a", "message": f"HELLO-{to}"}
            if "contact" in form
            else {}
        )

    assert (await run(file, cast_of(talks))).exit == 0
    found = {path.name: path.read_text() for path in file.parent.glob("runs/*/bilateral-*.md")}
    assert {name: re.findall("HELLO-(\\S+)", text) for name, text in found.items()} == {
        "bilateral-001-a_b-c.md": ["b-c"], "bilateral-001-a-b_c.md": ["c"],
    }  # fmt: skip


async def test_the_costs_of_calls_runs_and_the_batch_are_one_sum(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=3)
    await run(file)
    folder = file.parent
    total = Decimal(str(data(folder / "batch-costs.json")["summary"]["total_spent"]))
    of_runs = [data(path) for path in folder.glob("runs/*/costs.json")]
    assert sum(Decimal(str(each["totals"]["total_cost_usd"])) for each in of_runs) == total
    for each in of_runs:
        for split in ("costs_by_actor", "costs_by_turn"):
            parts = (Decimal(str(part["total_cost_usd"])) for part in each[split].values())
            assert sum(parts) == Decimal(str(each["total_cost"]))


# --- what is the user's -----------------------------------------------------------------------------------------------


async def test_the_users_files_are_never_written_over(tmp_path: Path):
    file = project(tmp_path)
    before = file.read_bytes()
    await run(file)
    assert file.read_bytes() == before
    notes = [
        file.parent / "runs/var-001-run-001" / name
        for name in (
            "notes.txt",
            "actor-ideas.md",
            "world-state-mine.md",
            "validation-notes.json",
            "coalition-x.md",
        )
    ]
    for note in notes:
        note.write_text("mine", encoding="utf-8")
    edited = file.read_text() + "\n# a thought for later\n"
    file.write_text(edited, encoding="utf-8")
    await run(file)
    assert file.read_text() == edited
    assert [note.read_text() for note in notes] == ["mine"] * len(notes)


async def test_a_batch_that_goes_elsewhere_has_its_file_copied_there(tmp_path: Path):
    file = project(tmp_path, output_dir="experiments/other")
    await run(file)
    copy = tmp_path / "experiments/other/batch-config.yaml"
    assert copy.read_text() == file.read_text()
    file.write_text(file.read_text() + "# changed\n", encoding="utf-8")
    await run(file)
    copy_is_new = copy.read_text() == file.read_text()
    assert copy_is_new or copy.read_text() in file.read_text()


async def test_what_was_deleted_is_written_again(tmp_path: Path):
    file = project(tmp_path)
    await run(file)
    expected = tree(file.parent)
    shutil.rmtree(file.parent / "runs")
    shutil.rmtree(file.parent / "analysis")
    (file.parent / "batch-summary.json").unlink()
    await run(file)
    assert tree(file.parent) == expected


async def test_runs_that_are_no_longer_planned_leave_the_tree(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2)
    await run(file)
    note = file.parent / "runs/var-001-run-002/notes.txt"
    note.write_text("mine", encoding="utf-8")
    text = file.read_text().replace("runs_per_variation: 2", "runs_per_variation: 1")
    file.write_text(text, encoding="utf-8")
    await run(file)
    assert {path.name for path in (file.parent / "runs").iterdir()} == {
        "var-001-run-001", "var-002-run-001", "var-001-run-002",
    }  # fmt: skip
    assert [path.name for path in note.parent.iterdir()] == ["notes.txt"]


async def test_a_batch_may_go_without_folders_of_runs_and_without_an_analysis(tmp_path: Path):
    file = project(tmp_path, save_individual_runs=False, aggregate_metrics=False)
    await run(file)
    assert not (file.parent / "runs").exists()
    assert not (file.parent / "analysis").exists()
    assert data(file.parent / "batch-summary.json")["runs_completed"] == 2
