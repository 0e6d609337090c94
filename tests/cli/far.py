"""The emulator in a thread with a loop of its own: commands of a test speak to it as to a provider."""

import asyncio
import threading
from collections.abc import Mapping

from trialrun.testing.emulator import Emulator

PRICES = {
    "openai/gpt-5-mini": {"input": 0.25, "output": 2},
    "openai/gpt-4.1-mini": {"input": 0.4, "output": 1.6},
}


class Far:
    """A provider on loopback."""

    def __init__(self, script: Mapping[str, object] | None = None) -> None:
        self.emulator = Emulator(script or {"batches": {"running_s": 0.1}, "prices": PRICES})
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with self.emulator:
            self._ready.set()
            await self._ended.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
