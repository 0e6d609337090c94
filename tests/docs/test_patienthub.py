"""docs/patienthub.md runs as a reader would run it: its commands, its Python, its frames and its plot.

The page's Python asks real models; here their address is an emulator's, given as `OPENAI_BASE_URL`.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trialrun.compat.patienthub.batch_file import KEYS
from trialrun.compat.patienthub.export import SESSION_COLUMNS, STATE_COLUMNS, TURN_COLUMNS
from trialrun.procedures.therapy.registry import METHODS
from trialrun.testing.emulator import Emulator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/patienthub.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with `examples/` in it, and the page's batch file."""
    (tmp_path / "examples").mkdir()
    for name in ("batch_simulate.py", "export.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path / "examples")
    (text,) = blocks("yaml")
    (tmp_path / "batch_config.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def python(home: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "MPLBACKEND": "Agg", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def commands() -> Iterator[list[str]]:
    shown = next(text for text in blocks("") if text.startswith("$ "))
    for line in shown.splitlines():
        words = shlex.split(line.removeprefix("$ "))
        yield ["-m", "trialrun", *words[1:]] if words[0] == "trialrun" else words[1:]


def test_the_commands_of_the_page_run_one_after_another(home: Path):
    for words in commands():
        ran = python(home, *words)
        assert ran.returncode == 0, (words, ran.stderr)
    assert (home / "results.csv").read_text().startswith(",".join(SESSION_COLUMNS))
    assert (home / "messages.csv").read_text().startswith(",".join(TURN_COLUMNS))
    assert len(list((home / "outputs/batch/trial.rehearsal").glob("*_run?.json"))) == 3 * 2 * 2


async def test_the_python_of_the_page_runs_against_a_server_at_the_given_address(home: Path):
    async with Emulator() as emulator:
        for code in blocks("python"):
            ran = await asyncio.to_thread(python, home, "-c", code, **emulator.settings("openai"))
            assert ran.returncode == 0, ran.stderr
            if "run_batch" in code:
                assert "Completed: 6/6" in ran.stdout
            else:
                assert re.search(r"^Mara\s+4\.0\s+8\.0", ran.stdout, re.MULTILINE), "means by patient"
    assert (home / "turns_comparison.png").stat().st_size > 1000


def test_every_option_key_column_and_type_is_on_the_page():
    for name in (*KEYS, *SESSION_COLUMNS, *TURN_COLUMNS, *STATE_COLUMNS):
        assert f"`{name}`" in PAGE or f"`--{name}`" in PAGE or f"{name}: " in PAGE, name
    for ways in METHODS.values():
        assert all(f"`{name}`" in PAGE for name in ways if name != "scripted")
