"""docs/scenario-lab.md is run from top to bottom: its batch files, its commands against the emulator, its Python."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.far import Far
from trialrun.compat.scenario_lab.batch_file import BatchFile, VariationEntry
from trialrun.testing.emulator import Emulator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scenario-lab.md").read_text(encoding="utf-8")
RUNS = {"my-experiment": 40, "models": 80, "sensitivity": 40, "robustness": 50, "metric": 3}


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


@pytest.fixture(scope="module")
def far() -> Generator[Emulator]:
    far = Far({})
    far.start()
    yield far.emulator
    far.stop()


def shell(home: Path, script: str, far: Emulator) -> "subprocess.CompletedProcess[str]":
    """Run what stands on the page, with `trialrun` and `python` being ours."""
    own = home / "bin"
    own.mkdir(exist_ok=True)
    for name, module in (("trialrun", "-m trialrun "), ("python", "")):
        shim = own / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
        shim.chmod(0o755)
    environment = {**os.environ, **far.settings("openai", "anthropic"), "PATH": f"{own}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def home(far: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of somebody who wrote every file of the page and typed every command."""
    home = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "examples/scenarios", home / "scenarios")
    (home / "examples").mkdir()
    for name in ("batch_runner.py", "batch_analyzer.py"):
        shutil.copy(ROOT / "examples" / name, home / "examples")
    for text in blocks("yaml"):
        name = re.match(r"# (\S+)\n", text)
        assert name, "every file of the page says where it stands"
        file = home / name[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    done = shell(home, "\n".join(blocks("sh")), far)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n---\n{done.stderr[-4000:]}"
    return home


def data(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "runs"), RUNS.items())
def test_every_experiment_of_the_page_runs_to_its_end_and_is_analysed(home: Path, name: str, runs: int):
    folder = home / "experiments" / name
    summary = data(folder / "batch-summary.json")
    assert (summary["status"], summary["runs_completed"], summary["total_runs_planned"]) == (
        "completed", runs, runs,
    )  # fmt: skip
    assert summary["cost_summary"]["total_spent"] > 0
    report = (folder / "analysis/analysis-report.md").read_text()
    for heading in ("Overall", "Metrics over all completed runs", "Variations", "Cost efficiency"):
        assert f"## {heading}" in report
    assert data(folder / "analysis/metrics-analysis.json")["cooperation_level"]["count"] == runs


def test_the_experiments_say_what_they_are_for(home: Path):
    def patterns(name: str) -> Any:
        return data(home / "experiments" / name / "analysis/patterns.json")

    assert {each["against"] for each in patterns("models")["effects"]} == {"the other levels"}
    assert len({each["level"] for each in patterns("models")["effects"]}) == 4
    assert {each["factor"] for each in patterns("sensitivity")["effects"]} == {
        "regulator", "tech-company", "turns",
    }  # fmt: skip
    assert patterns("robustness")["effects"] == []
    assert any("nothing was varied" in note for note in patterns("robustness")["notes"])
    spread = data(home / "experiments/robustness/analysis/metrics-analysis.json")["cooperation_level"]
    assert spread["stdev"] > 0
    assert spread["low"] < spread["mean"] < spread["high"]


def test_the_python_of_the_page_runs(home: Path, far: Emulator):
    for number, code in enumerate(blocks("python")):
        for first in ("from trialrun.compat.batch_analyzer", "from batch_analyzer"):
            file = home / "examples" / f"page{number}.py"
            file.write_text(code.replace("from trialrun.compat.batch_analyzer", first), encoding="utf-8")
            done = shell(home, f"python examples/{file.name}", far)
            assert done.returncode == 0, done.stderr
            assert re.search(r"Average cooperation_level: \d\.\d\d\n", done.stdout)
            assert "Success rate: 100.0%" in done.stdout


def test_the_tree_that_is_shown_is_the_tree_that_is_written(home: Path):
    (shown,) = [text for text in blocks("") if "batch-summary.json" in text]
    names = re.findall(r"── (\S+?)(?:/| |$)", shown, re.MULTILINE)
    here = {path.name for path in (home / "experiments/my-experiment").rglob("*")}
    needs_talks = {"bilateral-001-ann_bob.md", "coalition-001-ann_bob_cy.md", "validation-001.md"}
    assert set(names) - here == needs_talks


def test_every_key_of_a_batch_file_is_on_the_page():
    for name in BatchFile.model_fields:
        assert f"`{name}`" in PAGE, name
    for name in VariationEntry.model_fields:
        assert f"{name}: " in PAGE or f"`{name}`" in PAGE, name
