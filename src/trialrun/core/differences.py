"""What changed between two versions of a plan, for people to read before they consent."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trialrun.core.paths import as_map

_LONG = 60
_MOST_LINES = 24
_ABSENT = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One place in which two documents differ. None stands for absent too; `kind` tells them apart."""

    path: str
    kind: str
    """added, removed or changed."""
    old: object = None
    new: object = None
    diff: str = ""
    """For long texts: the lines that differ."""

    def __str__(self) -> str:
        if self.diff:
            return f"{self.path}:\n{self.diff}"
        if self.kind == "added":
            return f"{self.path}: added {_shown(self.new)}"
        if self.kind == "removed":
            return f"{self.path}: removed {_shown(self.old)}"
        return f"{self.path}: {_shown(self.old)} → {_shown(self.new)}"


def differences(old_document: Mapping[str, object], new_document: Mapping[str, object]) -> list[Change]:
    """All differences between two documents, by path; the order of keys is none."""
    return list(_compare((), old_document, new_document))


def _compare(path: tuple[str, ...], old: object, new: object) -> Iterator[Change]:
    before, after = as_map(old), as_map(new)
    if before is not None and after is not None:
        for key in sorted({*before, *after}):
            yield from _compare((*path, key), before.get(key, _ABSENT), after.get(key, _ABSENT))
        return
    name = ".".join(path)
    if old is _ABSENT:
        yield Change(path=name, kind="added", new=new)
    elif new is _ABSENT:
        yield Change(path=name, kind="removed", old=old)
    elif old != new or type(old) is not type(new):
        yield Change(path=name, kind="changed", old=old, new=new, diff=_diff(old, new))


def _diff(old: object, new: object) -> str:
    if not isinstance(old, str) or not isinstance(new, str) or max(len(old), len(new)) <= _LONG:
        return ""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=1))[2:]
    more = [f"… {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return f"`{text if len(text) <= _LONG else text[: _LONG - 1] + '…'}`"
