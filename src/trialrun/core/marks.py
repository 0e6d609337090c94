"""A set of names in 24 to 48 bytes for each, however long they are: fifty thousand calls of each pack may be out.

A Python set of the same names takes two hundred. In place of a name stands its digest of 128 bits, in a table that is
one block of bytes; the names themselves are elsewhere, on disk.
"""

import hashlib
from collections.abc import Iterable

_SIZE = 16
_EMPTY = bytes(_SIZE)
_GONE = b"\xff" * _SIZE
"""Where a mark stood: a search goes on behind it."""
_FEWEST = 64


class Marks:
    """Names that can be put in, taken out, and asked for."""

    __slots__ = ("_cells", "_count", "_mask", "_used")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._lay_out(_FEWEST)
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return self._count > 0 and self._at(self._place(_mark(name))) != _EMPTY

    def add(self, name: str) -> None:
        mark = _mark(name)
        place = self._place(mark)
        if self._at(place) != _EMPTY:
            return
        if 3 * (self._used + 1) > 2 * (self._mask + 1):
            self._make_room()
            place = self._place(mark)
        self._put(place, mark)
        self._count += 1
        self._used += 1

    def discard(self, name: str) -> None:
        place = self._place(_mark(name))
        if self._at(place) == _EMPTY:
            return
        self._put(place, _GONE)
        self._count -= 1
        if not self._count:
            self._lay_out(_FEWEST)

    # --- the table: a mark stands at the place that it names, or behind it where that was taken ----------------------

    def _lay_out(self, places: int) -> None:
        self._cells = bytearray(places * _SIZE)
        self._mask = places - 1
        self._count = self._used = 0

    def _place(self, mark: bytes) -> int:
        """Where the mark stands; the empty place that ends the search for it if it does not."""
        place = int.from_bytes(mark[:8], "little") & self._mask
        while (cell := self._at(place)) != mark and cell != _EMPTY:
            place = (place + 1) & self._mask
        return place

    def _at(self, place: int) -> bytes:
        return bytes(self._cells[place * _SIZE : (place + 1) * _SIZE])

    def _put(self, place: int, mark: bytes) -> None:
        self._cells[place * _SIZE : (place + 1) * _SIZE] = mark

    def _make_room(self) -> None:
        """A table in which half of the places, or more, are empty; what is gone is left behind."""
        cells, count = self._cells, self._count
        places = _FEWEST
        while places < 2 * (count + 1):
            places *= 2
        self._lay_out(places)
        for start in range(0, len(cells), _SIZE):
            mark = bytes(cells[start : start + _SIZE])
            if mark not in (_EMPTY, _GONE):
                self._put(self._place(mark), mark)
        self._count = self._used = count


def _mark(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()
