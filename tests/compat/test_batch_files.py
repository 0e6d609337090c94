"""Batches as files, where things go wrong: two processes at once, lost replies, kills, partial results.

The well-behaved walk, provider by provider, is `docs/batch-files.md`, which a test runs from top to bottom.
"""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.conftest import Trialrun, process, trialrun
from tests.cli.far import Far
from trialrun.app.exits import Exit
from trialrun.compat.batch_files.tracking import Ledger
from trialrun.testing.emulator import Emulator

__all__ = ["trialrun"]
QUICK = {"validating_s": 0.05, "queued_s": 0.05, "running_s": 0.1, "finalizing_s": 0.05}
MODELS = {
    "openai": "gpt-4.1-mini",
    "claude": "claude-haiku-4-5",
    "gemini": "gemini-2.5-flash",
}
OTHERS = {"groq": "llama-3.3-70b-versatile", "xai": "grok-4-fast"}
"""Those that take OpenAI's lines."""


@contextmanager
def far_end(
    monkeypatch: pytest.MonkeyPatch, *faults: Mapping[str, object], **batches: object
) -> Generator[Emulator]:
    """A provider where these things go wrong, and the environment that leads there."""
    far = Far({"batches": {**QUICK, **batches}, "faults": list(faults)})
    far.start()
    for name, value in far.emulator.settings(
        "openai", "anthropic", "gemini", "vertex", "groq", "xai"
    ).items():
        monkeypatch.setenv(name, value)
    try:
        yield far.emulator
    finally:
        far.stop()


@pytest.fixture
def create(trialrun: Trialrun, tmp_path: Path) -> Callable[..., str]:
    """Writes a request file of so many questions, and gives its name."""

    def made(name: str = "some", *, provider: str = "openai", count: int = 4) -> str:
        (tmp_path / "questions.txt").write_text("".join(f"Is number {n} odd?\n" for n in range(count)))
        arguments = ("--provider", provider, "--model", {**MODELS, **OTHERS}[provider], "--max-tokens", "50")
        said = trialrun(
            "batch", "create", *arguments, "--questions", "questions.txt", "--output", f"{name}.jsonl"
        )
        assert said.exit == Exit.DONE, said.err
        return f"{name}.jsonl"

    return made


@pytest.mark.parametrize("provider", OTHERS)
def test_those_that_take_openai_s_lines_go_the_same_way(
    trialrun: Trialrun,
    create: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
):
    file = create(provider=provider)
    with far_end(monkeypatch) as emulator:
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--batch-id", file, "--interval", "0.05", "--json")
        assert said.exit == Exit.DONE, said.out
        assert len([entry for entry in emulator.book if entry.provider == provider]) == 4
    trialrun("batch", "process", "--input", "results/some_results.jsonl", "--output", "analysis.json")
    document = json.loads((tmp_path / "analysis.json").read_text())
    assert document["total_questions"] == 4
    assert document["total_tokens"]["output"] > 0
    assert set(document["unanswered"].values()) <= {"the answer was cut"}, "every line was read"
    assert document["detailed_results"][0]["custom_ids"] == ["question_1_pressure_0"]


def tracked(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "batch_tracking.json").read_text())["batches"]


def made_at(far: Emulator) -> int:
    return len(cast("list[object]", far.overview()["batches"]))


def asked(far: Emulator, step: str) -> int:
    """How often a step was asked for there."""
    return cast("dict[str, int]", far.overview()["asked"]).get(step, 0)


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def side_by_side(folder: Path, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Run these in processes of their own that begin together. Gives each exit code, and what it said."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "trialrun", *arguments],
            cwd=folder,
            env={**os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for arguments in commands
    ]
    said = [each.communicate(timeout=120)[0] for each in running]
    return [(each.returncode, text) for each, text in zip(running, said, strict=True)]


# --- two processes at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", MODELS)
def test_the_same_requests_are_submitted_once_though_several_processes_do_it(
    create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    with far_end(monkeypatch) as far:
        file = create(provider=provider)
        ended = side_by_side(tmp_path, *[("batch", "submit", file)] * 4)
        assert made_at(far) == 1, "nothing is paid twice"
        assert sorted(code for code, _ in ended) == [Exit.DONE, *[Exit.USAGE] * 3], ended
        assert all("submitted already" in said for code, said in ended if code)
        (batch,) = tracked(tmp_path)
        assert batch["status"] == "pending"


def test_many_jobs_of_many_processes_are_all_in_the_tracking_file_and_in_the_log(
    create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch) as far:
        files = [create(f"jobs_{number}", count=number + 2) for number in range(3)]
        assert all(
            code == Exit.DONE for code, _ in side_by_side(tmp_path, *[("batch", "submit", f) for f in files])
        )
        assert made_at(far) == 3
        batches = tracked(tmp_path)
        assert sorted(batch["input"] for batch in batches) == files
        assert len({batch["batch_id"] for batch in batches}) == 3
        watching = [
            ("batch", "monitor", "--interval", "0.2", "--batch-id", batch["batch_id"]) for batch in batches
        ]
        assert {code for code, _ in side_by_side(tmp_path, *watching)} == {Exit.DONE}
        assert {batch["status"] for batch in tracked(tmp_path)} == {"completed"}
        assert all(batch["results"] and batch["answered"] == batch["requests"] for batch in tracked(tmp_path))
    with (tmp_path / "batch_log.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["time", "provider", "batch_id", "model", "event"]
    assert rows.count(rows[0]) == 1
    for event in ("created", "downloaded"):
        assert sorted(row[2] for row in rows if row[4] == event) == sorted(b["batch_id"] for b in batches)


def test_who_looks_at_a_batch_for_hours_takes_nothing_away_that_others_wrote_meanwhile(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch, {"fault": "odd_state", "state": "pondering"}, running_s=3) as far:
        file = create()
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        with process("batch", "monitor", "--interval", "0.1", cwd=tmp_path) as watching:
            until(lambda: asked(far, "openai look") >= 2)
            ledger = Ledger(tmp_path / "batch_tracking.json")
            ledger.note(ledger.read().batches[0], description="what another process wrote down meanwhile")
            assert watching.wait(60) == Exit.DONE
        (batch,) = tracked(tmp_path)
        assert batch["description"] == "what another process wrote down meanwhile"
        assert batch["status"] == "completed"


# --- a monitor that ends ---------------------------------------------------------------------------------------------


def test_a_batch_that_the_provider_does_not_know_ends_the_wait(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch):
        (tmp_path / "batch_tracking.json").write_text(
            json.dumps(
                {"batches": [{"provider": "openai", "batch_id": "batch_nobody-knows", "status": "pending"}]}
            )
        )
        file = create()
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--interval", "0.1", "--timeout", "30")
        assert said.exit == Exit.SOME_FAILED
        assert "batch_nobody-knows" in said.err
        assert "No batch found" in said.err
        assert (tmp_path / "results/some_results.jsonl").is_file(), "the others are waited for"


# --- what a submission leaves when it is cut ------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_a_batch_whose_creation_got_no_reply_is_found_and_not_made_twice(
    create: Callable[..., str],
    trialrun: Trialrun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    with far_end(monkeypatch, {"at": "create", "fault": "dropped_after", "times": 1}) as far:
        file = create(provider=provider)
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        assert made_at(far) == 1
        assert trialrun("batch", "monitor", "--interval", "0.1").exit == Exit.DONE
        assert {entry.call for entry in far.book} == {f"question_{n}_pressure_0" for n in range(1, 5)}


@pytest.mark.parametrize("decision", ["adopt", "again"])
def test_where_nothing_tells_whether_a_batch_was_made_a_person_decides(
    create: Callable[..., str],
    trialrun: Trialrun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    decision: str,
) -> None:
    with far_end(monkeypatch, {"at": "create", "fault": "dropped_after", "times": 1}) as far:
        file = create(provider="claude")
        said = trialrun("batch", "submit", file)
        assert said.exit != Exit.DONE
        (made,) = cast("list[dict[str, str]]", far.overview()["batches"])
        assert made["id"] in said.err
        assert trialrun("batch", "submit", file).exit == said.exit, "and nothing else does"
        assert made_at(far) == 1
        more = ("--adopt", made["id"]) if decision == "adopt" else ("--again",)
        assert trialrun("batch", "submit", file, *more).exit == Exit.DONE
        assert made_at(far) == (1 if decision == "adopt" else 2)
        assert trialrun("batch", "monitor", "--interval", "0.1").exit == Exit.DONE


def test_a_submission_that_is_killed_goes_on_where_it_was(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch, {"at": "create", "fault": "silence", "seconds": 60, "times": 1}) as far:
        file = create()
        with process("batch", "submit", file, cwd=tmp_path) as cut:
            until(lambda: asked(far, "openai create") == 1 or cut.poll() is not None)
            cut.kill()
        assert trialrun("batch", "submit").exit == Exit.DONE, "what was cut is submitted without being named"
        assert made_at(far) == 1
        (batch,) = tracked(tmp_path)
        assert batch["status"] == "pending"
        assert asked(far, "openai upload") == 1


# --- results that are not all there ---------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", MODELS)
def test_what_a_batch_had_done_when_it_expired_is_downloaded_with_its_errors(
    create: Callable[..., str],
    trialrun: Trialrun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    with far_end(monkeypatch, {"fault": "expired", "keep": 0.5}) as far:
        file = create(provider=provider, count=8)
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--interval", "0.1")
        assert said.exit == Exit.SOME_FAILED
        (batch,) = tracked(tmp_path)
        assert batch["status"] == ("completed" if provider == "claude" else "expired"), (
            "its only word is `ended`"
        )
        done = far.book.total.billed
        assert 0 < done < 8
        assert (
            batch["answered"]
            == len((tmp_path / "results/some_results.jsonl").read_text().splitlines())
            == done
        )
        assert float(batch["spent_usd"]) == pytest.approx(float(far.book.billed_usd))
        said = trialrun(
            "batch",
            "retry",
            "--input",
            file,
            "--results",
            "results/some_results.jsonl",
            "--output",
            "rest.jsonl",
        )
        assert said.exit == Exit.DONE
        assert len((tmp_path / "rest.jsonl").read_text().splitlines()) == 8 - done


def test_a_running_batch_gives_nothing_even_by_force_and_a_cancelled_one_what_it_has(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch, {"fault": "stalled", "keep": 0.5}) as far:
        file = create()
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        time.sleep(0.5)
        target = ("--batch-id", file, "--output", "partial.jsonl", "--force")
        assert trialrun("batch", "download", *target).exit == Exit.PARKED
        assert not (tmp_path / "partial.jsonl").exists()
        assert trialrun("batch", "cancel", "--batch-id", file).exit in (Exit.DONE, Exit.PARKED)
        codes = [trialrun("batch", "download", *target).exit]
        while codes[-1] == Exit.PARKED and len(codes) < 100:
            time.sleep(0.1)
            codes.append(trialrun("batch", "download", *target).exit)
        assert codes[-1] == Exit.SOME_FAILED
        assert len((tmp_path / "partial.jsonl").read_text().splitlines()) == 2
        assert len((tmp_path / "partial.errors.jsonl").read_text().splitlines()) == 2
        assert far.book.total.billed == 2


def test_a_batch_with_only_an_error_file_has_its_errors_downloaded(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_end(monkeypatch, {"at": "line", "fault": "refused"}):
        assert trialrun("batch", "submit", create()).exit == Exit.DONE
        assert trialrun("batch", "monitor", "--interval", "0.1").exit == Exit.SOME_FAILED
        assert (tmp_path / "results/some_results.jsonl").read_text() == ""
        assert len((tmp_path / "results/some_results.errors.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "fault",
    [{"fault": "invalid", "errors": 2}, {"fault": "invalid", "errors": 0}, {"fault": "gone", "seconds": 0}],
)
def test_a_batch_without_any_result_ends_the_wait_with_the_reason(
    create: Callable[..., str],
    trialrun: Trialrun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, object],
) -> None:
    with far_end(monkeypatch, fault):
        assert trialrun("batch", "submit", create()).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--interval", "0.1", "--timeout", "20")
        assert said.exit == Exit.SOME_FAILED, said
        (batch,) = tracked(tmp_path)
        assert batch["status"] == ("gone" if fault["fault"] == "gone" else "failed")
        if fault.get("errors"):
            assert "problem" in said.out


def test_a_download_that_breaks_off_begins_anew(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [
        {"at": "download", "fault": fault, "times": 1, "keep": 0.4} for fault in ("truncated", "bad_gateway")
    ]
    with far_end(monkeypatch, *broken):
        assert trialrun("batch", "submit", create(count=30)).exit == Exit.DONE
        assert trialrun("batch", "monitor", "--interval", "0.1").exit == Exit.DONE
        assert len((tmp_path / "results/some_results.jsonl").read_text().splitlines()) == 30
        assert not list(tmp_path.rglob("*.partial"))


def test_foreign_and_doubled_lines_are_kept_apart(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = [
        {"fault": "foreign", "nth": [1]},
        {"fault": "duplicate", "nth": [2]},
        {"fault": "missing", "nth": [3]},
    ]
    with far_end(monkeypatch, *strange):
        assert trialrun("batch", "submit", create(count=6)).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--interval", "0.1", "--json")
        assert said.exit == Exit.SOME_FAILED
        (found,) = said.json["batches"]
        assert (found["counts"]["foreign"], found["counts"]["duplicate"], found["missing"]) == (1, 1, 1)
        assert len((tmp_path / "results/some_results.jsonl").read_text().splitlines()) == 5
        assert len((tmp_path / "results/some_results.others.jsonl").read_text().splitlines()) == 2


# --- who is told ----------------------------------------------------------------------------------------------------


def test_results_that_were_written_to_two_places_are_the_batch_s_in_both(
    trialrun: Trialrun, create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = create()
    with far_end(monkeypatch):
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        assert trialrun("batch", "monitor", "--batch-id", file, "--interval", "0.05").exit == Exit.DONE
        said = trialrun("batch", "download", "--batch-id", file, "--output", "again.jsonl")
        assert said.exit == Exit.DONE
    for place in ("results/some_results.jsonl", "again.jsonl"):
        trialrun("batch", "process", "--input", place, "--output", "analysis.json")
        document = json.loads((tmp_path / "analysis.json").read_text())
        assert document["cost_usd"]["answers"] is not None, place
        assert document["detailed_results"][0]["question"] == "Is number 0 odd?", place


def test_a_running_batch_of_xai_hands_out_what_it_has_by_force(
    trialrun: Trialrun, create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = create(provider="xai", count=10)
    with far_end(monkeypatch, {"fault": "stalled", "keep": 0.4}, expires_s=60):
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        time.sleep(0.5)
        arguments = ("batch", "download", "--batch-id", file, "--output", "part.jsonl")
        assert trialrun(*arguments).exit == Exit.PARKED
        assert not (tmp_path / "part.jsonl").exists()
        said = trialrun(*arguments, "--force", "--json")
        assert said.exit == Exit.PARKED, "more will come"
        assert said.json["counts"]["answered"] == 4
        assert said.json["is_partial"]
        assert len((tmp_path / "part.jsonl").read_text().splitlines()) == 4
