"""The pacer against providers whose limits nobody told it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from trialrun.core.errors import Throttled
from trialrun.core.retry import next_wait
from trialrun.gateway.pace import Pacer
from trialrun.testing.clock import ManualClock

EXACT = -1.0


@dataclass
class Server:
    """Admits so many calls a second, with up to a second's worth saved up; answers 429 above, at once."""

    clock: ManualClock
    limit_at: Callable[[float], float]
    latency_s: float = 0.2
    retry_after_s: float | None = 1.0
    """What it asks for; a negative one: exactly until the next call would be admitted."""
    tells: bool = False
    """Whether its replies say what is left."""
    level: float = 0.0
    at: float = 0.0
    habit: float = 0.0
    """A share of calls that it refuses for no reason."""
    dice: random.Random = field(default_factory=lambda: random.Random(5))
    calls: int = 0
    refused: int = 0
    accepted_at: list[float] = field(default_factory=list[float], repr=False)

    def __post_init__(self) -> None:
        self.level, self.at = self.limit_at(0.0), self.clock.monotonic()

    async def call(self) -> dict[str, str]:
        now = self.clock.monotonic()
        limit = self.limit_at(now)
        self.level = min(max(1.0, limit), self.level + (now - self.at) * limit)
        self.at = now
        self.calls += 1
        if self.level < 1.0 or self.dice.random() < self.habit:
            self.refused += 1
            await self.clock.sleep(0.002)
            exact = self.retry_after_s is not None and self.retry_after_s < 0
            raise Throttled(
                "slow down", retry_after_s=(1.0 - self.level) / limit if exact else self.retry_after_s
            )
        self.level -= 1.0
        self.accepted_at.append(now)
        headers = {
            "x-ratelimit-limit-requests": str(round(limit)),
            "x-ratelimit-remaining-requests": str(int(self.level)),
            "x-ratelimit-reset-requests": f"{(limit - self.level) / limit * 1000:.0f}ms",
        }
        await self.clock.sleep(self.latency_s)
        return headers if self.tells else {}


async def drive(
    server: Server, clock: ManualClock, *, calls: int, open_: int, before_s: float = 0.0, trip_s: float = 0.0
) -> float:
    """So many calls, so many at a time, each tried until it is accepted. Returns the seconds it took.

    A call that may leave is written down first, which takes `before_s`; then it travels, there and back in `trip_s`.
    """
    numbers, dice = iter(range(calls)), random.Random(7)
    async with asyncio.TaskGroup() as group:
        pacer = Pacer((), clock, group)

        async def worker() -> None:
            for _ in numbers:
                while True:
                    entered_at = await pacer.enter("x/m", 100)
                    await clock.sleep(before_s + trip_s / 2)
                    try:
                        headers = await server.call()
                    except Throttled as error:
                        await clock.sleep(trip_s / 2)
                        pacer.failed("x/m", error, entered_at)
                        pacer.leave("x/m", 100, None)
                        await clock.sleep(
                            next_wait(error, attempt=1, attempts=9, jitter=dice.random()) or 0.0
                        )
                        continue
                    await clock.sleep(trip_s / 2)
                    pacer.succeeded("x/m", headers, entered_at)
                    pacer.leave("x/m", 100, None)
                    break

        async with asyncio.TaskGroup() as workers:
            for _ in range(open_):
                workers.create_task(worker())
    return clock.monotonic()


@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("latency_s", [0.2, 2.0])
@pytest.mark.parametrize("retry_after_s", [1.0, None, EXACT])
async def test_an_unknown_limit_is_found_with_few_refusals_and_little_loss(
    retry_after_s: float | None, latency_s: float, tells: bool
) -> None:
    clock = ManualClock(auto=True)
    server = Server(
        clock, limit_at=lambda _: 100.0, retry_after_s=retry_after_s, latency_s=latency_s, tells=tells
    )
    took_s = await drive(server, clock, calls=2000, open_=int(1000 * latency_s))
    assert server.refused / server.calls < 0.02, f"{server.refused} of {server.calls} were refused"
    ideal_s = 19.0 + latency_s
    assert ideal_s / took_s > 0.95, f"took {took_s:.1f} s of an ideal {ideal_s:.1f}"


@pytest.mark.parametrize(
    ("before_s", "trip_s", "most", "share"),
    [(0.01, 0.002, 65, 0.94), (0.02, 0.002, 105, 0.93), (0.01, 0.1, 120, 0.94), (0.02, 0.3, 320, 0.86)],
)
async def test_a_limit_is_told_from_a_habit_however_long_a_refusal_travels(
    before_s: float, trip_s: float, most: int, share: float
) -> None:
    # What is on the way when the first refusal comes back cannot be saved; everything after it can.
    clock = ManualClock(auto=True)
    server = Server(clock, limit_at=lambda _: 100.0)
    took_s = await drive(server, clock, calls=2000, open_=200, before_s=before_s, trip_s=trip_s)
    assert server.refused < most, f"{server.refused} of {server.calls} were refused"
    assert 19.0 / took_s > share, f"took {took_s:.1f} s of an ideal 19"


async def test_without_a_limit_the_first_second_is_hardly_noticed() -> None:
    clock = ManualClock(auto=True)
    server = Server(clock, limit_at=lambda _: 10**9)
    took_s = await drive(server, clock, calls=10_000, open_=1000)
    assert 2.0 / took_s > 0.88


@pytest.mark.parametrize("retry_after_s", [1.0, None, EXACT])
@pytest.mark.parametrize("trip_s", [0.0, 0.1])
async def test_a_limit_cut_to_a_tenth_is_kept_and_found_again_in_seconds(
    trip_s: float, retry_after_s: float | None
) -> None:
    clock = ManualClock(auto=True)
    server = Server(clock, limit_at=lambda at: 10.0 if 10 <= at < 70 else 100.0, retry_after_s=retry_after_s)
    await drive(server, clock, calls=4000, open_=200, before_s=trip_s / 10, trip_s=trip_s)

    def accepted(begin: float, end: float) -> float:
        return sum(begin <= at < end for at in server.accepted_at) / (end - begin)

    assert accepted(20, 70) > 9.0
    assert accepted(82, 87) > 95.0, "back at the allowed rate within a dozen seconds"
    assert server.refused / server.calls < 0.05 + 0.5 * trip_s


async def test_refusals_without_a_limit_hold_up_nobody_else() -> None:
    clock = ManualClock(auto=True)
    server = Server(clock, limit_at=lambda _: 10**9, latency_s=0.1, habit=0.03)
    took_s = await drive(server, clock, calls=2000, open_=100)
    assert took_s < 5.0, f"took {took_s:.1f} s: 2 s of work, and about two waits of a second at the end"


async def test_a_limit_of_a_few_calls_a_minute_is_found_with_one_trial_open() -> None:
    clock = ManualClock(auto=True)
    server = Server(clock, limit_at=lambda _: 0.5, retry_after_s=None)
    server.level = 1.0
    await drive(server, clock, calls=60, open_=1)
    assert server.refused < 60
