"""CSV as RFC 4180 has it, safe to open in a spreadsheet.

A spreadsheet runs what looks like a formula, and model output is hostile input: a text that begins with = + - @, tab,
carriage return or NUL gets an apostrophe in front, in headers too. Numbers are numbers and stay as they are. A text
that begins with apostrophes before such a character gets one more, so reading back is exact: `undefused`.

An empty text is `""` and a missing value is nothing between the commas, which the readers that can tell do tell apart.
Only in a table of a single column is a missing value `""` too: readers skip an empty line.

Written by hand and not with the `csv` module, which before Python 3.12 cannot make that difference.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from trialrun.export.rows import Cell, Row, in_order, opened, spelled, valid

# Most cells: a word first, nothing special inside, no space last.
_HARMLESS = re.compile(r'\w[^",\r\n\ufeff]*(?<! )')
_FORMULA = re.compile(r"'*[=+\-@\t\r\0]")
_NEEDS_QUOTES = re.compile(r'[",\r\n\ufeff]|^ | $|^$')
# Not "\n": every reader agrees on this one, and a lone "\r" inside a text is then quoted by all of them.
_NUMBERS = int, float, Decimal
_LINE_END = "\r\n"


@dataclass(frozen=True)
class CsvWriter:
    """Comma-separated values in UTF-8, with a header."""

    name: str = "csv"

    def write(self, columns: Sequence[str], rows: Iterable[Row], target: Path | BinaryIO) -> int:
        count = 0
        with opened(target) as stream:
            stream.write(_line([_text(valid(column)) for column in columns]))
            for cells in in_order(columns, rows):
                stream.write(_line([_field(cell) for cell in cells]))
                count += 1
        return count


def undefused(text: str) -> str:
    """A text cell as it was before it was made safe for spreadsheets."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _line(fields: list[str]) -> bytes:
    line = ",".join(fields) or '""'
    return (line + _LINE_END).encode()


def _field(cell: Cell) -> str:
    if isinstance(cell, str):
        return _text(cell)
    text = spelled(cell)
    # A list or record has commas and quotes; a number needs nothing, though it may begin with a minus.
    return text if cell is None or isinstance(cell, _NUMBERS) else _text(text)


def _text(text: str) -> str:
    if _HARMLESS.fullmatch(text):
        return text
    if _FORMULA.match(text):
        text = "'" + text
    if _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text
