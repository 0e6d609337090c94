"""Values of a program to plain data: what a study file could say, and nothing else."""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import cast

from trialrun.core.paths import Path, dotted

DEEPEST = 50
"""Values may be nested so deep, in a file as in a program; a value that contains itself is deeper."""


def plain_data(value: object) -> tuple[object, list[tuple[str, str]]]:
    """The value as maps, lists and scalars, and what in it is none of these, each with a fix."""
    wrong: list[tuple[str, str]] = []
    return _plain(value, (), wrong), wrong


def _plain(value: object, path: Path, wrong: list[tuple[str, str]]) -> object:
    if len(path) >= DEEPEST:
        wrong.append((f"values are nested deeper than {DEEPEST}", "make it flatter"))
        return None
    match value:
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**64:
            return int(value)
        case float() if isfinite(value):
            return float(value)
        case str() if is_unicode(value):
            return str(value)
        case Decimal() if value.is_finite():
            return str(value)
        case Mapping():
            entries = cast("Mapping[object, object]", value).items()
            return {str(key): _plain(item, (*path, str(key)), wrong) for key, item in entries}
        case list() | tuple():
            items = enumerate(cast("list[object]", value))
            return [_plain(item, (*path, index), wrong) for index, item in items]
        case _:
            what = f"`{dotted(path)}` is no plain data but {type(value).__name__} {value!r:.40}"
            wrong.append((what, "use text, numbers, true or false, None, lists and maps"))
            return None


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
