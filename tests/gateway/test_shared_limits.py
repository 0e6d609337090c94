"""Studies that run side by side in one process share what their account allows."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import trialrun as tr
from tests.cli.far import Far
from trialrun.core.errors import Throttled, Unavailable
from trialrun.core.study import RateLimit
from trialrun.gateway.allowance import OF_THIS_PROCESS
from trialrun.gateway.pace import Pacer
from trialrun.testing.clock import ManualClock

Rates = tuple[RateLimit, ...]


def one_account(model: str) -> str:
    return f"account/{model}"


def pacers(clock: ManualClock, group: asyncio.TaskGroup, *rates: Rates) -> list[Pacer]:
    return [Pacer(rate, clock, group, account_of=one_account) for rate in rates]


def close(*pacers: Pacer) -> None:
    for pacer in pacers:
        pacer.close()


async def leave(pacer: Pacer, clock: ManualClock, calls: int, left: list[float]) -> None:
    async def one() -> None:
        left.append(await pacer.enter("x/m", 1))
        pacer.leave("x/m", 1, 1)

    async with asyncio.TaskGroup() as group:
        for _ in range(calls):
            group.create_task(one())


async def test_two_studies_together_keep_the_rate_that_the_lower_one_states() -> None:
    clock, left = ManualClock(auto=True), list[float]()
    async with asyncio.TaskGroup() as group:
        fast = (RateLimit(model="x/*", requests_per_minute=600),)
        slow = (RateLimit(model="x/*", requests_per_minute=60),)
        both = pacers(clock, group, fast, slow)
        both[1].lane("x/m")
        async with asyncio.TaskGroup() as work:
            for pacer in both:
                work.create_task(leave(pacer, clock, 100, left))
        close(*both)
    for begin in left:
        assert sum(begin <= at < begin + 60 for at in left) <= 66, "a minute's worth, and a tenth saved up"
    assert max(left) < 200


async def test_a_place_that_one_study_leaves_is_taken_by_the_other() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        first, second = pacers(clock, group, (RateLimit(model="x/*", in_flight=1),), ())
        await first.enter("x/m", 1)
        waiting = group.create_task(second.enter("x/m", 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert second.waits() == ["x/m: 1 call waits for the one in flight to end"]
        assert (first.in_flight, second.in_flight) == (1, 0)
        first.leave("x/m", 1, 1)
        async with asyncio.timeout(5):
            await waiting
        assert (first.in_flight, second.in_flight) == (0, 1)
        second.leave("x/m", 1, 1)
        close(first, second)


async def test_what_one_study_is_told_holds_for_the_other() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        first, second = pacers(clock, group, (), ())
        at = await first.enter("x/m", 1)
        first.failed("x/m", Unavailable("overloaded", status=503, retry_after_s=30.0), at)
        first.leave("x/m", 1, None)
        waiting = group.create_task(second.enter("x/m", 1))
        await asyncio.sleep(0)
        assert second.waits() == ["x/m: 1 call waits: the provider asked us to wait, 30 s more"]
        await clock.advance(31)
        await waiting
        close(first, second)


async def test_accounts_do_not_hold_each_other_up_and_are_forgotten_when_nobody_asks() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        mine = Pacer((RateLimit(model="x/*", in_flight=1),), clock, group, account_of=lambda _: "mine")
        other = Pacer((), clock, group, account_of=lambda _: "other")
        await mine.enter("x/m", 1)
        async with asyncio.timeout(5):
            await other.enter("x/m", 1)
        mine.failed("x/m", Throttled("slow", retry_after_s=1000.0), 0.0)
        close(mine, other)
        again = Pacer((), clock, group, account_of=lambda _: "mine")
        async with asyncio.timeout(5):
            await again.enter("x/m", 1)
        close(again)
    assert not OF_THIS_PROCESS.accounts


STUDY: dict[str, Any] = {
    "procedure": "conversation",
    "parties": {
        "host": {"model": "openai/gpt-4.1-mini", "prompt": "You are a host.", "max_tokens": 50},
        "guest": {"model": "openai/gpt-4.1-mini", "prompt": "You are a client.", "max_tokens": 50},
    },
    "replicates": 15,
    "settings": {"max_turns": 2},
    "limits": {"open_trials": 10, "rates": {"openai/*": {"in_flight": 4}}},
    "prices": {"openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6}},
    "budget_usd": 5,
}


def test_two_studies_in_two_threads_are_never_more_in_flight_than_the_account_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Far({"latency_s": 0.02, "limits": [{"open": 4}]})
    far.start()
    try:
        for name, value in far.emulator.settings("openai").items():
            monkeypatch.setenv(name, value)
        found: list[Any] = []

        def run(name: str) -> None:
            study = tr.study({**STUDY, "study": name})
            found.append(tr.run(study, folder=tmp_path / name, progress=False))

        threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        took_s = time.monotonic() - began
        outcomes = far.emulator.book.outcomes
    finally:
        far.stop()
    assert [results.exit for results in found] == [0, 0]
    assert outcomes == {"answered": 120}, (
        f"the account took four at a time, and nobody was refused ({took_s:.1f} s)"
    )
    assert not OF_THIS_PROCESS.accounts
