"""The batch lane from the command line, against the emulator in this process's own thread."""

import re
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Trialrun
from tests.cli.far import Far
from trialrun.app.exits import Exit
from trialrun.testing.emulator import Emulator


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    far = Far()
    far.start()
    for name, value in far.emulator.settings("openai").items():
        monkeypatch.setenv(name, value)
    yield far.emulator
    far.stop()


@pytest.fixture
def batched(tmp_path: Path) -> str:
    text = SMALL.replace("replicates: 3", "replicates: 2\nlane: batch\nbatch: {poll_s: 0.1}")
    (tmp_path / "small.yaml").write_text(text, encoding="utf-8")
    return "small.yaml"


def test_a_study_ends_in_batches_with_the_ledger_that_the_provider_has(
    trialrun: Trialrun, batched: str, emulator: Emulator
):
    said = trialrun("run", batched, "--json")
    assert said.exit == Exit.DONE, said.out
    listed = trialrun("batch", "list", batched, "--json").json["batches"]
    assert {batch["stage"] for batch in listed} == {"closed"}
    assert sum(batch["requests"] for batch in listed) == 2 * 2 * 5
    assert f"{emulator.book.billed_usd:.6f}" == f"{float(said.json['money']['spent_usd']):.6f}"


def test_totals_that_differ_are_listed_and_the_doctor_has_a_note_of_them(
    trialrun: Trialrun, batched: str, emulator: Emulator
):
    emulator.follow({"batches": {"running_s": 0.1}, "faults": [{"fault": "other_totals", "nth": [1]}]})
    assert trialrun("run", batched, "--json").exit == Exit.DONE
    first, *others = trialrun("batch", "list", batched, "--json").json["batches"]
    assert first["totals"]["difference"] == {
        "replies": -1,
        "tokens_in": 1000,
        "tokens_out": None,
        "cost_usd": None,
    }
    assert first["totals"]["said"]["tokens_in"] == first["totals"]["settled"]["tokens_in"] + 1000
    assert all(not any(other["totals"]["difference"].values()) for other in others)
    assert "-1 reply, +1,000 input tokens" in re.sub(r"\s+", " ", trialrun("batch", "list", batched).out)
    checks = trialrun("doctor", batched, "--json").json["checks"]
    (note,) = [check for check in checks if check["name"].startswith("totals of batch")]
    assert note["health"] == "note"
    assert "+1,000 input tokens" in note["found"]


def test_detached_and_collected(trialrun: Trialrun, batched: str, emulator: Emulator):
    assert trialrun("run", batched, "--detach").exit == Exit.PARKED
    codes = [trialrun("collect", batched).exit]
    while codes[-1] == Exit.PARKED and len(codes) < 60:
        threading.Event().wait(0.1)
        codes.append(trialrun("collect", batched).exit)
    assert codes[-1] == Exit.DONE
    entries = [entry.call for entry in emulator.book if entry.call]
    assert len(entries) == len(set(entries)) == 20


def test_calls_that_are_out_in_a_batch_are_not_in_doubt(trialrun: Trialrun, batched: str, emulator: Emulator):
    trialrun("run", batched, "--detach")
    assert trialrun("doctor", batched, "--json").json["in_doubt"] == []
    assert trialrun("doctor", batched, "--confirm", "all", "0").exit == Exit.USAGE
    rows = trialrun("export", batched, "--table", "calls", "--format", "jsonl", "--out", "-").out
    assert '"status":"waiting"' in rows.replace(" ", "")


def test_what_is_collected_keeps_the_flags_that_it_was_run_with(
    trialrun: Trialrun, batched: str, emulator: Emulator
):
    flags = ("--replicates", "1", "--budget", "0.5", "--set", "settings.max_turns=1")
    assert trialrun("run", batched, *flags, "--detach").exit == Exit.PARKED
    said = trialrun("collect", batched, "--json")
    assert said.json["trials"]["planned"] == 2, "the file says 4"
    assert said.json["money"]["budget_usd"] == "0.5", "the file says 5"
    while said.exit == Exit.PARKED:
        threading.Event().wait(0.1)
        said = trialrun("collect", batched, "--json")
    assert said.exit == Exit.DONE
    assert len([entry for entry in emulator.book if entry.call]) == 2 * 3


def test_nothing_is_collected_of_what_never_ran(trialrun: Trialrun, batched: str, emulator: Emulator):
    said = trialrun("collect", batched)
    assert said.exit == Exit.USAGE
    assert "no results yet" in said.err
    assert not list(emulator.book)


def test_what_is_out_waits_for_a_batch_and_for_nobody(trialrun: Trialrun, batched: str, emulator: Emulator):
    out = trialrun("run", batched, "--detach").out
    assert "small: waiting for batches" in out
    assert "4 waiting for a batch" in out
    assert "held" in out
    assert "in doubt" not in out
    steps = trialrun("status", batched, "--json").json["next"]
    assert [step["command"] for step in steps] == [f"trialrun collect {batched}"]
    done = trialrun("run", batched)
    assert "20 calls answered" in done.err
    assert re.search(r"openai/\S+: a batch of \d+ calls, \w+", done.err), "where the batches stand"


def test_a_plan_says_what_batches_would_cost(trialrun: Trialrun, small: str):
    said = trialrun("plan", small)
    assert "batch" in said.out
    assert "waves" in said.out
    estimate = trialrun("plan", small, "--json").json["all_trials"]
    assert estimate["waves"]["low"] == 5, "two turns of two, and the judge"
    live, batch = estimate["cost_usd"], estimate["batch_cost_usd"]
    assert float(batch["high"]) == pytest.approx(float(live["high"]) / 2, abs=1e-6)
    assert "batch" in trialrun("plan", small, "--lane", "batch").out


def test_a_duration_that_is_none_is_refused(trialrun: Trialrun, small: str):
    said = trialrun("run", small, "--deadline", "soon")
    assert said.exit == Exit.USAGE
    assert "`6h`" in said.err


def test_a_batch_that_is_not_in_doubt_needs_no_decision(trialrun: Trialrun, batched: str, emulator: Emulator):
    assert trialrun("run", batched).exit == Exit.DONE
    listed = trialrun("batch", "list", batched, "--json").json["batches"]
    said = trialrun("batch", "resolve", batched, listed[0]["id"], "--as", "unbilled")
    assert said.exit == Exit.USAGE
    assert "not in doubt but closed" in said.err


def test_a_provider_without_batches_is_named_before_anything_is_spent(trialrun: Trialrun, small: str):
    text = Path(small).read_text(encoding="utf-8").replace("openai/gpt-4.1-mini", "ollama/some-model")
    Path(small).write_text(text, encoding="utf-8")
    said = trialrun("run", small, "--lane", "batch")
    assert said.exit == Exit.USAGE
    assert "ollama" in said.err
