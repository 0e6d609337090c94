"""Reading files that hold one thing a line."""

from collections.abc import Iterator
from pathlib import Path


def filled_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line
