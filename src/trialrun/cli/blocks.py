"""What a command shows, as data: lines, pairs and tables. `screen` renders them with or without colours.

Every text passes `defused` where it is rendered, so no command can forget it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trialrun.cli.defuse import defused, width_of

Style = Literal["", "title", "loud", "dim", "good", "bad", "error", "added", "removed"]
Align = Literal["left", "right"]
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph; an empty one is a gap."""

    text: str = ""
    style: Style = ""
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names with what belongs to them, in two columns."""

    rows: Sequence[tuple[str, str]]
    are_commands: bool = False
    """The names are commands to copy, each with its reason."""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    title: str
    align: Align = "left"
    is_prose: bool = False
    """May be wrapped; other cells are shown whole."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads. A cell may have several lines."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text to copy or to read as it is: never wrapped."""

    text: str
    style: Style = ""


Block = Line | Pairs | Table | Verbatim
GAP = Line()


def natural_width(table: Table, prose: int = 30) -> int:
    """So many columns does the table need, with cells of prose wrapped at `prose`."""
    needed = 0
    for place, column in enumerate(table.columns):
        lines = [line for row in table.rows for line in defused(row[place]).split("\n")]
        widest = max(map(width_of, [defused(column.title), *lines]))
        needed += len(_GAP) + (min(widest, prose) if column.is_prose else widest)
    return needed - len(_GAP)


def fitting(table: Table, width: int) -> list[Table] | None:
    """The table as several, one below the other, each with the columns that say what a row is: what is compared still
    stands in one column. None where that does not help."""
    if natural_width(table) <= width:
        return [table]
    many = len(table.columns)
    own = next((place for place in range(many) if table.columns[place].align == "right"), 1) or 1
    parts: list[list[int]] = []
    for place in range(own, many):
        if parts and natural_width(_part(table, own, [*parts[-1], place])) <= width:
            parts[-1].append(place)
        elif natural_width(_part(table, own, [place])) <= width:
            parts.append([place])
        else:
            return None
    return [_part(table, own, places) for places in parts] if len(table.rows) > 2 else None


def _part(table: Table, own: int, places: Sequence[int]) -> Table:
    """Of a table the first `own` columns, and these."""
    wanted = [*range(own), *places]
    return Table([table.columns[at] for at in wanted], [[row[at] for at in wanted] for row in table.rows])


def plain(block: Block) -> list[str]:
    """The block as aligned lines, for files and pipes: nothing is wrapped and nothing is cut."""
    match block:
        case Line():
            return [" " * block.indent + line if line else "" for line in defused(block.text).split("\n")]
        case Verbatim():
            return defused(block.text).split("\n")
        case Pairs():
            return _pairs(block)
        case Table():
            return _table(block)


def _pairs(block: Pairs) -> list[str]:
    rows = [(defused(name), defused(text)) for name, text in block.rows]
    wide = max((width_of(name) for name, _ in rows), default=0)
    lines: list[str] = []
    for name, text in rows:
        for place, part in enumerate(text.split("\n")):
            lines.append(f"{_padded(name if place == 0 else '', wide, 'left')}{_GAP}{part}".rstrip())
    return lines


def _table(block: Table) -> list[str]:
    heads = [[defused(column.title)] for column in block.columns]
    rows = [heads] + [[defused(cell).split("\n") for cell in row] for row in block.rows]
    wide = [max(width_of(line) for row in rows for line in row[place]) for place in range(len(heads))]
    lines: list[str] = []
    for number, row in enumerate(rows):
        for place in range(max((len(cell) for cell in row), default=1)):
            cells = [cell[place] if place < len(cell) else "" for cell in row]
            padded = [
                _padded(cell, width, column.align)
                for cell, width, column in zip(cells, wide, block.columns, strict=True)
            ]
            lines.append(_GAP.join(padded).rstrip())
        if number == 0:
            lines.append(_GAP.join("-" * width for width in wide))
    return lines


def _padded(text: str, width: int, align: Align) -> str:
    space = " " * (width - width_of(text))
    return space + text if align == "right" else text + space
