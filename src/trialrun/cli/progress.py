"""Progress of a run on stderr: drawn in place on a terminal, plain lines every few seconds elsewhere, or nothing."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from trialrun.app.live import Live
from trialrun.cli.blocks import Style
from trialrun.cli.screen import Screen
from trialrun.cli.wording import clock, line_of

_EVERY_S = 5.0


class Progress(Protocol):
    """Shows a run while it goes on. The last `update` is its end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, live: Live, *, is_last: bool = False) -> None: ...

    def note(self, text: str, style: Style = "") -> None:
        """A line that stays."""
        ...


def progress_on(screen: Screen, *, monotonic: Callable[[], float] = time.monotonic) -> Progress:
    """What suits this screen."""
    if screen.is_live:
        from trialrun.cli.dashboard import Dashboard

        return Dashboard(screen.err, monotonic=monotonic)
    return Lines(screen, monotonic=monotonic)


class Lines:
    """A line at once, one every few seconds, and one at the end; nothing when the screen is quiet."""

    def __init__(self, screen: Screen, *, monotonic: Callable[[], float]) -> None:
        self._screen = screen
        self._monotonic = monotonic
        self._next: float | None = None
        self._said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def update(self, live: Live, *, is_last: bool = False) -> None:
        now = self._monotonic()
        if self._next is not None and now < self._next and not is_last:
            return
        self._next = now + _EVERY_S
        line = line_of(live)
        if is_last and line == self._said:
            return
        self._said = line
        self._screen.note(f"[{clock(live.elapsed_s)}] {line}", "")

    def note(self, text: str, style: Style = "") -> None:
        self._screen.note(text, style)
