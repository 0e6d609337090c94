"""Seeds and orders that follow from the study seed alone.

Every source of chance is a named branch of one tree of keys: study → trial → party → call. Nobody shares a stream,
so one more draw here never shifts the numbers there.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache

_SMALL = 4096
_ROUNDS = 6


def derive(key: bytes, *names: str | int) -> bytes:
    """The key of a named branch below `key`."""
    joined = "\x1f".join(map(str, names)).encode()
    return hashlib.blake2b(joined, key=key, digest_size=32).digest()


@lru_cache(maxsize=16)
def study_key(seed: int) -> bytes:
    """The root of all chance in a study."""
    return derive(b"trialrun", "study", seed)


def integer(key: bytes, *, bits: int = 63) -> int:
    """A non-negative integer of so many bits, for generators and provider seeds."""
    return int.from_bytes(key[:16], "big") >> (128 - bits)


def fraction(key: bytes) -> float:
    """A number in [0, 1)."""
    return integer(key, bits=53) / (1 << 53)


def permuted(size: int, key: bytes) -> Iterator[int]:
    """0..size-1 in an order that depends only on `key`.

    Small sizes are shuffled (every order equally likely). Large ones go through a keyed permutation of the index,
    which needs no memory: a million conditions cost as little as ten.
    """
    if size <= _SMALL:
        yield from _shuffled(size, key)
        return
    left = int(size**0.5) + 1
    right = -(-size // left)
    keys = [integer(derive(key, round_), bits=62) for round_ in range(_ROUNDS)]
    for index in range(size):
        place = _feistel(index, left, right, keys)
        while place >= size:
            place = _feistel(place, left, right, keys)
        yield place


def _shuffled(size: int, key: bytes) -> list[int]:
    items = list(range(size))
    draws = _draws(key)
    for last in range(size - 1, 0, -1):
        # 64 bits against at most 4,096 places: the bias is below one in 10**15.
        other = next(draws) % (last + 1)
        items[last], items[other] = items[other], items[last]
    return items


def _draws(key: bytes) -> Iterator[int]:
    counter = 0
    while True:
        block = hashlib.blake2b(counter.to_bytes(8, "big"), key=key, digest_size=64).digest()
        yield from (int.from_bytes(block[i : i + 8], "big") for i in range(0, 64, 8))
        counter += 1


def _feistel(index: int, left: int, right: int, keys: list[int]) -> int:
    """One keyed bijection of 0..left*right-1: alternate halves are shifted by a mix of the other half."""
    a, b = divmod(index, right)
    for number, key in enumerate(keys):
        if number % 2:
            a = (a + _mix(b ^ key)) % left
        else:
            b = (b + _mix(a ^ key)) % right
    return a * right + b


def _mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)
