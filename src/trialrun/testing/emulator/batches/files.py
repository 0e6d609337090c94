"""Files that clients upload and that batches leave behind: on disk, in a folder that goes with the emulator."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(kw_only=True, slots=True)
class Stored:
    """A file as a provider knows it. Times are seconds since 1970."""

    id: str
    provider: str
    owner: str
    name: str
    purpose: str
    path: Path
    size: int
    created_at: float
    expires_at: float | None = None
    media_type: str = "application/jsonl"
    fetched: int = 0
    """How often a client that was still there got all of it."""
    batch: int = 0
    """The number of the batch whose results it holds; 0 if it holds none."""
    model: str = ""

    def is_there(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


class Files:
    """All files of all providers, by provider, owner and id."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._places = itertools.count(1)
        self._numbers = itertools.count(1)
        self._stored: dict[tuple[str, str, str], Stored] = {}

    def place(self) -> Path:
        """A path for bytes that are about to come."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="trialrun-emulator-")
        return Path(self._folder.name) / f"{next(self._places):06d}"

    def number(self) -> int:
        """A number that no other file has, from 1: files that come at one time must not share an id."""
        return next(self._numbers)

    def add(self, stored: Stored) -> None:
        self._stored[stored.provider, stored.owner, stored.id] = stored

    def find(self, provider: str, owner: str, id_: str, now: float) -> Stored | None:
        """The file, if it is still there."""
        found = self._stored.get((provider, owner, id_))
        return found if found is not None and found.is_there(now) else None

    def remove(self, stored: Stored) -> None:
        """Forget a file. Its bytes stay until the end, as a batch may be reading them."""
        self._stored.pop((stored.provider, stored.owner, stored.id), None)

    def of(self, provider: str, owner: str, now: float) -> Iterator[Stored]:
        """The files of an account, oldest first."""
        for stored in self._stored.values():
            if (stored.provider, stored.owner) == (provider, owner) and stored.is_there(now):
                yield stored

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._stored.values())

    def clear(self) -> None:
        """Forget everything, and remove what is on disk."""
        self._stored.clear()
        self._numbers = itertools.count(1)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
