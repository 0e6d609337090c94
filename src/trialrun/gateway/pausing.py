"""A wait that something may cut short, and work in a thread that nothing does."""

from asyncio import FIRST_COMPLETED, CancelledError, Event, TaskGroup, get_running_loop, shield, wait
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from trialrun.core.ports import Clock

T = TypeVar("T")


async def pause(clock: Clock, seconds: float, until: Event) -> None:
    """Wait so long, or until the event is set."""
    if until.is_set():
        return
    async with TaskGroup() as group:
        sleeping, waiting = group.create_task(clock.sleep(seconds)), group.create_task(until.wait())
        try:
            await wait({sleeping, waiting}, return_when=FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()


async def to_its_end(work: Callable[[], T]) -> T:
    """What comes of work in a thread. Whoever is cancelled meanwhile goes when it is over: a thread cannot be stopped,
    and would go on in files that belong to the next run."""
    working = get_running_loop().run_in_executor(None, work)
    try:
        return await shield(working)
    except CancelledError:
        while not working.done():
            with suppress(CancelledError):
                await wait({working})
        raise
