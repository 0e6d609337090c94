"""Files that appear whole or not at all: whoever reads one meets the old content or the new one, never a half of it."""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def put(path: Path, text: str | bytes) -> Path:
    """Write a file that follows from the journal. The same content is left alone, and nobody waits for the disk."""
    body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if path.is_file() and path.read_bytes() == body:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    try:
        partial.write_bytes(body)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Put these bytes into a file, durably."""
    with whole(path) as file:
        file.writelines(chunks)


@contextmanager
def whole(path: Path) -> Generator[BinaryIO]:
    """A file to fill; it takes its name, durably, when all of it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    _sync(path.parent)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
