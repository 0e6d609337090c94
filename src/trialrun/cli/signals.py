"""Ctrl-C and its relatives while a run is on: the first drains, the second stops at once, both are safe to resume."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

from trialrun.app.running import Control


@contextmanager
def stopping(control: Control, say: Callable[[int, str], None]) -> Generator[None]:
    """Within the running event loop, signals become wishes. `say` gets how many there were, and the signal's name."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        say(control.interrupt(), "Ctrl-C")

    def told(name: str) -> Callable[[], None]:
        def drain() -> None:
            # Again and again from a supervisor is one wish; only a person who presses Ctrl-C is in a hurry.
            if not control.was_used:
                say(control.interrupt(), name)

        return drain

    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: interrupted,
        signal.SIGTERM: told("SIGTERM"),
    }
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        handlers[signal.SIGHUP] = told("SIGHUP")
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
