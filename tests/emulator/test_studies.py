"""Trialrun itself against the emulator: what its ledger says is what the book says, over HTTP and between processes."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import trialrun as tr
from tests.emulator.support import CHAT, HELLO, ask
from trialrun.core.errors import UsageError
from trialrun.store.archive import Archive
from trialrun.testing.emulator import Emulator, read_book
from trialrun.testing.emulator.replay import Recorded

STUDY: dict[str, Any] = {
    "study": "small",
    "procedure": "conversation",
    "parties": {
        "host": {"model": "openai/gpt-4.1-mini", "prompt": "You are a host.", "max_tokens": 200},
        "guest": {
            "model": "openai/gpt-4.1-mini",
            "prompt": "You are a client who came to visit.",
            "max_tokens": 100,
        },
    },
    "replicates": 8,
    "settings": {"max_turns": 2},
    "measures": ["guest.words"],
    "budget_usd": 5,
    "prices": {"openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6}},
}
UNBILLED = ("dropped_before", "broken", "overloaded", "throttled", "gateway_timeout")
LOST = ("dropped_after", "truncated", "malformed", "wrong_type", "no_usage")
"""Billed, and the client cannot know how much."""
SEEN = ("empty", "length", "refusal", "slow_body")
SCRIPT = {
    "seed": 3,
    "prices": {"openai/gpt-4.1-mini": {"input": "0.4", "output": "1.6"}},
    "faults": [
        {"fault": fault, "nth": [number], "seconds": 0.2, "wait_s": 0.01}
        for number, fault in enumerate((*UNBILLED, *LOST, *SEEN), 2)
    ],
}


class Process:
    """`trialrun emulate` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trialrun", "emulate", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.settings: dict[str, str] = {}
        assert self.process.stdout
        while "GOOGLE_CLOUD_PROJECT" not in self.settings:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            name, _, value = line.removeprefix("export ").strip().partition("=")
            self.settings[name] = value

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=20)
        return self.process.returncode, out


def test_after_every_fault_the_ledger_is_the_book_and_the_rest_is_known_to_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script, book = tmp_path / "script.json", tmp_path / "book.jsonl"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    server = Process("--script", str(script), "--book", str(book))
    try:
        for name, value in server.settings.items():
            monkeypatch.setenv(name, value)
        tr.run(tr.study(STUDY), folder=tmp_path / "results", progress=False)
        url = server.settings["OPENAI_BASE_URL"].removesuffix("/openai/v1")
        with urllib.request.urlopen(f"{url}/__stats") as response:
            stats = json.load(response)
    finally:
        code, out = server.end()
    assert code == 0
    assert "openai/gpt-4.1-mini" in out
    entries = read_book(book)
    assert {entry.outcome for entry in entries} == {"answered", *UNBILLED, *LOST, *SEEN}
    billed = sum((entry.cost_usd or Decimal(0) for entry in entries), Decimal(0))
    lost = [entry for entry in entries if entry.outcome in LOST]
    assert Decimal(stats["total"]["cost_usd"]) == billed
    assert all(entry.is_billed == (entry.outcome not in UNBILLED) for entry in entries)
    with Archive(tmp_path / "results") as archive:
        total = archive.total()
    assert total.spent_usd == billed - sum((entry.cost_usd or Decimal(0) for entry in lost), Decimal(0))
    # A dropped connection and a proxy that gave up look the same to the client, billed or not.
    assert total.doubts + total.unknown_costs == len(lost) + 2


async def test_a_recorded_study_answers_its_own_questions(tmp_path: Path):
    folder = tmp_path / "results"
    tr.run(tr.study(STUDY), lane="rehearsal", folder=folder, progress=False)
    with Archive(folder) as archive:
        rows = [row for row in archive.calls() if row.at]
        requests = [archive.request_of(row.trial, row.at) for row in rows]
        texts = archive.texts(row.text for row in rows)
    async with Emulator(source=Recorded(folder)) as server:
        for row, request in zip(rows, requests, strict=True):
            messages = [{"role": message.role, "content": message.text} for message in request.messages]
            reply = await ask(server, body={**CHAT, "messages": messages})
            assert reply
            assert reply.status == 200, reply.body
            choice = reply.json["choices"][0]
            assert choice["message"]["content"] == texts[row.text]
            assert reply.json["usage"]["completion_tokens"] == row.tokens_out
        unknown = await ask(server, body={**CHAT, "messages": [HELLO]})
        assert unknown
        assert unknown.status == 400
        assert "No reply to this request is recorded" in unknown.json["error"]["message"]


def test_a_folder_without_replies_is_said(tmp_path: Path):
    study = {**STUDY, "replicates": 1}
    tr.run(tr.study(study), lane="rehearsal", folder=tmp_path / "one", progress=False)
    assert Recorded(tmp_path / "one")
    with pytest.raises((UsageError, tr.TrialrunError)):
        Recorded(tmp_path / "none")


def test_a_program_reads_the_address_from_the_first_line_and_the_sums_from_the_rest(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-m", "trialrun", "emulate", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        base = told["settings"]["OPENAI_BASE_URL"]
        assert base.startswith(told["url"])
        assert set(told["settings"]) >= {"ANTHROPIC_BASE_URL", "GEMINI_BASE_URL", "VERTEX_BASE_URL"}
        headers = {"authorization": "Bearer any", "content-type": "application/json"}
        request = urllib.request.Request(f"{base}/chat/completions", json.dumps(CHAT).encode(), headers)
        with urllib.request.urlopen(request) as response:
            assert json.load(response)["choices"]
        with urllib.request.urlopen(told["book"]) as response:
            assert json.loads(response.readline())["outcome"] == "answered"
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    sums = json.loads(out)
    assert (sums["arrived"], sums["exit"], process.returncode, err) == (1, 0, 0, "")


def test_the_command_says_what_is_wrong_with_a_script_before_it_listens(tmp_path: Path):
    script = tmp_path / "script.yaml"
    script.write_text("faults: [{fault: brokn}]\n", encoding="utf-8")
    command = [sys.executable, "-m", "trialrun", "emulate", "--json", "--script", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=os.environ)
    said = json.loads(ran.stdout)
    assert said["exit"] == ran.returncode == 2
    assert "did you mean `broken`?" in said["error"]["fix"]
    assert str(script) in said["error"]["where"]
