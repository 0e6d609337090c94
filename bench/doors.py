"""What users wait for at the doors that they have, `trialrun run STUDY` and `tr.run`, with the price list that all get.

Each start is a process of its own, from the interpreter's first instruction, against one far end over HTTP; the one
with the least CPU counts. The first call: a study of two calls from nothing to its table. Again: a finished one, of
which nothing is left to run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import is_short, report, study_file
from bench.far_end import FarEnd, far_end

_ROUNDS = 3 if is_short() else 10
# On cores that are shared, the same work takes up to twice the CPU.
_BUSY = 2.0 if is_short() else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """What one process took from its beginning to its end."""

    cpu_s: float
    rss_mb: float


def main() -> None:
    calls = 200 if is_short() else 2_000
    with far_end() as server:
        for name, command in (
            ("trialrun run", ["-m", "trialrun", "run", "study.yaml", "-q"]),
            ("tr.run", ["-c", "import trialrun as tr; assert not tr.run('study.yaml', progress=False).exit"]),
        ):
            first = _first(server, command)
            report(f"{name}: CPU from the start through the first calls", first.cpu_s, "s CPU", 0.6 * _BUSY)
            report(f"{name}: the same, peak memory", first.rss_mb, "MB", 80)
            again = _again(server, command, calls)
            report(f"{name}: CPU of a finished study of {calls:,} calls", again.cpu_s, "s CPU", 0.5 * _BUSY)


def _first(server: FarEnd, command: Sequence[str]) -> Start:
    with tempfile.TemporaryDirectory() as folder:
        study_file(Path(folder), trials=2)
        return min((_from_nothing(server, command, folder) for _ in range(_ROUNDS)), key=_cpu)


def _from_nothing(server: FarEnd, command: Sequence[str], folder: str) -> Start:
    shutil.rmtree(Path(folder, "results"), ignore_errors=True)
    return start(server, command, folder, calls=2)


def _again(server: FarEnd, command: Sequence[str], calls: int) -> Start:
    with tempfile.TemporaryDirectory() as folder:
        study_file(Path(folder), trials=calls)
        start(server, command, folder, calls=calls)
        return min((start(server, command, folder, calls=0) for _ in range(_ROUNDS)), key=_cpu)


def start(server: FarEnd, command: Sequence[str], folder: str, *, calls: int) -> Start:
    """Run Python so, in this folder, and see that it made so many calls."""
    server.sums()
    env = {**os.environ, "OPENAI_BASE_URL": server.url(0.0), "OPENAI_API_KEY": "bench"}
    process = subprocess.Popen([sys.executable, *command], cwd=folder, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    assert server.sums().calls == calls
    return Start(cpu_s=used.ru_utime + used.ru_stime, rss_mb=used.ru_maxrss / 1024)


def _cpu(made: Start) -> float:
    return made.cpu_s


if __name__ == "__main__":
    main()
