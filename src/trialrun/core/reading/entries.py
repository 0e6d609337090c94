"""A file of entries, one level of a factor each: lines of text, a YAML list or map, or JSON lines.

    questions.txt      one text a line; blank lines, and lines that begin with #, are skipped
    questions.yaml     a list of texts or maps, or a map of name → entry, whose name becomes its `id`
    questions.jsonl    one text or map a line, as JSON; blank and # lines are skipped

What is wrong is reported at the line of that file. Which entries are taken, `core.reading.picks` says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from trialrun.core.errors import Mistake
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.source import Place, Source, read_source

Entry = str | Mapping[str, object]
_YAML = (".yaml", ".yml", ".json")
_LINES_OF_JSON = (".jsonl", ".ndjson")
_SHAPES = "write one text a line in a .txt file, or a list of texts or maps in a .yaml file"


def read_entries(text: str, *, file: str) -> Source:
    """The file's entries as a list, with the line of each and of each of its keys."""
    lower = file.lower()
    if lower.endswith(_LINES_OF_JSON):
        return _checked(_of_lines(text, file, is_json=True))
    if lower.endswith(_YAML):
        return _checked(_listed(read_source(text, file=file)))
    return _of_lines(text, file, is_json=False)


def entries_of(source: Source) -> list[Entry]:
    """The entries that could be read."""
    return cast("list[Entry]", source.data)


def _of_lines(text: str, file: str, *, is_json: bool) -> Source:
    entries: list[object] = []
    places: dict[Path, Place] = {}
    mistakes: list[Mistake] = []
    for number, line in _filled_lines(text):
        inner = read_source(line, file=file) if is_json else None
        found = inner.mistakes if inner else ()
        mistakes += [replace(mistake, line=number, source=line) for mistake in found]
        if not found:
            index = len(entries)
            for path in inner.places if inner else ((),):
                places[index, *path] = Place(number, number)
            entries.append(line if inner is None else inner.data)
    return Source(file=file, text=text, data=entries, places=places, mistakes=tuple(mistakes))


def _filled_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            yield number, bare


def _listed(source: Source) -> Source:
    """The source with a map of named entries turned into a list of entries with ids."""
    named = as_map(source.data)
    if named is None:
        return source
    index_of = {name: index for index, name in enumerate(named)}
    entries = [_with_id(name, entry) for name, entry in named.items()]
    places: dict[Path, Place] = {
        (index_of[cast("str", path[0])], *path[1:]): place for path, place in source.places.items() if path
    }
    return replace(source, data=entries, places=places)


def _with_id(name: str, entry: object) -> object:
    known = as_map(entry)
    return (
        {"id": name, "text": entry} if isinstance(entry, str) else {"id": name, **known} if known else entry
    )


def _checked(source: Source) -> Source:
    """The source with everything left out that is neither text nor map, each as a mistake."""
    mistakes = list(source.mistakes)
    data = source.data
    if not isinstance(data, list):
        if not mistakes:
            mistakes.append(Mistake(what="this file holds no list of entries", file=source.file, fix=_SHAPES))
        return replace(source, data=[], mistakes=tuple(mistakes))
    for index, entry in enumerate(cast("list[object]", data)):
        if not (isinstance(entry, str) and entry.strip()) and not as_map(entry):
            line = source.line_of((index,))
            what = f"entry {index + 1} is neither a text nor a map"
            mistakes.append(
                Mistake(what=what, file=source.file, line=line, source=source.text_of(line), fix=_SHAPES)
            )
    return replace(source, mistakes=tuple(mistakes))
