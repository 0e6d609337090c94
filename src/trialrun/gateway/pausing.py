"""A wait that something may cut short."""

from asyncio import FIRST_COMPLETED, Event, TaskGroup, wait

from trialrun.core.ports import Clock


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
