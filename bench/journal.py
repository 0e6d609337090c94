"""The journal by itself: CPU per fact, commits that share an fsync, and reading 100,000 trials back."""

import asyncio
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from bench.common import Stopwatch, is_short, report, timed
from trialrun.app.clock import SystemClock
from trialrun.core import facts as f
from trialrun.core.calls import Usage
from trialrun.core.identity import text_hash
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal

SYSTEM = "You are a careful participant in a study of conversations. " * 8
FACTS_PER_CALL = 4
COMMITS_PER_CALL = 2


class NoJournal:
    """Takes everything and keeps nothing: what the bench itself costs."""

    def append(
        self, trial: str, facts: Sequence[f.TrialFact], texts: Mapping[str, str] | None = None
    ) -> None:
        pass

    async def commit(self) -> None:
        await asyncio.sleep(0)


async def trial(
    journal: SqliteJournal | NoJournal, number: int, *, calls: int, latency_s: float, busy_s: float
) -> None:
    """A conversation: each call is held, sent, settled and said, with three texts of which one is known."""
    condition = f"c{number % 40}-abcdefghijkl"
    name = f"{condition}-r{number // 40}"
    journal.append(
        name,
        [
            f.Started(
                condition=condition, levels={"tone": "warm", "model": f"m{number % 40}"}, replicate=number // 40,
                block=number // 40, planned=number, actual=number, spec="0" * 32, session="s",
            )
        ],
    )  # fmt: skip
    draw = random.Random(number)
    for turn in range(1, calls + 1):
        at = str(turn)
        asked = f"question {name} {turn} " + "q" * 300
        delta = f.RequestDelta(
            add=[("system", text_hash(SYSTEM)), ("user", text_hash(asked))], max_tokens=1024
        )
        journal.append(name, [f.TurnBegan(at=f"t{at}", turn=turn)])
        journal.append(
            name,
            [
                f.Held(
                    at=at, attempt=1, model="openai/gpt-5-mini", party="therapist", fingerprint="f" * 32,
                    ceiling_usd=Decimal("0.0123"), turn=turn, request=delta,
                )
            ],
            {text_hash(SYSTEM): SYSTEM, text_hash(asked): asked},
        )  # fmt: skip
        await journal.commit()
        if latency_s:
            await asyncio.sleep(latency_s * draw.uniform(0.5, 1.5))
        until = time.perf_counter() + busy_s
        while time.perf_counter() < until:
            pass
        said, raw = f"answer {name} {turn} " + "a" * 300, f'{{"id": "{name}{turn}", "usage": {{}}' + "r" * 300
        journal.append(
            name,
            [
                f.Settled(
                    at=at, attempt=1, cost_usd=Decimal("0.00123"), usage=Usage(tokens_in=100, tokens_out=50),
                    text=text_hash(said), raw=text_hash(raw), model="gpt-5-mini-2025-08-07",
                    request_id="req_" + "x" * 24, latency_s=0.812345,
                )
            ],
            {text_hash(said): said, text_hash(raw): raw},
        )  # fmt: skip
        await journal.commit()
        journal.append(
            name, [f.Said(at=f"s{at}", turn=turn, party="therapist", text=text_hash(said), call=at)]
        )
    journal.append(name, [f.Finished(values={"turns": calls}, end_reason="finished")])
    await journal.commit()


async def study(
    journal: SqliteJournal | NoJournal,
    *,
    trials: int,
    side_by_side: int,
    calls: int,
    latency_s: float = 0.0,
    busy_s: float = 0.0,
) -> Stopwatch:
    """All trials, so many at a time. Gives what they took, without opening and closing."""
    numbers = iter(range(trials))

    async def worker() -> None:
        for number in numbers:
            await trial(journal, number, calls=calls, latency_s=latency_s, busy_s=busy_s)

    watch = Stopwatch()
    async with asyncio.TaskGroup() as group:
        for _ in range(side_by_side):
            group.create_task(worker())
    return Stopwatch(cpu=watch.cpu_s(), wall=watch.wall_s())


def measured(
    trials: int, side_by_side: int, calls: int = 5, latency_s: float = 0.0, busy_s: float = 0.0
) -> tuple[float, float, int]:
    """CPU and wall seconds that the journal adds, and the number of batches that it wrote."""

    async def run(journal: SqliteJournal | NoJournal) -> Stopwatch:
        return await study(
            journal, trials=trials, side_by_side=side_by_side, calls=calls, latency_s=latency_s, busy_s=busy_s
        )

    async def both() -> tuple[float, float, int]:
        alone = await run(NoJournal())
        with tempfile.TemporaryDirectory() as folder:
            journal = SqliteJournal.open(Path(folder), clock=SystemClock())
            together = await run(journal)
            await journal.close()
        return together.cpu - alone.cpu, together.wall - alone.wall, journal.batches

    return asyncio.run(both())


def writing() -> None:
    scale = 10 if is_short() else 1
    for side_by_side, most, bar in ((1, 300, 200.0), (50, 3000, 30.0), (1000, 6000, 20.0)):
        trials = max(side_by_side, most // scale)
        cpu_s, _, batches = measured(trials, side_by_side)
        facts, commits = trials * (2 + 5 * FACTS_PER_CALL), trials * (1 + 5 * COMMITS_PER_CALL)
        report(f"journal: own CPU per fact, {side_by_side} waiting", cpu_s / facts * 1e6, "us", bar)
        report(
            f"journal: commits per fsync, {side_by_side} waiting",
            commits / batches,
            "commits",
            side_by_side / 2,
            at_least=True,
        )
    for side_by_side, latency_s, busy_s, bar in ((50, 0.1, 0.0002, 20.0), (1000, 1.0, 0.0002, 50.0)):
        calls = 6 if is_short() else 20
        cpu_s, wall_s, _ = measured(side_by_side, side_by_side, calls, latency_s, busy_s)
        what = f"{side_by_side} open, replies after {latency_s:g} s, loop busy {busy_s * 1e3:g} ms a call"
        report(f"journal: own CPU per call, {what}", cpu_s / side_by_side / calls * 1e6, "us", 300)
        report(f"journal: later per call, {what}", wall_s / calls * 1e3, "ms wall", bar)


def reading() -> None:
    trials = 10_000 if is_short() else 100_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        async def fill() -> None:
            journal = SqliteJournal.open(folder, clock=SystemClock())
            await study(journal, trials=trials, side_by_side=1000, calls=1)
            await journal.close()

        asyncio.run(fill())
        opened, watch = timed(lambda: SqliteJournal.open(folder, clock=SystemClock()))
        assert isinstance(opened, SqliteJournal)
        journal = opened
        report(f"journal: open a study of {trials:,} trials", watch.wall_s() * 1e3, "ms wall", 100)
        names = [f"c{number % 40}-abcdefghijkl-r{number // 40}" for number in range(trials)]

        async def scan() -> int:
            known = 0
            for start in range(0, trials, 500):
                known += len(await journal.states(names[start : start + 500]))
            return known

        known, watch = timed(lambda: asyncio.run(scan()))
        assert known == trials
        report(
            f"journal: where {trials:,} trials stand, 500 at a time", watch.cpu_s(), "s CPU", trials / 100_000
        )
        _, watch = timed(lambda: asyncio.run(journal.total()))
        report(f"journal: total over {trials:,} trials", watch.wall_s() * 1e3, "ms wall", 100)
        _, watch = timed(lambda: asyncio.run(journal.tallies()))
        report(f"journal: sums by condition over {trials:,} trials", watch.wall_s() * 1e3, "ms wall", 100)
        asyncio.run(journal.close())


def messages() -> None:
    trials = 1_000 if is_short() else 10_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        async def fill() -> None:
            journal = SqliteJournal.open(folder, clock=SystemClock())
            await study(journal, trials=trials, side_by_side=1000, calls=6)
            await journal.close()

        asyncio.run(fill())
        with Archive(folder) as archive:
            rows, watch = timed(lambda: sum(1 for _ in archive.messages()))
            assert rows == trials * 6
            report(f"journal: the messages of {trials:,} trials, 6 each", watch.cpu_s(), "s CPU", 0.4)


def main() -> None:
    writing()
    reading()
    messages()


if __name__ == "__main__":
    main()
