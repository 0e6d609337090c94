"""The engine's own CPU per call, everything on, with replies from memory, beside a bare journaling loop."""

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from bench.common import REPLY, Stopwatch, from_memory, is_short, report, run, study


def main() -> None:
    calls = 2_000 if is_short() else 20_000
    floor = min(asyncio.run(_bare(calls)) for _ in range(3))
    single = min(_ours(calls, turns=0, open_trials=1000) for _ in range(3))
    talks = min(_ours(calls, turns=5, open_trials=200) for _ in range(3))
    report("bare asyncio loop with a SQLite journal, per call", 1000 * floor, "ms CPU", 1.0)
    report("Trialrun, one call a trial, 1,000 open, per call", 1000 * single, "ms CPU", 0.33)
    report("Trialrun, ten calls a trial, 200 open, per call", 1000 * talks, "ms CPU", 0.33)


def _ours(calls: int, *, turns: int, open_trials: int) -> float:
    """CPU seconds per call of a run, planning and opening the folder included."""
    trials = calls // (2 * turns) if turns else calls
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        plan = study(Path(folder), trials=trials, turns=turns, open_trials=open_trials)
        ran = asyncio.run(run(plan, from_memory()))
        assert ran.live.calls == calls
        return watch.cpu_s() / calls


async def _bare(calls: int) -> float:
    """What a careful script does: ask, put the reply into a table, commit every 50 ms."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "journal.db", isolation_level=None)
        db.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE call (id INTEGER PRIMARY KEY, body TEXT, at REAL)"
        )
        waiting: list[tuple[int, str, float]] = []
        watch = Stopwatch()

        async def flush() -> None:
            while True:
                await asyncio.sleep(0.05)
                rows = waiting[:]
                waiting.clear()
                db.execute("BEGIN")
                db.executemany("INSERT INTO call VALUES (?, ?, ?)", rows)
                db.execute("COMMIT")

        numbers = iter(range(calls))

        async def worker() -> None:
            for number in numbers:
                await asyncio.sleep(0)
                waiting.append((number, REPLY + str(number), time.time()))

        async with asyncio.TaskGroup() as group:
            flushing = group.create_task(flush())
            async with asyncio.TaskGroup() as workers:
                for _ in range(1000):
                    workers.create_task(worker())
            await asyncio.sleep(0.06)
            flushing.cancel()
        cpu_s = watch.cpu_s()
        db.close()
        return cpu_s / calls


if __name__ == "__main__":
    main()
