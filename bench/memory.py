"""Peak memory of a run at two sizes, each in a process of its own: it must not grow with the number of trials."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.common import from_memory, is_short, peak_rss_mb, report, run, study


def main() -> None:
    small, large = (1_000, 10_000) if is_short() else (1_000, 100_000)
    few, many = _rss(small), _rss(large)
    report(f"peak memory at {large:,} trials over that at {small:,}", many / few, "times", 1.5)
    report(f"peak memory at {large:,} trials", many, "MB", 150)


def _rss(trials: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.memory", "--child", str(trials)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _child(trials: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = study(Path(folder), trials=trials, turns=0, open_trials=200)
        ran = asyncio.run(run(plan, from_memory()))
        assert ran.live.done == trials
    sys.stdout.write(str(peak_rss_mb()))


if __name__ == "__main__":
    if "--child" in sys.argv:
        _child(int(sys.argv[-1]))
    else:
        main()
