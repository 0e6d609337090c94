"""The two scripts of PatientHub's page, and their files."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Said
from trialrun.cli.entry import run
from trialrun.cli.scripts import batch_simulate, export_sessions

Script = Callable[..., Said]


SMALL = ("--num_runs", "2", "--max_turns", "3", "--seed", "42", "--lane", "rehearsal")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Script:
    """The two scripts by name, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    programs = {"batch_simulate": batch_simulate, "export": export_sessions}

    def call(name: str, *arguments: str) -> Said:
        capsys.readouterr()
        program = programs[name]
        code = run(arguments, program.command, program.CALLED)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*.json")}


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
