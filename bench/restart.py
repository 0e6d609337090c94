"""Starting again on a finished study: nothing is asked, and the user is told at once."""

import asyncio
import sys
import tempfile
from pathlib import Path

from bench.common import from_memory, is_short, process_felt, report, run, study


def main() -> None:
    trials = 5_000 if is_short() else 100_000
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(study(Path(folder), trials=trials, turns=0, open_trials=500), from_memory()))
        seconds, unit, said = process_felt(["-m", "bench.restart", "--child", folder, str(trials)])
    assert said.strip() == "0"
    report(
        f"a new process finds {trials:,} finished trials finished", seconds, unit, 1.0 if is_short() else 2.0
    )


def _child(folder: str, trials: int) -> None:
    plan = study(Path(folder), trials=trials, turns=0, open_trials=500)
    ran = asyncio.run(run(plan, from_memory()))
    assert ran.live.done == trials
    sys.stdout.write(str(ran.live.calls))


if __name__ == "__main__":
    if "--child" in sys.argv:
        _child(sys.argv[-2], int(sys.argv[-1]))
    else:
        main()
