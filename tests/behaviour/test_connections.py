"""What is in flight is bounded by the study's limits, and by nothing that nobody stated."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import trialrun as tr
from tests.emulator.test_studies import Process
from trialrun.store.archive import Archive
from trialrun.testing.emulator import Emulator

STUDY: dict[str, Any] = {
    "study": "wide",
    "parties": {"host": {"model": "openai/gpt-4.1-mini", "prompt": "You are a host.", "max_tokens": 30}},
    "prices": {"openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6}},
    "budget_usd": 5,
}


async def test_calls_of_one_trial_side_by_side_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[float] = []

    async def aside(trial: Any, lab: Any) -> dict[str, object]:
        async def one(branch: Any) -> str:
            return (await branch.ask("host", "Hello.")).text

        began = time.monotonic()
        said = await lab.together(*[one] * 12)
        took.append(time.monotonic() - began)
        return {"said": len(said)}

    async with Emulator({"latency_s": 0.5}) as server:
        for name, value in server.settings("openai").items():
            monkeypatch.setenv(name, value)
        study = tr.study({**STUDY, "replicates": 1, "limits": {"open_trials": 1}}, procedure=aside)
        await asyncio.to_thread(tr.run, study, folder=tmp_path / "wide", progress=False)
    assert took[0] < 12 * 0.5 / 2, "one after another they would take twelve times half a second"


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))


def test_where_the_machine_grants_few_open_files_calls_wait_for_one_instead_of_failing(
    tmp_path: Path,
) -> None:
    talk = {
        "procedure": "conversation",
        "parties": {**STUDY["parties"], "guest": {**STUDY["parties"]["host"], "prompt": "You are a client."}},
        "settings": {"max_turns": 1},
        "replicates": 200,
        "limits": {"open_trials": 200},
    }
    file, folder = tmp_path / "study.json", tmp_path / "results"
    file.write_text(json.dumps({**STUDY, **talk}), encoding="utf-8")
    far = Process()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "trialrun", "run", str(file), "--folder", str(folder), "--json"],
            env={**os.environ, **far.settings},
            preexec_fn=few_files,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        far.end()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with Archive(folder) as archive:
        assert {call.status for call in archive.calls()} == {"settled"}
