"""Notices when a procedure blocks the event loop: then nothing else runs, no call settles and no wish to stop is heard.

After a few seconds it says where. After a trial's own time limit it ends the blocking code with an exception, which
fails that trial; a signal is the only way into code that never comes back to the loop.
"""

import asyncio
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

from trialrun.core.errors import ProcedureError

WARN_AFTER_S = 5.0
_LOOK_S = 0.25


class Watchdog:
    """Watches the loop of this thread, as an async context."""

    def __init__(self, limit_s: float | None, tell: Callable[[str], None]) -> None:
        self._limit_s = limit_s
        self._tell = tell
        self._beat_at = time.monotonic()
        self._thread_id = threading.get_ident()
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, name="trialrun-watchdog", daemon=True)
        self._beating: asyncio.TimerHandle | None = None
        self._before: object = None
        self._can_interrupt = False

    async def __aenter__(self) -> None:
        self._can_interrupt = (
            self._limit_s is not None
            and threading.current_thread() is threading.main_thread()
            and hasattr(signal, "SIGALRM")
        )
        if self._can_interrupt:
            self._before = signal.signal(signal.SIGALRM, self._interrupt)
        self._beat(asyncio.get_running_loop())
        self._looking.start()

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        if self._beating is not None:
            self._beating.cancel()
        if self._can_interrupt:
            signal.signal(signal.SIGALRM, self._before)  # pyright: ignore[reportArgumentType] - as it was given to us
        self._looking.join()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_at = time.monotonic()
        self._beating = loop.call_later(_LOOK_S, self._beat, loop)

    def _look(self) -> None:
        """In a thread of its own: how long ago was the last beat?"""
        has_warned = False
        while not self._over.wait(_LOOK_S):
            stalled_s = time.monotonic() - self._beat_at
            if stalled_s < WARN_AFTER_S:
                has_warned = False
            elif not has_warned:
                has_warned = True
                self._tell(f"nothing moves for {stalled_s:.0f} s: {self._where()} blocks the event loop")
            if self._can_interrupt and stalled_s > (self._limit_s or 0.0) + 2 * _LOOK_S:
                signal.pthread_kill(self._thread_id, signal.SIGALRM)
                self._over.wait(1.0)

    def _where(self) -> str:
        # The one way to see where another thread is; private in name only, and documented.
        frame = sys._current_frames().get(self._thread_id)  # pyright: ignore[reportPrivateUsage]
        return _place_of(frame) if frame else "some code"

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        """In the loop's thread, inside the code that blocks it."""
        stalled_s = time.monotonic() - self._beat_at
        if stalled_s <= (self._limit_s or 0.0):
            return  # it came back by itself in the meantime
        self._beat_at = time.monotonic()
        raise ProcedureError(
            f"the procedure blocked everything for {stalled_s:.0f} s at {_place_of(frame)}",
            fix="wait with `asyncio.sleep`, and put blocking work into `asyncio.to_thread` inside `lab.act`",
        )


def _place_of(frame: FrameType | None) -> str:
    """The innermost line that is not of Python's own library."""
    stack = traceback.extract_stack(frame)
    own = [
        entry for entry in stack if "/lib/python" not in entry.filename and "<frozen" not in entry.filename
    ]
    last = (own or stack)[-1]
    return f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno}"
