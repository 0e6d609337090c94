"""Draws that follow from a few bytes alone: the same on every machine, in every process, in any order of calls.

The standard generator would do, but seeding it costs more than a whole reply needs.
"""

import hashlib
import struct
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeVar

T = TypeVar("T")

_DRAWS = 256
_UNPACK = struct.Struct(f"<{_DRAWS}H").unpack
_NORMAL = NormalDist()


class Dice:
    """A stream of draws from a seed."""

    __slots__ = ("_at", "_block", "_draws", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._block = 0
        self._at = 0
        self._draws: tuple[int, ...] = _UNPACK(hashlib.shake_128(seed).digest(2 * _DRAWS))

    def _draw(self) -> int:
        """16 bits."""
        at = self._at
        if at == _DRAWS:
            self._block += 1
            seed = self._seed + self._block.to_bytes(8, "big")
            self._draws = _UNPACK(hashlib.shake_128(seed).digest(2 * _DRAWS))
            at = 0
        self._at = at + 1
        return self._draws[at]

    def copy(self) -> "Dice":
        """The same draws as from here on, once more."""
        other = Dice.__new__(Dice)
        other._seed, other._block, other._at, other._draws = self._seed, self._block, self._at, self._draws
        return other

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, of which there are few."""
        return items[self._draw() * len(items) >> 16]

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        if bound <= 1 << 10:
            return self._draw() * bound >> 16
        wide = 0
        for _ in range(bound.bit_length() // 16 + 2):
            wide = wide << 16 | self._draw()
        return wide % bound

    def fraction(self) -> float:
        """A number in (0, 1)."""
        return (self._draw() * 65536 + self._draw() + 0.5) / 4294967296.0

    def happens(self, share: float) -> bool:
        return self.fraction() < share

    def normal(self) -> float:
        return _NORMAL.inv_cdf(self.fraction())


def normal_at(quantile: float) -> float:
    """The standard normal value at a quantile."""
    return _NORMAL.inv_cdf(quantile)
