"""Which entries of a file become levels of a factor: `{from: FILE, to: PATH, where: {field: [value]}, first: N}`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.entries import Entry, entries_of, read_entries
from trialrun.core.reading.labels import label_of
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.texts import Texts

Data = Mapping[str, object]
KEYS = ("from", "to", "where", "first")


@dataclass(frozen=True, slots=True)
class Picked:
    """One entry, and where in its file it stands."""

    index: int
    entry: Entry

    @property
    def label(self) -> str:
        known = as_map(self.entry)
        own = known.get("id") if known else None
        return label_of(self.entry if own is None else own)


def picked(form: Data, at: Path, texts: Texts, mistakes: Mistakes) -> list[Picked]:
    """The entries that the form asks for, in the order of the file. Whatever is wrong is added to `mistakes`."""
    before = len(mistakes)
    for key in form:
        if key not in KEYS:
            mistakes.add(f"a factor with `from` has no key `{key}`", (*at, key), pick(key, KEYS), key=True)
    found = [Picked(index, entry) for index, entry in enumerate(_read(form["from"], at, texts, mistakes))]
    if len(mistakes) > before:
        return []
    if not found:
        mistakes.add("this file has no entries", (*at, "from"), "write one entry a line")
        return []
    where = as_map(form.get("where", {}))
    if where is None:
        mistakes.add("`where` must be a map", (*at, "where"), "write {family: [fire, food]}")
        return []
    for field, wanted in where.items():
        found = _matching(found, field, wanted, (*at, "where", field), mistakes)
    if not found:
        if len(mistakes) == before:
            mistakes.add("no entry matches all of `where`", (*at, "where"), "ask for less", key=True)
        return []
    return _first(found, form.get("first"), (*at, "first"), mistakes)


def _read(name: object, at: Path, texts: Texts, mistakes: Mistakes) -> Sequence[Entry]:
    path = (*at, "from")
    if not isinstance(name, str):
        mistakes.add("`from` must be the name of a file", path, "write {from: questions.txt}")
        return ()
    text = texts.read(name)
    if text is None:
        mistakes.add(
            f"there is no file `{name}`", path, texts.missing_fix(name, "create it beside the study file")
        )
        return ()
    source = read_entries(text, file=name)
    mistakes.graft(path, source)
    texts.sources[".".join(str(part) for part in path)] = name
    return entries_of(source)


def _matching(found: list[Picked], field: str, wanted: object, at: Path, mistakes: Mistakes) -> list[Picked]:
    values = [
        label_of(each) for each in (cast("list[object]", wanted) if isinstance(wanted, list) else [wanted])
    ]
    known = {label_of(value): None for each in found for value in _values_of(each.entry, field)}
    if not known:
        fields = {key: None for each in found for key in (as_map(each.entry) or ())}
        fix = pick(field, fields, otherwise="remove it: entries that are texts have no fields")
        mistakes.add(f"no entry has a field `{field}`", at, fix, key=True)
        return []
    for value in values:
        if value not in known:
            mistakes.add(f"no entry has the {field} `{value}`", at, pick(value, known))
    return [each for each in found if any(label_of(v) in values for v in _values_of(each.entry, field))]


def _values_of(entry: Entry, field: str) -> list[object]:
    """What the entry says under a field; each of several, where it is a list."""
    known = as_map(entry) or {}
    if field not in known:
        return []
    value = known[field]
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _first(found: list[Picked], count: object, at: Path, mistakes: Mistakes) -> list[Picked]:
    if count is None:
        return found
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        mistakes.add("`first` must be a whole number from 1", at, "give a number, or remove it")
        return []
    if count > len(found):
        mistakes.add(
            f"`first` asks for {count} of {len(found)} entries", at, f"write {len(found)}, or remove it"
        )
        return []
    return found[:count]
