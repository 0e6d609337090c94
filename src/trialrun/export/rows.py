"""What every export shares: rows of plain values, where they go, and what holds in every format.

E1. Missing is missing: None, and a number that is not finite, become empty or null, never 0 and never a word.
E2. Money is exact: a Decimal keeps all its digits. A time is UTC: ISO 8601 with a Z, or the format's own timestamp.
E3. Any text comes back as it went in, except what Unicode has no bytes for: a lone surrogate becomes U+FFFD.
E4. Rows are written as they come, in memory that does not grow with their number.
E5. A file gets its name when it is complete; until then, and after a failure, what was there before is untouched.
"""

import math
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec

from trialrun.core.errors import UsageError

Cell = str | int | float | bool | Decimal | datetime | None | Mapping[str, object] | Sequence[object]
"""A plain value. Lists and records are JSON: as such where the format can, else as text."""

Row = Sequence[Cell] | Mapping[str, Cell]
"""Cells in the order of the columns, or by column name; a name that is absent is missing."""

JSON = msgspec.json.Encoder(decimal_format="number")


class Writer(Protocol):
    """One file format."""

    @property
    def name(self) -> str:
        """What users call the format; also the end of its file names."""
        ...

    def write(self, columns: Sequence[str], rows: Iterable[Row], target: Path | BinaryIO) -> int:
        """Write all rows to a file, or to an open stream, which stays open. Returns how many rows there were."""
        ...


@contextmanager
def opened(target: Path | BinaryIO) -> Generator[BinaryIO]:
    """The stream to write to; a file takes its place only when the block ends well (E5)."""
    if not isinstance(target, Path):
        yield target
        return
    path = target.resolve()
    is_device = path.exists() and not path.is_file() and not path.is_dir()
    # A device or a pipe (/dev/stdout) is written to, not replaced.
    part = path if is_device else path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with _created(part, target) as stream:
            yield stream
        if not is_device:
            _move(part, path, target)
    finally:
        if not is_device:
            part.unlink(missing_ok=True)


def in_order(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[list[Cell]]:
    """Each row as cells in the order of the columns, as plain as `plain` makes them. No cell is dropped silently."""
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column occurs twice in {list(columns)}")
    for row in rows:
        if isinstance(row, Mapping):
            if not row.keys() <= set(columns):
                raise ValueError(f"no column for {sorted(row.keys() - set(columns))}")
            yield [plain(row.get(column)) for column in columns]
        elif len(row) == len(columns):
            yield [plain(cell) for cell in row]
        else:
            raise ValueError(f"{len(row)} cells for {len(columns)} columns")


def plain(cell: Cell) -> Cell:
    """The cell with E1 to E3 applied: what is not finite is missing, a time is UTC, a text is valid."""
    # Not a match statement: this is called for every cell, and a class pattern costs twice a call of isinstance.
    if isinstance(cell, str):
        return valid(cell)
    if cell is None or isinstance(cell, int):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, Decimal):
        return cell if cell.is_finite() else None
    if isinstance(cell, datetime):
        if cell.tzinfo is None:
            raise ValueError(f"{cell} has no time zone")
        return cell.astimezone(UTC)
    return cell


def spelled(cell: Cell) -> str:
    """A plain cell as text: the one spelling of every value that a format has no type for."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        return repr(cell)
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    if isinstance(cell, datetime):
        return cell.isoformat().replace("+00:00", "Z")
    return json_bytes(cell).decode()


def json_bytes(value: object) -> bytes:
    """The value as JSON, whatever its texts contain."""
    try:
        return JSON.encode(value)
    except UnicodeEncodeError:
        return JSON.encode(_valid_throughout(value))


def valid(text: str) -> str:
    """The text with surrogate pairs joined and lone ones replaced, so that it has UTF-8 bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _valid_throughout(value: object) -> object:
    match value:
        case str():
            return valid(value)
        case Mapping():
            record = cast("Mapping[object, object]", value)
            return {_valid_throughout(key): _valid_throughout(item) for key, item in record.items()}
        case list() | tuple():
            return [_valid_throughout(item) for item in cast("Sequence[object]", value)]
        case _:
            return value


def _created(part: Path, target: Path) -> BinaryIO:
    try:
        return part.open("wb")
    except OSError as error:
        raise _cannot_write(target, error) from error


def _move(part: Path, path: Path, target: Path) -> None:
    try:
        part.replace(path)
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot write `{target}`: {error.strerror}",
        fix="name a file in a folder that exists and that you may write to",
    )
