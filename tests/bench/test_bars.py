"""The short form of every benchmark meets its bar on this machine, whatever else it is doing."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "name", ["engine", "live", "batches", "memory", "planning", "restart", "frames", "startup", "doors"]
)
def test_the_bars_are_met(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--short", name],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
