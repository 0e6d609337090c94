"""Starting again on a finished study, as a user does: nothing is asked, and the table of its conditions is shown."""

import asyncio
import json
import tempfile
from pathlib import Path

from bench.common import from_memory, is_short, process_felt, report, study_file
from trialrun.app.running import run_study
from trialrun.app.studies import load


def main() -> None:
    trials = 5_000 if is_short() else 100_000
    with tempfile.TemporaryDirectory() as folder:
        file = study_file(Path(folder), trials=trials)
        ran = asyncio.run(run_study(load(file), route=lambda _: from_memory()))
        assert ran.live.calls == trials
        # No key is there, and no server: a call would end it.
        command = ["-m", "trialrun", "run", str(file), "--json"]
        seconds, unit, said = min(process_felt(command) for _ in range(3))
    shown = json.loads(said)
    assert shown["exit"] == 0
    assert shown["trials"]["done"] == trials
    report(
        f"`trialrun run` finds {trials:,} finished trials finished", seconds, unit, 1.0 if is_short() else 2.0
    )


if __name__ == "__main__":
    main()
