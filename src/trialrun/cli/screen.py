"""Where output goes: results to stdout, notes and progress to stderr, or one JSON document and nothing else."""

import errno
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO, cast

from trialrun.app.exits import Exit
from trialrun.cli.blocks import Block, Line, Style, plain
from trialrun.cli.calling import copyable, copyable_text
from trialrun.core.errors import TrialrunError

_NOBODY_THERE = frozenset({errno.EPIPE, errno.EIO})


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What a command has to say: as data for programs and as blocks for people."""

    data: Mapping[str, object]
    blocks: Callable[[], Iterable[Block]]
    exit: Exit = Exit.DONE
    error: TrialrunError | None = None
    """Why the work ended early, although there is something to show."""


@dataclass(kw_only=True, slots=True)
class Screen:
    """One terminal, pipe or file for a command to speak to."""

    as_json: bool = False
    is_quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    folder: Path | None = None
    """The study's folder, once a command knows it: a bug leaves its traceback there."""

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "Screen":
        """The screen that these arguments ask for, even if the rest of them cannot be understood."""
        flags = set(arguments[: arguments.index("--")] if "--" in arguments else arguments)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                # A terminal that has no `█` is no reason to fail.
                cast("Any", stream).reconfigure(errors="backslashreplace")
        as_json = "--json" in flags
        return cls(as_json=as_json, is_quiet=as_json or bool(flags & {"--quiet", "-q"}))

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the results."""
        return _is_terminal(self.out)

    @property
    def shows_progress(self) -> bool:
        return not self.is_quiet

    @property
    def is_live(self) -> bool:
        """Whether progress can be drawn in place."""
        return not self.is_quiet and _is_terminal(self.err)

    def note(self, text: str, style: Style = "dim") -> None:
        """Something for people beside the results."""
        if not self.is_quiet:
            self.write_blocks([Line(text, style)], self.err)

    def complain(self, text: str) -> None:
        """An error, on stderr, whatever was asked for."""
        self.write_blocks([Line(copyable_text(text), "error")], self.err)

    def show(self, shown: Shown) -> None:
        """The result of a command."""
        if self.as_json:
            self.show_data({**shown.data, "exit": int(shown.exit)})
            return
        self.write_blocks(shown.blocks(), self.out)
        if shown.error is not None:
            self.write_blocks([Line()], self.err)
            self.complain(shown.error.report())

    def show_data(self, data: Mapping[str, object]) -> None:
        """The one document of `--json`. Other than ASCII is escaped: it cannot hurt a terminal."""
        self._write(self.out, json.dumps(plain_data(data), indent=2) + "\n")

    def show_start(self, data: Mapping[str, object]) -> None:
        """What programs need of a command that goes on running: a document on one line, before the last one."""
        self._write(self.out, json.dumps(plain_data(data)) + "\n")

    def write_blocks(self, blocks: Iterable[Block], stream: TextIO) -> None:
        """Blocks, in colour for a terminal."""
        blocks = copyable(blocks)
        if _is_terminal(stream):
            from trialrun.cli.colour import write

            try:
                write(blocks, stream)
            except OSError as error:
                if error.errno not in _NOBODY_THERE:
                    raise
                self._mute(stream)
        else:
            for block in blocks:
                self._write(stream, "".join(line + "\n" for line in plain(block)))

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            if error.errno not in _NOBODY_THERE:
                raise
            self._mute(stream)

    def _mute(self, stream: TextIO) -> None:
        """Nobody reads any more (`| head`, a closed terminal): the rest goes nowhere, and the exit code stays."""
        with suppress(OSError, ValueError):
            number = stream.fileno()
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _is_terminal(stream: TextIO) -> bool:
    return not stream.closed and stream.isatty() and os.environ.get("TERM") != "dumb"


def plain_data(value: object) -> object:
    """Anything that commands show, as JSON: money as text, missing numbers as null, never NaN."""
    match value:
        case Decimal():
            return f"{value.normalize():f}" if value.is_finite() else None
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {
                str(key): plain_data(item) for key, item in cast("Mapping[object, object]", value).items()
            }
        case Path():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [plain_data(item) for item in cast("Sequence[object]", value)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain_data(asdict(value))
        case _:
            return str(value)
