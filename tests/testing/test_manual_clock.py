"""The clock of the tests: order of waking, moving by hand, and jumping by itself."""

import asyncio

from trialrun.testing.clock import ManualClock


async def test_sleepers_wake_in_the_order_of_their_due_time_and_then_of_falling_asleep():
    clock, woken = ManualClock(), list[str]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 9), ("first", 2), ("second", 2), ("now", 0)):
            group.create_task(sleeper(name, seconds))
        await clock.rest()
        assert (woken, clock.sleepers) == (["now"], 3)
        await clock.advance(5)
        assert woken == ["now", "first", "second"]
        await clock.advance(4)
    assert woken[-1] == "late"
    assert clock.monotonic() == 9


async def test_a_sleeper_that_sleeps_again_within_the_window_wakes_at_its_own_moments():
    clock, moments = ManualClock(), list[float]()

    async def heartbeat() -> None:
        for _ in range(4):
            await clock.sleep(2)
            moments.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(heartbeat())
        await clock.advance(7)
        assert moments == [2, 4, 6]
        await clock.advance(1)


async def test_time_jumps_only_when_nothing_else_can_run():
    clock, log = ManualClock(auto=True), list[str]()

    async def busy() -> None:
        for turn in range(50):
            await asyncio.sleep(0)
            log.append(f"busy {turn}")

    async def sleeper() -> None:
        await clock.sleep(3600)
        log.append("woke")

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper())
        group.create_task(busy())
    assert log[-1] == "woke"
    assert len(log) == 51
    assert clock.monotonic() == 3600


async def test_a_cancelled_sleeper_does_not_hold_time_back():
    clock = ManualClock(auto=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(clock.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        await clock.sleep(30)
    assert clock.monotonic() == 30
    assert clock.slept == [10, 30]


async def test_work_in_a_thread_gets_its_grace_before_time_jumps():
    clock = ManualClock(auto=True, grace_s=0.05)

    async def work() -> float:
        await asyncio.to_thread(lambda: None)
        return clock.monotonic()

    async with asyncio.TaskGroup() as group:
        sleeping = group.create_task(clock.sleep(60))
        working = group.create_task(work())
    assert sleeping.done()
    assert working.result() == 0
