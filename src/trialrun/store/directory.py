"""The rows of a pack by number and by id, read from its file one by one: 30 bytes of a row are in memory.

Results come in any order, so each needs its row from anywhere in the file.
"""

import os
from array import array
from pathlib import Path

import msgspec

from trialrun.core.batches import Row
from trialrun.core.errors import StoreError
from trialrun.store.failures import store_error

_BUFFER = 1 << 16
_BLOCK = 1 << 12
_row = msgspec.json.Decoder(Row).decode


class _Named(msgspec.Struct, array_like=True):
    """Of a row, what finds it; the rest is not looked at."""

    id: str


_named = msgspec.json.Decoder(_Named).decode


class FileDirectory:
    """The rows in one file that nobody changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begins = array("Q", [0])
        """Where each row begins, and where the last one ends."""
        self._hashes = array("q")
        with path.open("rb", buffering=_BUFFER) as file:
            for line in file:
                self._begins.append(self._begins[-1] + len(line))
                try:
                    self._hashes.append(hash(_named(line).id))
                except ValueError as error:
                    raise is_changed(path.parent.name, path) from error
        self._mask = (1 << (2 * len(self._hashes)).bit_length()) - 1
        self._numbers = self._table()
        """Number + 1 of the row whose hash names this place, or a place before it that was taken."""
        self._block, self._block_begins = b"", 0
        self._file = os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        return len(self._hashes)

    def number_of(self, id_: str) -> int | None:
        """Which row has this id, by its 64-bit hash. Whoever takes the row sees whether it really is."""
        hash_ = hash(id_)
        place = hash_ & self._mask
        while number := self._numbers[place]:
            if self._hashes[number - 1] == hash_:
                return number - 1
            place = (place + 1) & self._mask
        return None

    def row(self, number: int) -> Row:
        begin, end = self._begins[number], self._begins[number + 1]
        first = begin - self._block_begins
        if first < 0 or end - self._block_begins > len(self._block):
            self._read_block(begin, end - begin)
            first = 0
        try:
            return _row(self._block[first : first + end - begin])
        except ValueError as error:  # it was cut since, or written over
            raise is_changed(self._path.parent.name, self._path) from error

    def close(self) -> None:
        os.close(self._file)

    def _read_block(self, begin: int, most_needed: int) -> None:
        """Most results come in about the order of the requests: the next rows are likely wanted next."""
        try:
            self._block = os.pread(self._file, max(most_needed, _BLOCK), begin)
        except OSError as error:
            raise store_error(error, self._path) from error
        self._block_begins = begin

    def _table(self) -> "array[int]":
        numbers, mask = array("I", bytes((self._mask + 1) * array("I").itemsize)), self._mask
        for number, hash_ in enumerate(self._hashes, start=1):
            place = hash_ & mask
            while numbers[place]:
                place = (place + 1) & mask
            numbers[place] = number
        return numbers


def is_away(pack: str, path: Path) -> StoreError:
    return _not_as_stored(pack, path, "is not there", "it was copied or moved without it")


def is_changed(pack: str, path: Path) -> StoreError:
    return _not_as_stored(pack, path, "is not as it was stored", "something has written into it")


def _not_as_stored(pack: str, path: Path, how: str, why: str) -> StoreError:
    return StoreError(
        f"`{path.name}` of the batch {pack} {how}",
        where=str(path),
        fix=f"put the folder `batches` of the study back, as {why}",
    )
