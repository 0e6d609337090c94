"""Settings that are a folder: its files as plain data.

A YAML file is what it says, a text is a text, and a folder in it is a map; the key of each is its name without the
ending. Reading the disk is the caller's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trialrun.core.paths import Keys, put
from trialrun.core.reading.source import Source, read_source

ReadFolder = Callable[[str], Mapping[str, str] | None]
"""Gives the texts of a folder by their paths inside it, or None where there is no such folder."""

YAML = (".yaml", ".yml")
ENDINGS = (*YAML, ".md", ".txt")


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder as read. Where a file could not be read, its source says why."""

    data: Mapping[str, object]
    sources: Mapping[Keys, Source]
    """The YAML files by the keys under which their data stand."""
    twice: tuple[tuple[str, str], ...]
    """Files that would stand under one key."""


def folder_of(name: str, files: Mapping[str, str]) -> Folder:
    """The data of a folder; `name` is how messages begin the names of its files."""
    data: dict[str, object] = {}
    sources: dict[Keys, Source] = {}
    seen: dict[Keys, str] = {}
    twice: list[tuple[str, str]] = []
    for path in sorted(files):
        keys = keys_of(path)
        if keys in seen:
            twice.append((seen[keys], path))
            continue
        seen[keys] = path
        value: object = files[path].removeprefix("\ufeff").replace("\r\n", "\n").rstrip()
        if path.endswith(YAML):
            source = sources[keys] = read_source(files[path], file=f"{name}/{path}")
            value = source.data
        data = put(data, keys, value)
    return Folder(data=data, sources=sources, twice=tuple(twice))


def keys_of(path: str) -> Keys:
    """Where a file of the folder stands in its data: `actors/mayor.yaml` at actors, mayor."""
    *folders, file = path.split("/")
    return (*folders, file.rpartition(".")[0])
