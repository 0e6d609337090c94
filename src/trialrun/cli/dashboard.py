"""The progress of a run, drawn in place on a terminal: a bar for each condition, money, pace, and why calls wait."""

import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from trialrun.app.live import Live
from trialrun.cli import amounts
from trialrun.cli.blocks import Line, Style
from trialrun.cli.colour import console_of, drawn, safe
from trialrun.cli.wording import calls_of, clock, left_of, money_of, trials_of

_FRAME_S = 0.25
_BAR = 20
_OTHER_LINES = 7
_NARROW = 60
_GAP = 2
_SHORTEST_TITLE = 24


class Dashboard:
    """Redraws at most four times a second; leaves nothing behind, for the results follow."""

    def __init__(self, stream: TextIO, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._console = console_of(stream)
        self._live = RichLive(
            console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )
        self._monotonic = monotonic
        self._next = 0.0
        self._echo: list[Any] | None = None

    def __enter__(self) -> Self:
        self._echo = silenced()
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if self._echo is not None:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, self._echo)

    def update(self, live: Live, *, is_last: bool = False) -> None:
        now = self._monotonic()
        if now < self._next and not is_last:
            return
        self._next = now + _FRAME_S
        self._live.update(frame(live, self._console), refresh=True)

    def note(self, text: str, style: Style = "") -> None:
        self._console.print(drawn(Line(text, style), self._console.width))


def silenced() -> list[Any] | None:
    """Let the terminal not echo what is typed: a newline in the middle would leave half a picture behind. Returns what
    to set again later."""
    try:
        before: list[Any] = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        return None
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    return before


def frame(live: Live, console: Console) -> RenderableType:
    """One picture of the run, made for the window as it is now."""
    width, height = console.size
    parts: list[RenderableType] = [_head(live)]
    room = max(1, height - _OTHER_LINES)
    parts.append(_bars(live, room, width=width, bar=_BAR if width >= _NARROW else 8))
    parts.append(_facts(live))
    return Group(*parts)


def _head(live: Live) -> Text:
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append_text(safe(live.study, "bold"))
    if live.lane == "rehearsal":
        head.append("  ").append(" REHEARSAL ", "bold black on yellow")
    head.append(f"  {clock(live.elapsed_s)}", "dim")
    return head


def _bars(live: Live, room: int, *, width: int, bar: int) -> RenderableType:
    """Trials done of each condition. Too many for the window: those that are not done yet come first."""
    rows = [(title, done, open_) for (title, done), open_ in zip(live.conditions, live.open_in, strict=True)]
    more = live.more_conditions
    if len(rows) > room:
        rows.sort(key=lambda row: row[1] >= live.replicates)
        more += len(rows) - (room - 1)
        rows = rows[: room - 1]
    counts = [f"{done:,}/{live.replicates:,}" for _, done, _ in rows]
    room_for_title = width - bar - max(map(len, counts), default=0) - 2 * _GAP
    if room_for_title < _SHORTEST_TITLE:
        # The number says all that a bar does.
        bar, room_for_title = 0, room_for_title + bar + _GAP
    grid = Table.grid(padding=(0, _GAP), expand=False)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(1, room_for_title))
    if bar:
        grid.add_column(no_wrap=True, width=bar)
    grid.add_column(no_wrap=True, justify="right")
    for (title, done, open_), count in zip(rows, counts, strict=True):
        grid.add_row(safe(title), *([_bar(done, open_, live.replicates, bar)] if bar else []), count)
    return Group(grid, Text(f"… and {amounts.plural(more, 'condition')} more", "dim")) if more else grid


def _bar(done: int, open_: int, whole: int, width: int) -> Text:
    """Done, under way, and still to come. With all trials open, most of the work is done when the first one ends."""
    full = round(width * min(1.0, done / whole)) if whole else width
    reached = round(width * min(1.0, (done + open_) / whole)) if whole else width
    style = "green" if done >= whole else "cyan"
    bar = Text("█" * full, style).append("▒" * (reached - full), "cyan")
    return bar.append("░" * (width - reached), "dim")


def _facts(live: Live) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("trials", safe(f"{trials_of(live)}, {live.open:,} open"))
    grid.add_row("money", safe(money_of(live)))
    grid.add_row("pace", safe(_pace(live)))
    if live.waits:
        grid.add_row("waits", safe("; ".join(live.waits[:2]), "yellow"))
    if live.stop:
        text = f"stopping: {live.stop}; {amounts.plural(live.in_flight, 'call')} in flight"
        grid.add_row("", safe(text, "bold yellow"))
    return grid


def _pace(live: Live) -> str:
    parts = [calls_of(live)]
    if live.trials_per_minute is not None:
        parts.append(f"{live.trials_per_minute:.3g} trials/min")
    if live.left_s is not None:
        parts.append(left_of(live.left_s))
    return ", ".join(parts)
