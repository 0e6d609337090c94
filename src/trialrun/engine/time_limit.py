"""The time limit of trials: one timer for all that are open, since a timer for each costs more than what it watches."""

import asyncio


class TimeLimit:
    """So many seconds for each. As they are equally long, they are over in the order in which they began."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._until: dict[asyncio.Future[None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, over: "asyncio.Future[None]") -> None:
        """Until it is set, or the time is up: then it is set from here."""
        if self.seconds is None:
            await over
            return
        loop = asyncio.get_running_loop()
        self._until[over] = until = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)
        try:
            await over
        finally:
            del self._until[over]

    def close(self) -> None:
        """Nobody waits any longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        # A timer may come as much too early as the clock is coarse.
        now = loop.time() + 1e-6
        for over, until in self._until.items():
            if until > now:
                self._timer = loop.call_at(until, self._look)
                return
            finish(over)


def finish(over: "asyncio.Future[None]") -> None:
    """It is over, unless that was said already."""
    if not over.done():
        over.set_result(None)
