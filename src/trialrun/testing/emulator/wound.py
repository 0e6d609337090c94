"""A clock that can be wound forward, so that a day of a provider's queue takes no time."""

from trialrun.core.ports import Clock


class WoundClock:
    """Another clock, ahead of it by what it was wound. Who sleeps is not woken by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def wind(self, seconds: float) -> None:
        """Let so much time have passed."""
        self.ahead_s += max(0.0, seconds)

    def now(self) -> float:
        return self._clock.now() + self.ahead_s

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
