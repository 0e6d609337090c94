"""Labels of levels: short, readable, and the same wherever the level stands in the file."""

from collections.abc import Mapping
from typing import cast

from trialrun.core import identity

LONGEST = 40
_SHORT = 24


def label_of(value: object) -> str:
    """A scalar's own text; long texts, lists and maps get their beginning and a hash of the whole."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _short(value, value) if value.strip() else "(empty)"
        case _:
            return _short(_compact(value), value)


def label_of_file(name: str) -> str:
    """`prompts/warm.md` → `warm`."""
    return name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0] or name


def together(labels: list[str]) -> str:
    """One label for several values that vary together."""
    distinct = list(dict.fromkeys(labels))
    joined = "+".join(distinct)
    return joined if len(joined) <= LONGEST else f"{distinct[0][:_SHORT]}~{identity.digest(distinct, size=4)}"


def _short(text: str, value: object) -> str:
    if len(text) <= LONGEST and text.isprintable() and text == text.strip():
        return text
    words = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    return f"{words[:_SHORT].strip()}~{identity.digest(value, size=4)}"


def _compact(value: object) -> str:
    if isinstance(value, Mapping):
        known = cast("Mapping[str, object]", value)
        return ",".join(f"{key}={_compact(known[key])}" for key in sorted(known))
    if isinstance(value, list):
        return "[" + ",".join(_compact(item) for item in cast("list[object]", value)) + "]"
    return label_of(value) if value is None or isinstance(value, bool | int | float) else str(value)
