"""Keeps the files of another tool up to date while a study runs, and after it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from trialrun.app import foreign
from trialrun.app.studies import Plan
from trialrun.core.errors import TrialrunError
from trialrun.core.ports import Clock

_EVERY_S = 1.0


@asynccontextmanager
async def viewed(plan: Plan, clock: Clock, tell: Callable[[str], None]) -> AsyncGenerator[None]:
    """While this is open, the view follows the journal. It is written once more when the run is over, however it ended.

    A view that cannot be written is no reason to stop what is paid for: the journal has everything, and the next run
    writes it again.
    """
    form = foreign.format_of(plan.format)
    view = form.view(plan.folder) if form is not None else None
    if view is None:
        yield
        return

    async def write(*, is_last: bool) -> None:
        try:
            await asyncio.to_thread(view.refresh, is_last=is_last)
        except (OSError, TrialrunError) as error:
            if not is_last:
                return
            tell(f"the files beside the journal are not up to date: {error}; the next run writes them")

    async def follow() -> None:
        while True:
            await clock.sleep(_EVERY_S)
            await write(is_last=False)

    following = asyncio.create_task(follow())  # noqa: TID251  # outlived by nothing: it is awaited below
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await write(is_last=True)
