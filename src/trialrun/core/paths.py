"""Dotted paths into plain nested data: read, set without changing the original, compare."""

from collections.abc import Mapping
from typing import cast

Keys = tuple[str, ...]
"""A path inside a document."""
Path = tuple[str | int, ...]
"""A path inside a file, list positions included."""


def as_map(value: object) -> Mapping[str, object] | None:
    """The value as a map of texts, or None when it is something else."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def split(dotted: str, document: object = None) -> Keys:
    """The keys of a dotted path. Where the document has keys with dots in them (`prices.openai/gpt-4.1.input`),
    the longest key that exists is taken."""
    parts = dotted.split(".")
    keys: list[str] = []
    here = document
    while parts:
        known = as_map(here) or {}
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known), 1)
        key = ".".join(parts[:length])
        keys.append(key)
        parts = parts[length:]
        here = _child(here, key)
    return tuple(keys)


def has(document: object, keys: Keys) -> bool:
    """Whether something, None included, stands at the path."""
    for length, key in enumerate(keys):
        here = get(document, keys[:length])
        if key not in (as_map(here) or ()) and not _is_place(here, key):
            return False
    return True


def get(document: object, keys: Keys) -> object:
    """What stands at the path, or None."""
    here = document
    for key in keys:
        here = _child(here, key)
    return here


def put(document: Mapping[str, object], keys: Keys, value: object) -> dict[str, object]:
    """A copy of the document with the value at the path; what the path does not touch is shared.

    Missing maps on the way are made. Raises KeyError with the key that cannot be entered.
    """
    return cast("dict[str, object]", _put(document, keys, value))


def overlap(one: Keys, other: Keys) -> bool:
    """Whether setting one path touches the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _put(here: object, keys: Keys, value: object) -> object:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    nothing: Mapping[str, object] = {}
    known = nothing if here is None else as_map(here)
    if known is not None:
        return {**known, key: _put(known.get(key), rest, value)}
    if _is_place(here, key):
        copy = list(cast("list[object]", here))
        copy[int(key)] = _put(copy[int(key)], rest, value)
        return copy
    raise KeyError(key)


def _child(here: object, key: str) -> object:
    if _is_place(here, key):
        return cast("list[object]", here)[int(key)]
    return (as_map(here) or {}).get(key)


def _is_place(here: object, key: str) -> bool:
    return isinstance(here, list) and key.isdecimal() and int(key) < len(cast("list[object]", here))


def dotted(path: Path) -> str:
    """The path as the file would spell it."""
    return ".".join(str(part) for part in path)
