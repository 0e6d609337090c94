"""The files of a batch beside its journal: what stands where, and what becomes of them when a batch is stopped."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import OnePrice
from tests.compat.batches import EXAMPLES, project
from tests.procedures.worlds import cast_of, write_world
from trialrun.app.clock import SystemClock
from trialrun.app.running import Control, Options, Ran, run_study
from trialrun.app.studies import load
from trialrun.core.calls import Call
from trialrun.core.errors import QuotaExhausted, RequestRefused
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted

SMALL_RUN = {
    *(f"world-state-{turn:03d}.md" for turn in range(4)),
    *(f"actor-{name}-{turn:03d}.md" for name in ("regulator", "tech-company") for turn in (1, 2, 3)),
    "metrics.json",
    "costs.json",
    "scenario-state.json",
    "scenario.log",
}
ANALYSIS = {"analysis-report.md", "metrics-analysis.json", "variation-statistics.json", "patterns.json"}
Answer = Callable[[Call, Mapping[str, Any]], dict[str, Any]]


def world(call: Call, properties: Mapping[str, Any]) -> dict[str, Any]:
    """A far end in which two are enough to agree in the last turn, if the trial's name says so."""
    if "world_state" not in properties:
        return {}
    agreed = "yes" if call.turn == 3 and call.trial.endswith("r1") else "no"
    state = f"Cooperation: {call.turn + 4}\nRobots on the streets: {10 * call.turn}\nRules agreed: {agreed}"
    return {"world_state": state}


async def run(
    file: Path, far_end: Scripted | None = None, *, control: Control | None = None, **more: Any
) -> Ran:
    return await run_study(
        load(file),
        Options(retry_failed=True),
        route=lambda _: far_end or cast_of(world),
        prices=OnePrice("10"),
        control=control,
        tell=lambda _: None,
        **more,
    )


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def data(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def tree(folder: Path, *, with_doubts: bool = True) -> dict[str, object]:
    """Everything that is shown, without times and without what is said about the way there."""
    without = "duration|duration_seconds" + ("" if with_doubts else "|in_doubt|in_doubt_usd")
    found: dict[str, object] = {}
    for name in sorted(files(folder)):
        path = folder / name
        if name.startswith(("runs/", "batch-", "analysis/")) and path.suffix in (".json", ".md"):
            text = path.read_text(encoding="utf-8")
            text = re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"TIME"', text)
            text = re.sub(rf'"({without})": [\d.e-]+', r'"\1": 0', text)
            found[name] = text
        elif name.endswith("scenario.log"):
            found[name] = path.read_text(encoding="utf-8").splitlines()[-1].split(" ", 1)[1]
    return found


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


# --- stops ------------------------------------------------------------------------------------------------------------


def stopping(after: int, act: Callable[[], Exception | None]) -> Scripted:
    """A far end that does something at its n-th call, once."""
    seen = 0
    inner = cast_of(world)

    def answer(call: Call) -> Any:
        nonlocal seen
        seen += 1
        error = act() if seen == after else None
        return error or inner._answer_to(call)

    return Scripted(answer)


async def whole(home: Path, **batch: Any) -> dict[str, object]:
    file = project(home, runs_per_variation=3, **batch)
    assert (await run(file)).exit == 0
    return tree(file.parent)


async def test_after_ctrl_c_the_same_command_ends_with_the_tree_of_an_uninterrupted_run(tmp_path: Path):
    expected = await whole(tmp_path / "whole")
    file = project(tmp_path / "cut", runs_per_variation=3)
    control = Control()

    def interrupt() -> None:
        control.interrupt()

    stopped = await run(file, stopping(20, interrupt), control=control)
    assert stopped.exit == 6
    summary = data(file.parent / "batch-summary.json")
    assert (summary["status"], summary["halt_reason"]) == ("halted", "interrupted")
    assert summary["runs_completed"] + summary["runs_failed"] + summary["runs_pending"] == 6
    assert summary["runs_completed"] < 6
    assert (await run(file)).exit == 0
    assert tree(file.parent) == expected


@pytest.mark.parametrize("write", [3, 17, 40])
async def test_after_a_kill_the_same_command_ends_with_the_tree_of_an_uninterrupted_run(
    tmp_path: Path, write: int
):
    await whole(tmp_path / "whole")
    expected = tree(tmp_path / "whole/experiments/e", with_doubts=False)
    file = project(tmp_path / "cut", runs_per_variation=3)
    inside = SqliteJournal.open(file.parent, clock=SystemClock())
    with pytest.raises((Crash, BaseExceptionGroup)):
        await run(file, journal=CrashingJournal(inside, write=write, edge="after"))
    await inside.close()
    assert (await run(file)).exit == 0
    # What was in flight at a kill may have been billed: that stays in sight. Nothing else may differ.
    assert tree(file.parent, with_doubts=False) == expected


async def test_a_batch_that_the_budget_halts_says_so_and_goes_on_with_a_higher_one(tmp_path: Path):
    expected = await whole(tmp_path / "whole", budget_limit=50)
    spent = data(tmp_path / "whole/experiments/e/batch-summary.json")["cost_summary"]["total_spent"]
    limit = round(0.7 * spent, 6)
    file = project(tmp_path / "cut", runs_per_variation=3, budget_limit=limit)
    stopped = await run(file)
    assert stopped.exit == 4
    summary = data(file.parent / "batch-summary.json")
    assert (summary["status"], summary["halt_reason"]) == ("halted", "budget_limit")
    assert "Budget limit reached" in summary["message"]
    assert summary["cost_summary"]["total_spent"] <= limit
    assert summary["failed_runs"] == []
    assert summary["runs_pending"] > 0
    halted = [data(path)["status"] for path in file.parent.glob("runs/*/scenario-state.json")]
    assert set(halted) <= {"completed", "halted"}
    file.write_text(file.read_text().replace(f"budget_limit: {limit}", "budget_limit: 50"), encoding="utf-8")
    assert (await run(file)).exit == 0
    found, wanted = tree(file.parent), dict(expected)
    assert found == wanted


async def test_after_the_accounts_limit_the_same_command_ends_with_the_same_tree(tmp_path: Path):
    expected = await whole(tmp_path / "whole")
    file = project(tmp_path / "cut", runs_per_variation=3)
    quota = QuotaExhausted("429: you have used up your quota", fix="wait")
    stopped = await run(file, stopping(25, lambda: quota))
    assert stopped.exit == 7
    summary = data(file.parent / "batch-summary.json")
    assert (summary["status"], summary["halt_reason"]) == ("halted", "rate_limit")
    assert (await run(file)).exit == 0
    assert tree(file.parent) == expected


async def test_a_run_over_its_own_limit_is_halted_and_no_success(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2, variations=[], cost_per_run_limit=0.05)
    stopped = await run(file)
    assert stopped.exit == 4
    summary = data(file.parent / "batch-summary.json")
    assert (summary["status"], summary["halt_reason"]) == ("halted", "cost_per_run_limit")
    assert (summary["runs_completed"], summary["runs_failed"], summary["runs_pending"]) == (0, 2, 0)
    assert summary["failed_runs"][0] == {
        "run_id": "var-001-run-001", "error": "Run cost exceeds limit", "status": "cost_limit_exceeded",
    }  # fmt: skip
    assert summary["completion_rate"]["value"] == 0
    costs = data(file.parent / "batch-costs.json")
    assert all(each["cost"] <= 0.05 and each["success"] is False for each in costs["run_costs"])
    file.write_text(file.read_text().replace("0.05", "5"), encoding="utf-8")
    assert (await run(file)).exit == 0
    assert data(file.parent / "batch-summary.json")["runs_completed"] == 2


async def test_a_run_that_fails_is_listed_with_its_reason_and_taken_up_again(tmp_path: Path):
    file = project(tmp_path, runs_per_variation=2)
    refused = RequestRefused("400: no such thing", status=400)
    assert (await run(file, stopping(9, lambda: refused))).exit == 3
    summary = data(file.parent / "batch-summary.json")
    assert (summary["status"], summary["runs_failed"]) == ("completed_with_failures", 1)
    [failed] = summary["failed_runs"]
    assert failed["status"] == "failed"
    assert "400" in failed["error"]
    log = (file.parent / "runs" / failed["run_id"] / "scenario.log").read_text()
    assert "ERROR" in log
    assert data(file.parent / "runs" / failed["run_id"] / "scenario-state.json")["status"] == "failed"
    assert (await run(file, stopping(1, lambda: refused))).exit == 3
    assert [each["run_id"] for each in data(file.parent / "batch-summary.json")["failed_runs"]] == [
        failed["run_id"]
    ]
    patterns = data(file.parent / "analysis/patterns.json")
    assert patterns["failure_modes"][0]["examples"] == [failed["run_id"]]
    assert patterns["success_rate"] == 0.75
    assert (await run(file)).exit == 0
    assert data(file.parent / "batch-summary.json")["failed_runs"] == []


async def test_a_run_that_takes_too_long_is_stopped_and_listed_and_no_other_is(tmp_path: Path):
    file = project(tmp_path, variations=[], runs_per_variation=3, timeout_per_run=1)
    inner = cast_of(world)

    async def answer(call: Call) -> Any:
        if call.trial.endswith("r2"):
            await asyncio.sleep(60)
        return inner._answer_to(call)

    began = time.monotonic()
    assert (await run(file, Scripted(answer))).exit == 3
    assert time.monotonic() - began < 30
    summary = data(file.parent / "batch-summary.json")
    assert summary["failed_runs"] == [
        {"run_id": "var-001-run-002", "error": "the trial took longer than 1.0 s", "status": "failed"}
    ]
    assert summary["runs_completed"] == 2
    assert "ERROR   run timed out" in (file.parent / "runs/var-001-run-002/scenario.log").read_text()
    assert (await run(file)).exit == 0


@pytest.mark.parametrize("wide", [1, 3])
async def test_so_many_runs_are_side_by_side_as_max_parallel_says(tmp_path: Path, wide: int):
    file = project(tmp_path, variations=[], runs_per_variation=6, max_parallel=wide)
    inner = cast_of(world)

    async def answer(call: Call) -> Any:
        await asyncio.sleep(0.002)
        return inner._answer_to(call)

    assert (await run(file, Scripted(answer))).exit == 0
    with Archive(file.parent) as archive:
        spans = [(state.started_at or 0, state.ended_at or 0) for state in archive.trials()]
    assert max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) == wide


async def test_why_a_batch_halted_is_known_and_not_guessed_from_words(tmp_path: Path):
    """The message has `rate`, `budget` and `quota` in it, and is about none of them."""
    file = project(tmp_path, runs_per_variation=12, variations=[], max_parallel=1)
    refused = RequestRefused(
        "400: `temperature` and the thinking budget are separate from any quotation", status=400
    )
    assert (await run(file, Scripted(lambda _: refused))).exit != 0
    summary = data(file.parent / "batch-summary.json")
    assert summary["status"] == "halted"
    assert "equal failures in a row" in summary["halt_reason"]


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
