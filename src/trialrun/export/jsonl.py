"""JSON lines: one object per row, every column in every row, null where a value is missing.

Money is a JSON number with all its digits; a reader that wants them exact parses numbers as decimals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trialrun.export.rows import Row, in_order, json_bytes, opened


@dataclass(frozen=True)
class JsonlWriter:
    """One JSON object per line, in UTF-8."""

    name: str = "jsonl"

    def write(self, columns: Sequence[str], rows: Iterable[Row], target: Path | BinaryIO) -> int:
        count = 0
        with opened(target) as stream:
            for cells in in_order(columns, rows):
                stream.write(json_bytes(dict(zip(columns, cells, strict=True))) + b"\n")
                count += 1
        return count
