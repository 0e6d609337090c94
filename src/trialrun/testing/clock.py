"""A clock that tests own: time stands still until it is moved, and sleepers wake in a fixed order.

C1. Sleepers wake in the order of their due time, and of falling asleep when that is equal.
C2. One sleeper is woken at a time, and time moves again only when everything that follows from it has come to rest.
"""

import asyncio
import heapq
import time
from itertools import count
from typing import Any, cast

_RESTLESS_TURNS = 100_000


class ManualClock:
    """Time that moves when a test says so.

    By hand: `await clock.advance(5.0)`. With `auto`, time jumps to the next sleeper by itself as soon as nothing else
    can run, so that hours pass in milliseconds. Work in other threads or processes is not seen by the event loop:
    with `grace_s`, such work gets that much real time before each jump.
    """

    def __init__(self, *, auto: bool = False, start: float = 1_800_000_000.0, grace_s: float = 0.0) -> None:
        self.auto = auto
        self.slept: list[float] = []
        """Every sleep that was asked for, in order."""
        self._grace_s = grace_s
        self._start = start
        self._elapsed = 0.0
        self._numbers = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._is_watching = False

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._numbers), future))
        if self.auto and not self._is_watching:
            self._is_watching = True
            loop.call_soon(self._watch, loop, False)
        await future

    async def advance(self, seconds: float) -> None:
        """Let time pass. Sleepers that are due wake one by one, each at its own moment."""
        target = self._elapsed + seconds
        await self.rest()
        while (due := self._next_due()) is not None and due <= target:
            self._wake_next()
            await self.rest()
        self._elapsed = target

    async def rest(self) -> None:
        """Wait until nothing can run without time moving."""
        loop = asyncio.get_running_loop()
        quiet = 0
        for _ in range(_RESTLESS_TURNS):
            await asyncio.sleep(0)
            quiet = 0 if _has_ready(loop) else quiet + 1
            # The second quiet turn has polled the selector, so that a finished read or thread has been seen.
            if quiet == 2 and self._grace_s:
                time.sleep(self._grace_s)  # noqa: ASYNC251 - only other threads and processes shall run
            if quiet == 4:
                return
        raise RuntimeError(f"the tasks of this loop did not come to rest in {_RESTLESS_TURNS} turns")

    def _watch(self, loop: asyncio.AbstractEventLoop, is_quiet: bool) -> None:
        """One look per turn of the loop: jump when two turns in a row had nothing to run."""
        due = self._next_due()
        if due is None:
            self._is_watching = False
            return
        if _has_ready(loop):
            loop.call_soon(self._watch, loop, False)
        elif not is_quiet:
            if self._grace_s:
                time.sleep(self._grace_s)
            loop.call_soon(self._watch, loop, True)
        else:
            self._wake_next()
            loop.call_soon(self._watch, loop, False)

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _wake_next(self) -> None:
        due, _, future = heapq.heappop(self._sleepers)
        self._elapsed = max(self._elapsed, due)
        future.set_result(None)


def _has_ready(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a callback waits its turn. The loop has no public way to say so."""
    return bool(cast("Any", loop)._ready)
