"""Blocks on a terminal, through rich: colours, wrapped lines, tables that fit the window.

Texts go in as `Text`, never as markup, and defused: what a model wrote is shown, not obeyed.
"""

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style as RichStyle
from rich.table import Table as RichTable
from rich.text import Text

from trialrun.cli.blocks import Block, Line, Pairs, Style, Table, Verbatim, fitting
from trialrun.cli.defuse import defused, width_of

_STYLES: dict[Style, str] = {
    "": "",
    "title": "bold",
    "loud": "bold black on yellow",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "error": "",
    "added": "green",
    "removed": "red",
}
_MARKS = {"error:": "bold red", "stopped:": "bold yellow", " fix:": "bold green", "  -->": "blue"}


def console_of(stream: TextIO) -> Console:
    """A console that interprets nothing in what it is given."""
    return Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)


def write(blocks: Iterable[Block], stream: TextIO) -> None:
    """The blocks, on this terminal."""
    console = console_of(stream)
    for block in blocks:
        console.print(drawn(block, console.width), soft_wrap=_is_copied(block))


def _is_copied(block: Block) -> bool:
    """Texts with paths and commands: the terminal may break them, and whoever copies them gets them whole."""
    return isinstance(block, Verbatim) or (isinstance(block, Line) and block.style == "error")


def drawn(block: Block, width: int) -> RenderableType:
    """A block as rich draws it in a window of this width."""
    match block:
        case Line():
            if block.style == "error":
                return _error(block.text)
            return Padding(_line(block), (0, 0, 0, block.indent)) if block.indent else _line(block)
        case Verbatim():
            return safe(block.text, _STYLES[block.style])
        case Pairs():
            return _commands(block, width) if block.are_commands else _pairs(block)
        case Table():
            parts = fitting(block, width)
            return _tables(parts) if parts else _records(block)


def safe(text: str, style: str | RichStyle = "") -> Text:
    """A text that is shown as it is."""
    return Text(defused(text), style=style)


def _line(line: Line) -> RenderableType:
    return safe(f" {line.text} " if line.style == "loud" else line.text, _STYLES[line.style])


def _error(report: str) -> RenderableType:
    lines: list[RenderableType] = []
    for line in report.split("\n"):
        text = safe(line)
        for mark, style in _MARKS.items():
            if line.startswith(mark):
                text.stylize(style, 0, len(mark))
        lines.append(text)
    return Group(*lines)


def _pairs(block: Pairs) -> RenderableType:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in block.rows:
        grid.add_row(safe(name), safe(text))
    return grid


def _commands(block: Pairs, width: int) -> RenderableType:
    """Each command whole, with its reason behind it, or below it where the window is narrow."""
    longest = max((width_of(defused(name)) for name, _ in block.rows), default=0)
    beside = longest + 2 + max((len(text) for _, text in block.rows), default=0) <= width
    lines: list[RenderableType] = []
    for name, text in block.rows:
        line = safe(name, "bold")
        if beside:
            line.append(" " * (longest + 2 - width_of(line.plain)))
        lines += [line.append_text(safe(text, "dim"))] if beside else [line, safe(f"    {text}", "dim")]
    return Group(*lines)


def _tables(parts: Sequence[Table]) -> RenderableType:
    drawn_parts: list[RenderableType] = []
    for part in parts:
        drawn_parts += [*([Text()] if drawn_parts else []), _table(part)]
    return Group(*drawn_parts)


def _table(table: Table) -> RenderableType:
    # No padding on the left: what divides columns is two wide, as in a pipe.
    drawn_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns:
        drawn_table.add_column(
            safe(column.title),
            justify=column.align,
            no_wrap=not column.is_prose,
            overflow="fold",
            header_style="bold",
            vertical="top",
        )
    for row in table.rows:
        drawn_table.add_row(*(safe(cell) for cell in row))
    return drawn_table


def _records(table: Table) -> RenderableType:
    """A table that is wider than the window, row by row."""
    parts: list[RenderableType] = []
    for number, row in enumerate(table.rows):
        parts += [Text()] if number else []
        parts.append(
            _pairs(Pairs([(column.title, cell) for column, cell in zip(table.columns, row, strict=True)]))
        )
    return Group(*parts)
