"""Batches of Scenario Lab that are stopped by whatever and go on: the tree of an uninterrupted run, and why."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat.batches import project
from tests.compat.trees import data, run, tree, world
from tests.procedures.worlds import cast_of
from trialrun.app.clock import SystemClock
from trialrun.app.running import Control
from trialrun.core.calls import Call
from trialrun.core.errors import QuotaExhausted, RequestRefused
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted


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
