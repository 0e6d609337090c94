"""Files that hold one thing a line, and work that only one process does at a time."""

import fcntl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from trialrun.core.ports import Clock

_LOOK_AGAIN_S = 0.2


def filled_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


@asynccontextmanager
async def alone(path: Path, clock: Clock) -> AsyncGenerator[None]:
    """Wait until no other process is inside with the same file; one that is killed is inside no longer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await clock.sleep(_LOOK_AGAIN_S)
            else:
                break
        yield
