"""Blocks on a terminal, through rich: colours, wrapped lines, tables that fit the window.

Texts go in as `Text`, never as markup, and defused: what a model wrote is shown, not obeyed.
"""

from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style as RichStyle
from rich.table import Table as RichTable
from rich.text import Text

from trialrun.cli.blocks import Block, Line, Pairs, Style, Table, Verbatim
from trialrun.cli.defuse import defused

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
        console.print(drawn(block), soft_wrap=isinstance(block, Verbatim))


def drawn(block: Block) -> RenderableType:
    """A block as rich draws it."""
    match block:
        case Line():
            return _error(block.text) if block.style == "error" else _line(block)
        case Verbatim():
            return safe(block.text, _STYLES[block.style])
        case Pairs():
            grid = RichTable.grid(padding=(0, 2))
            grid.add_column(style="bold" if block.are_commands else "dim", overflow="fold")
            grid.add_column(style="dim" if block.are_commands else "", overflow="fold")
            for name, text in block.rows:
                grid.add_row(safe(name), safe(text))
            return grid
        case Table():
            return _table(block)


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


def _table(table: Table) -> RenderableType:
    drawn_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for column in table.columns:
        drawn_table.add_column(
            safe(column.title), justify=column.align, overflow="fold", header_style="bold", vertical="top"
        )
    for row in table.rows:
        drawn_table.add_row(*(safe(cell) for cell in row))
    return Padding(drawn_table, (0, 0))
