"""One timer for many that last equally long."""

import asyncio

import pytest

from trialrun.engine.time_limit import TimeLimit, finish


async def test_each_has_its_own_end_however_many_began_before_it() -> None:
    limit, loop = TimeLimit(0.2), asyncio.get_running_loop()
    took: list[float] = []

    async def one(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        began = loop.time()
        await limit.wait(loop.create_future())
        took.append(loop.time() - began)

    async with asyncio.TaskGroup() as group:
        for delay_s in (0.0, 0.0, 0.07, 0.15):
            group.create_task(one(delay_s))
    assert all(0.199 < seconds < 0.3 for seconds in took), took


async def test_what_is_over_before_is_over_at_once_and_the_next_one_is_watched() -> None:
    limit, loop = TimeLimit(0.15), asyncio.get_running_loop()
    early, began = loop.create_future(), loop.time()
    loop.call_later(0.02, finish, early)
    await limit.wait(early)
    assert loop.time() - began < 0.1
    await limit.wait(loop.create_future())
    assert 0.15 < loop.time() - began < 0.3


async def test_who_is_cancelled_is_forgotten() -> None:
    limit, loop = TimeLimit(0.05), asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await limit.wait(loop.create_future())
    await asyncio.sleep(0.08)
    limit.close()


async def test_without_a_limit_nothing_ends_but_by_itself() -> None:
    limit, over = TimeLimit(None), asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.05, finish, over)
    await limit.wait(over)
    limit.close()
