"""The real clock."""

import asyncio
import time


class SystemClock:
    """Time as the machine has it. Spans come from the monotonic clock, so a clock that jumps changes no wait."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
