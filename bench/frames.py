"""Finished trials to a data frame of messages."""

import asyncio
import tempfile
from pathlib import Path

import trialrun as tr
from bench.common import Stopwatch, from_memory, is_short, report, run, study


def main() -> None:
    trials = 1_000 if is_short() else 10_000
    with tempfile.TemporaryDirectory() as folder:
        plan = study(Path(folder), trials=trials, turns=3, open_trials=500)
        asyncio.run(run(plan, from_memory()))
        results = tr.load(plan.folder)
        results.messages()
        watch = Stopwatch()
        frame = results.messages()
        report(f"{trials:,} finished trials to a frame of {len(frame):,} messages", *watch.felt(), 0.5)


if __name__ == "__main__":
    main()
