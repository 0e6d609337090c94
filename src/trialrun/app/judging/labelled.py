"""Labelled units: talks whose right ratings are known, from a YAML or JSON-lines file.

    - id: e1
      talk: [{party: listener, text: How was work?}, {party: person, text: Fine.}]
      profile: {fear: being found out}      # where the rubric needs one
      labels: {disclosure: 1}               # by item; of single turns: {disclosure: {1: 1, 2: 4}}

Each is kept as one line of JSON, without the labels: what a rater is asked does not depend on what is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from trialrun.core.errors import Mistake, StudyMistakes, UsageError
from trialrun.core.identity import text_hash
from trialrun.core.near import pick
from trialrun.core.paths import Path as Keys
from trialrun.core.paths import as_map
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.source import Source, read_source
from trialrun.core.rubric import Item, Rubric

_KEYS = ("id", "talk", "profile", "labels")
_UTTERANCE = ("party", "text", "turn")
Label = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Gold:
    """The right value of one item about one unit."""

    unit: str
    """The hash under which the labelled unit is stored."""
    number: int
    item: str
    value: Label


def read_labelled(file: Path, rubric: Rubric) -> str:
    """The units of a file as they are given to raters: one line of JSON each."""
    source = _source_of(file)
    entries = _checked(source, rubric)
    lines = dict.fromkeys(_line(entry) for entry in entries)
    if len(lines) < len(entries):
        raise UsageError("two labelled units have the same talk", where=str(file), fix="keep one of them")
    return "\n".join(lines)


def gold_of(file: Path, rubric: Rubric) -> list[Gold]:
    """The labels of a file."""
    found: list[Gold] = []
    for entry in _checked(_source_of(file), rubric):
        unit = text_hash(_line(entry))
        for item, value in (as_map(entry.get("labels")) or {}).items():
            turns = as_map(value)
            values = {0: value} if turns is None else {int(number): each for number, each in turns.items()}
            found += [
                Gold(unit=unit, number=number, item=item, value=cast("Label", each))
                for number, each in values.items()
                if each is not None
            ]
    return found


def _line(entry: Mapping[str, object]) -> str:
    shown = {key: entry[key] for key in ("talk", "profile") if entry.get(key) is not None}
    return msgspec.json.encode(shown, order="deterministic").decode()


def _source_of(file: Path) -> Source:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the labelled units `{file}` cannot be read", where=str(file), fix="name a file"
        ) from error
    if file.suffix == ".jsonl":
        # A list in YAML's flow style is JSON: one reader finds the lines of all mistakes.
        text = "\n".join(f"- {line}" for line in text.splitlines() if line.strip())
    return read_source(text, file=str(file))


def _checked(source: Source, rubric: Rubric) -> list[Mapping[str, object]]:
    """The entries of a file, or StudyMistakes with all that is wrong."""
    mistakes = Mistakes(source, {})
    mistakes.raise_if_any()
    data = source.data
    entries = cast("list[object]", data) if isinstance(data, list) else []
    if not entries:
        what = "there are no labelled units"
        fix = "write a list: `- {talk: [...], labels: {...}}`"
        raise StudyMistakes((Mistake(what=what, file=source.file, fix=fix),))
    found: list[Mapping[str, object]] = []
    for place, entry in enumerate(entries):
        known = as_map(entry)
        if known is None:
            mistakes.add("a labelled unit must be a map", (place,), "write `- talk: ...`")
            continue
        found.append(known)
        _check_entry(known, (place,), rubric, mistakes)
    mistakes.raise_if_any()
    return found


def _check_entry(entry: Mapping[str, object], path: Keys, rubric: Rubric, mistakes: Mistakes) -> None:
    for key in entry:
        if key not in _KEYS:
            mistakes.add(f"a labelled unit has no key `{key}`", (*path, key), pick(key, _KEYS), key=True)
    talk = entry.get("talk")
    if not isinstance(talk, list) or not talk:
        mistakes.add("a labelled unit needs its `talk`", path, "add `talk: [{party: ..., text: ...}]`")
    for place, said in enumerate(cast("Sequence[object]", talk) if isinstance(talk, list) else ()):
        _check_utterance(as_map(said), (*path, "talk", place), mistakes)
    labels = as_map(entry.get("labels"))
    if not labels:
        mistakes.add("a labelled unit needs `labels`", path, "add `labels: {item: value}`")
        return
    items = {item.id: item for item in rubric.items}
    for name, value in labels.items():
        at = (*path, "labels", name)
        if name not in items:
            mistakes.add(f"the rubric has no item `{name}`", at, pick(name, items), key=True)
        else:
            _check_label(items[name], value, rubric, at, mistakes)


def _check_utterance(said: Mapping[str, object] | None, path: Keys, mistakes: Mistakes) -> None:
    if said is None or not all(isinstance(said.get(key), str) for key in ("party", "text")):
        mistakes.add("an utterance needs `party` and `text`", path, "write {party: client, text: ...}")
        return
    for key in said:
        if key not in _UTTERANCE:
            mistakes.add(f"an utterance has no key `{key}`", (*path, key), pick(key, _UTTERANCE), key=True)


def _check_label(item: Item, value: object, rubric: Rubric, path: Keys, mistakes: Mistakes) -> None:
    turns = as_map(value)
    if (rubric.granularity == "session") != (turns is None):
        fix = "write {turn number: value}" if turns is None else "write one value for the whole talk"
        mistakes.add(f"the rubric rates a {'session' if turns else 'turn'} at a time", path, fix)
        return
    for number, each in (turns or {"": value}).items():
        at = (*path, number) if turns else path
        if turns and not number.isdecimal():
            mistakes.add(
                f"`{number}` is no number of a turn", at, "count the subject's turns from 1", key=True
            )
        if each is not None and not _suits(item, each):
            mistakes.add(f"`{each}` is no answer to `{item.id}`", at, _wanted(item))


def _suits(item: Item, value: object) -> bool:
    match item.paradigm:
        case "binary":
            return isinstance(value, bool)
        case "scalar":
            low, high = item.scale or (0, 0)
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        case "categorical":
            return value in item.labels
        case "extraction":
            return False


def _wanted(item: Item) -> str:
    match item.paradigm:
        case "binary":
            return "write true or false"
        case "scalar":
            low, high = item.scale or (0, 0)
            return f"write a whole number from {low} to {high}"
        case "categorical":
            return f"write one of {', '.join(item.labels)}"
        case "extraction":
            return "an extraction has no single right value; leave it out"
