"""The command line as a function, and small studies to try it on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trialrun.cli.entry import run

SMALL = """\
study: small
question: Does it matter how one is greeted?
procedure: conversation
parties:
  host:
    model: openai/gpt-5-mini
    prompt: "You are a host. {{ manner }} Speak in one sentence."
    values: {manner: ""}
    max_tokens: 200
  guest:
    model: openai/gpt-4.1-mini
    prompt: You are a client who came to visit. Speak in one sentence.
    max_tokens: 100
factors:
  manner:
    levels:
      warm: {parties.host.values.manner: You are warm.}
      cool: {parties.host.values.manner: You are cool and distant.}
replicates: 3
settings: {max_turns: 2}
judges:
  pleased:
    model: openai/gpt-5-mini
    question: Is the guest pleased?
    labels: ["yes", "no"]
    max_tokens: 300
measures: [pleased, guest.words]
budget_usd: 5
seed: 3
prices:
  openai/gpt-5-mini: {input: 0.25, output: 2.00}
  openai/gpt-4.1-mini: {input: 0.40, output: 1.60}
"""
PROCEDURE = '''\
"""A procedure for tests."""


async def mine(trial, lab):
{body}
'''


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    exit: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.err == "", "with --json, stderr is silent"
        return json.loads(self.out)


Trialrun = Callable[..., Said]


@pytest.fixture
def trialrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trialrun:
    """A command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A study of 2 x 3 trials in the working folder."""
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    return "small.yaml"


@pytest.fixture
def with_procedure(tmp_path: Path) -> Callable[..., str]:
    """Writes a study whose procedure has this body, and gives its name."""

    def write(body: str, *, more: str = "", replicates: int = 2) -> str:
        indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
        (tmp_path / "mine.py").write_text(PROCEDURE.format(body=indented), encoding="utf-8")
        (tmp_path / "own.yaml").write_text(
            "study: own\nprocedure: ./mine.py:mine\n"
            "parties: {a: {model: openai/gpt-5-mini, prompt: You are calm., max_tokens: 60}}\n"
            f"prices: {{openai/gpt-5-mini: {{input: 1, output: 1}}}}\nreplicates: {replicates}\n{more}",
            encoding="utf-8",
        )
        return "own.yaml"

    return write


@contextmanager
def process(*arguments: str, cwd: Path, **more: Any) -> Generator["subprocess.Popen[str]"]:
    """The command line as a process of its own; killed at the end if it still runs."""
    started = subprocess.Popen(
        [sys.executable, "-m", "trialrun", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **more,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()
