"""SIGKILL at random points of submit, wait, fetch and settle, with each provider's protocol over HTTP.

No request is paid twice, no result is lost, the ledger is what the provider bills, and the numbers are those of a run
that nothing happened to. The long form, many more kills: `./dev test -m long tests/faults/test_batch_kill.py`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.far import Far
from tests.faults.test_kill import tables
from trialrun.app.exits import Exit
from trialrun.cli.entry import run
from trialrun.core.packs import Pack, packs_in
from trialrun.store.archive import Archive
from trialrun.testing.emulator import Emulator

CHILD = Path(__file__).with_name("child_batches.py")
STUDY = """
study: kill-my-batches
procedure: conversation
parties:
  asker: {{model: {model}, prompt: "Interview them about {{{{ topic }}}}.", values: {{topic: work}}, max_tokens: 60}}
  teller: {{model: {model}, prompt: "You tell about your day.", max_tokens: 60}}
factors:
  topic: {{parties.asker.values.topic: [work, sleep, food]}}
measures: [teller.words]
replicates: {replicates}
settings: {{max_turns: 2}}
batch: {{requests: 5, poll_s: 20}}
budget_usd: 50
prices:
  {model}: {{input: 1, output: 5}}
seed: 7
"""
MODELS = {
    "openai": "openai/gpt-4.1-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "google/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
}
CALLS_A_TRIAL = 4
SCRIPT = {
    "resamples": False,
    "cache": False,
    "prices": {"*": {"input": 1, "output": 5}},
    "latency_s": 0.005,
    "batches": {"validating_s": 0.02, "queued_s": 0.02, "running_s": 0.08, "finalizing_s": 0.02},
}


@contextmanager
def far_end() -> Generator[Emulator]:
    far = Far(SCRIPT)
    far.start()
    try:
        yield far.emulator
    finally:
        far.stop()


def start(file: Path, folder: Path, far: Emulator, provider: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(file), str(folder)],
        stderr=subprocess.PIPE,
        env={**os.environ, **far.settings(provider)},
    )


def packs(folder: Path) -> list[Pack]:
    with Archive(folder) as archive:
        return list(packs_in(archive.facts_of("")).values())


def steps_asked(far: Emulator) -> int:
    """How many requests reached the batch API so far."""
    with urllib.request.urlopen(f"{far.url}/__batches") as seen:
        return sum(json.load(seen)["asked"].values())


def decide_like_a_person(folder: Path) -> None:
    """Somebody has looked at the provider's pages: a batch that is still in doubt after a whole run was never made."""
    for pack in packs(folder):
        if pack.stage == "doubted":
            assert run(["batch", "resolve", str(folder), pack.id, "--as", "unbilled"]) == 0


def run_to_its_end(file: Path, folder: Path, far: Emulator, provider: str) -> None:
    """Again and again, with a person's decision where one is needed."""
    for _ in range(10):
        child = start(file, folder, far, provider)
        _, errors = child.communicate(timeout=120)
        if child.returncode == Exit.DONE:
            return
        assert child.returncode == Exit.PARKED, errors.decode()
        decide_like_a_person(folder)
    raise AssertionError("it does not come to an end")


def kill_and_resume(tmp_path: Path, provider: str, *, kills: int, replicates: int, seed: int) -> Counter[str]:
    """Returns at which stages packs were when the process was killed."""
    model = MODELS[provider]
    file, folder, dice = tmp_path / "study.yaml", tmp_path / "killed", random.Random(seed)
    file.write_text(STUDY.format(model=model, replicates=replicates))
    calls = 3 * replicates * CALLS_A_TRIAL
    stages, killed = Counter[str](), 0
    with far_end() as far:
        for _ in range(kills):
            before = steps_asked(far)
            child = start(file, folder, far, provider)
            target, until = before + dice.randrange(1, 10), time.monotonic() + 20
            while steps_asked(far) < target and child.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(dice.random() * 0.05)
            child.kill()
            _, errors = child.communicate()
            if child.returncode == Exit.DONE:
                break
            if child.returncode != -signal.SIGKILL:
                assert child.returncode == Exit.PARKED, errors.decode()
                decide_like_a_person(folder)
                continue
            killed += 1
            stages.update(pack.stage for pack in packs(folder) if pack.is_open)
        run_to_its_end(file, folder, far, provider)
        billed = Counter(entry.call for entry in far.book if entry.is_billed)
        paid_usd = far.book.billed_usd

    assert killed > kills // 2, "it ended before it could be killed"
    with Archive(folder) as archive:
        settled = [call for call in archive.calls() if call.status == "settled"]
        total = archive.total()
    assert len(billed) == len(settled) == calls, "nothing is lost"
    assert set(billed.values()) == {1}, "nothing is paid twice"
    assert total.held_usd == 0
    assert total.spent_usd == pytest.approx(paid_usd, abs=Decimal("1e-9")), (
        "the ledger is the provider's book"
    )
    assert all(not pack.is_open for pack in packs(folder))

    whole = tmp_path / "whole"
    with far_end() as far:
        run_to_its_end(file, whole, far, provider)
    assert tables(folder) == tables(whole)
    return stages


@pytest.mark.parametrize("provider", MODELS)
def test_a_study_in_batches_killed_at_random_points_pays_nothing_twice_and_loses_nothing(
    tmp_path: Path, provider: str
) -> None:
    kill_and_resume(tmp_path, provider, kills=4, replicates=6, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("provider", MODELS)
def test_many_kills_meet_every_stage_of_a_batch(tmp_path: Path, provider: str) -> None:
    stages = kill_and_resume(tmp_path, provider, kills=30, replicates=40, seed=2)
    assert {"created"} < set(stages), stages
