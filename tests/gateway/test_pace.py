"""Limits that the study states, and what providers say of theirs."""

import asyncio

import pytest

from trialrun.core.errors import Drained, Unavailable
from trialrun.core.study import RateLimit
from trialrun.gateway.allowance import Allowance, seconds
from trialrun.gateway.pace import Pacer
from trialrun.testing.clock import ManualClock


async def leave(
    pacer: Pacer, clock: ManualClock, *, calls: int, tokens: int = 100, takes_s: float = 0.0
) -> list[float]:
    """So many calls at once; returns when each left."""
    left: list[float] = []

    async def one() -> None:
        left.append(await pacer.enter("x/m", tokens))
        if takes_s:
            await clock.sleep(takes_s)
        pacer.leave("x/m", tokens, tokens)

    async with asyncio.TaskGroup() as group:
        for _ in range(calls):
            group.create_task(one())
    return left


async def test_requests_per_minute_are_kept_in_every_minute() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        left = await leave(
            Pacer((RateLimit(model="x/*", requests_per_minute=60),), clock, group), clock, calls=200
        )
    for begin in left:
        assert sum(begin <= at < begin + 60 for at in left) <= 66, "a minute's worth, and a tenth saved up"
    assert left[-1] < 200, "and hardly slower than allowed"


async def test_tokens_per_minute_are_kept_and_corrected_by_what_was_used() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        limits = (RateLimit(model="x/*", tokens_per_minute=6000),)
        left = await leave(Pacer(limits, clock, group), clock, calls=100, tokens=120)
    assert 100 <= left[-1] <= 125

    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", tokens_per_minute=6000),), clock, group)
        for _ in range(100):
            await pacer.enter("x/m", 120)
            pacer.leave("x/m", 120, 12)
        assert clock.monotonic() < 20, "most of the estimates came back"


async def test_calls_in_flight_are_bounded() -> None:
    clock = ManualClock(auto=True)
    most = 0
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", in_flight=5),), clock, group)

        async def one() -> None:
            nonlocal most
            await pacer.enter("x/m", 1)
            most = max(most, pacer.in_flight)
            await clock.sleep(1)
            pacer.leave("x/m", 1, 1)

        async with asyncio.TaskGroup() as calls:
            for _ in range(40):
                calls.create_task(one())
    assert most == 5


async def test_whoever_waits_when_the_run_drains_leaves_at_once_and_in_flight_stays_right() -> None:
    clock = ManualClock(auto=False)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", requests_per_minute=1, in_flight=2),), clock, group)
        await pacer.enter("x/m", 10)
        waiting = [group.create_task(drained(pacer)) for _ in range(5)]
        await asyncio.sleep(0)
        pacer.drain()
        assert [await each for each in waiting] == [True] * 5
        assert pacer.in_flight == 1
        pacer.leave("x/m", 10, 10)
        assert pacer.in_flight == 0
    assert clock.monotonic() == 0, "no timer keeps the run open"


async def test_a_call_that_is_cancelled_as_its_turn_comes_lets_the_next_one_go() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", in_flight=1),), clock, group)
        await pacer.enter("x/m", 1)
        await clock.sleep(2)  # past the ramp, whose timer would hide it
        second, third = (group.create_task(pacer.enter("x/m", 1)) for _ in range(2))
        await asyncio.sleep(0)
        pacer.leave("x/m", 1, 1)
        second.cancel()
        async with asyncio.timeout(5):
            await third
        pacer.leave("x/m", 1, 1)
        assert pacer.in_flight == 0


async def test_nobody_enters_a_lane_that_is_drained() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", requests_per_minute=1),), clock, group)
        await pacer.enter("x/m", 10)
        pacer.drain()
        late = group.create_task(drained(pacer))
        for _ in range(5):
            await asyncio.sleep(0)
        assert late.done(), "a call that waited for money comes late to a drained lane"
        assert await late


async def drained(pacer: Pacer) -> bool:
    try:
        await pacer.enter("x/m", 10)
    except Drained:
        return True
    return False


async def test_a_limit_is_for_its_own_models() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="other/*", requests_per_minute=1),), clock, group)
        left = await leave(pacer, clock, calls=50)
    assert left[-1] < 1


@pytest.mark.parametrize("status", [503, 529])
async def test_overload_halves_the_calls_in_flight_once_and_successes_bring_them_back(status: int) -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", in_flight=40),), clock, group)
        entered = [await pacer.enter("x/m", 1) for _ in range(40)]
        for at in entered:
            pacer.failed("x/m", Unavailable("overloaded", status=status), at)
            pacer.leave("x/m", 1, None)
        assert 15 <= pacer.lane("x/m").allowance.limit <= 21, "one cut for calls that left together"
        for _ in range(2000):
            pacer.succeeded("x/m", {}, 0.0)
        assert pacer.lane("x/m").allowance.limit == 40


async def test_why_calls_wait_is_said_with_the_time() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((), clock, group)
        at = await pacer.enter("x/m", 1)
        pacer.failed("x/m", Unavailable("overloaded", status=503, retry_after_s=30.0), at)
        pacer.leave("x/m", 1, None)
        waiting = group.create_task(pacer.enter("x/m", 1))
        await asyncio.sleep(0)
        assert pacer.waits() == ["x/m: 1 call waits: the provider asked us to wait, 30 s more"]
        await clock.advance(31)
        await waiting
        assert pacer.waits() == []
        pacer.leave("x/m", 1, None)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (
            RateLimit(model="x/*", requests_per_minute=20),
            "3 calls wait for the limit of 20 a minute, the last of them 9 s",
        ),
        (
            RateLimit(model="x/*", tokens_per_minute=2000),
            "3 calls wait for the limit of 2,000 tokens a minute",
        ),
        (RateLimit(model="x/*", in_flight=2), "3 calls wait for one of the 2 in flight to end"),
    ],
)
def test_a_stated_limit_is_named_where_calls_wait_for_it(limit: RateLimit, why: str) -> None:
    allowance = Allowance(0.0)
    allowance.join(limit, 0.0, lambda: None)
    assert [allowance.enter(100, at) for at in (0.0, 0.01)] == [0.0, 0.0]
    assert allowance.enter(100, 0.02) != 0.0
    assert allowance.why(3, 0.02) == why


@pytest.mark.parametrize(
    ("text", "span_s"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("250ms", 0.25),
        ("2m59.56s", 179.56),
        ("7.66", 7.66),
        ("1h1m1s", 3661.0),
        ("1.2.3s", 1.0),
        ("\u00b2", 1.0),
        ("..", 1.0),
        ("", 1.0),
        ("9" * 400, 1.0),
        ("1735689600", 1.0),
        ("2026-01-01T00:00:00Z", 1.0),
    ],
)
def test_a_span_that_makes_no_sense_is_a_second(text: str, span_s: float) -> None:
    assert seconds(text) == pytest.approx(span_s)


async def test_a_count_of_tokens_that_makes_no_sense_holds_nobody_up_for_longer_than_its_minute() -> None:
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((RateLimit(model="x/*", tokens_per_minute=6000),), clock, group)
        await pacer.enter("x/m", 100)
        pacer.leave("x/m", 100, 10**11)
        await pacer.enter("x/m", 100)
    assert clock.monotonic() < 65
