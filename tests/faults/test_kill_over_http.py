"""Kill it over HTTP: `trialrun run` by SIGKILL, against `trialrun emulate` in a process whose book no kill touches.

The long form, fifty kills: `./dev test -m long tests/faults/test_kill_over_http.py`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from tests.emulator.test_studies import Process
from tests.faults.test_kill import tables
from trialrun.store.archive import Archive
from trialrun.store.tables import CallAttempt
from trialrun.testing.emulator.book import Entry

OPEN, TURNS = 12, 3
PRICES = {"openai/gpt-5-mini": {"input": "0.25", "output": "2"}}
STUDY = {
    "study": "kill-me",
    "procedure": "conversation",
    "parties": {
        "asker": {
            "model": "openai/gpt-5-mini",
            "prompt": "Interview them about {{ topic }}.",
            "values": {"topic": "work"},
            "max_tokens": 60,
        },
        "teller": {
            "model": "openai/gpt-5-mini",
            "prompt": "You are a client. Tell about your day.",
            "max_tokens": 60,
        },
    },
    "factors": {"topic": {"parties.asker.values.topic": ["work", "sleep", "food"]}},
    "settings": {"max_turns": TURNS},
    "limits": {"open_trials": OPEN},
    "budget_usd": 50,
    "prices": PRICES,
    "seed": 7,
}
SCRIPT = {
    "latency_s": 0.02,
    "jitter_s": 0.015,
    "prices": PRICES,
    "faults": [
        {"fault": "dropped_after", "share": 0.04, "attempts": 1},
        {"fault": "throttled", "share": 0.04, "attempts": 1, "wait_s": 0.05},
    ],
}


class Far:
    """The emulator's process, and what it knows."""

    def __init__(self, script: Path) -> None:
        self._process = Process("--script", str(script))
        self.settings = self._process.settings
        self._url = self.settings["OPENAI_BASE_URL"].removesuffix("/openai/v1")

    def arrived(self) -> int:
        return json.loads(self._get("/__stats"))["total"]["requests"]

    def book(self) -> list[Entry]:
        return [msgspec.json.decode(line, type=Entry) for line in self._get("/__book").splitlines()]

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self._url + path) as response:
            return response.read()

    def end(self) -> None:
        self._process.end()


def start(file: Path, folder: Path, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "trialrun", "run", str(file), "--folder", str(folder), "--json"]
    return subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def to_the_end(file: Path, folder: Path, settings: Mapping[str, str]) -> None:
    child = start(file, folder, settings)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors.decode()


def settled(folder: Path) -> set[str]:
    """The replies that are in the journal, as the book names them."""
    if not (folder / "study.db").exists():
        return set()
    with Archive(folder) as archive:
        return {name_of(call) for call in archive.calls() if call.status == "settled"}


def name_of(call: CallAttempt) -> str:
    return call.request_id.removeprefix("req_")


def kill_and_resume(tmp_path: Path, *, kills: int, replicates: int, seed: int) -> None:
    file, script, folder = tmp_path / "study.json", tmp_path / "script.json", tmp_path / "killed"
    file.write_text(json.dumps({**STUDY, "replicates": replicates}), encoding="utf-8")
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    dice, calls = random.Random(seed), 3 * replicates * 2 * TURNS
    far = Far(script)
    try:
        for _ in range(kills):
            before, known = far.arrived(), settled(folder)
            child = start(file, folder, far.settings)
            target = before + dice.randrange(1, max(3, calls // kills))
            until = time.monotonic() + 60
            while far.arrived() < target and child.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(dice.random() * 0.03)
            child.kill()
            _, errors = child.communicate()
            assert child.returncode == -signal.SIGKILL, f"it ended before the last kill: {errors.decode()}"
            book = far.book()
            paid = {entry.request for entry in book if entry.request_id in known}
            again = [entry for entry in book[before:] if entry.request in paid]
            assert len(paid) == len(known)
            assert not again, f"settled calls were asked again: {again[:3]}"
        to_the_end(file, folder, far.settings)
        book = far.book()
    finally:
        far.end()

    with Archive(folder) as archive:
        rows, total = list(archive.calls()), archive.total()
    settled_ids = {name_of(row) for row in rows if row.status == "settled"}
    billed = [entry for entry in book if entry.is_billed]
    lost = [entry for entry in billed if entry.request_id not in settled_ids]
    # Every dollar of the book is settled to the last digit, or belongs to an attempt that is shown as in doubt.
    assert total.spent_usd == sum(
        (entry.cost_usd or Decimal(0) for entry in billed if entry.request_id in settled_ids), Decimal(0)
    )
    assert len(settled_ids) == calls
    doubtful = [row for row in rows if row.status == "in_doubt"]
    assert (
        len(lost) <= len(doubtful) <= OPEN * kills + sum(entry.outcome == "dropped_after" for entry in book)
    )
    assert total.held_usd == sum((row.ceiling_usd or Decimal(0) for row in doubtful), Decimal(0))
    assert sum((entry.cost_usd or Decimal(0) for entry in lost), Decimal(0)) <= total.held_usd
    assert any(entry.outcome == "dropped_after" for entry in book)

    far = Far(script)
    try:
        to_the_end(file, tmp_path / "whole", far.settings)
    finally:
        far.end()
    assert tables(folder) == tables(tmp_path / "whole")


def test_a_study_killed_over_http_settles_what_the_book_says_and_ends_like_an_unbroken_one(
    tmp_path: Path,
) -> None:
    kill_and_resume(tmp_path, kills=4, replicates=6, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_fifty_kills_over_http_pay_nothing_twice(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path, kills=25, replicates=30, seed=seed)
