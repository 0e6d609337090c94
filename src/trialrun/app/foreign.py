"""Plans of other tools: what a format says of one, and which formats are known.

The formats are in `compat`, which stands above this part, so they are not imported here: a front door offers them
(`compat.registry`) before it opens a study. From then on `app.studies` takes such a plan wherever it takes a study.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a front door offers formats before it knows whether anything is read
    from trialrun.core.paths import Path as Place
    from trialrun.core.reading.source import Place as Lines

_NOWHERE: "Mapping[Place, Lines]" = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """Another tool's plan as a study."""

    document: Mapping[str, object]
    """The study, as a study file would say it."""
    home: Path
    """Where relative paths in it start."""
    folder: Path | None = None
    """Where live results go; rehearsed ones go beside it. None: `results/NAME` in `home`, as for any study."""
    text: str
    """The plan as given, for the archive. It must hold no key and no other secret."""
    places: "Mapping[Place, Lines]" = field(default_factory=lambda: _NOWHERE)
    """Which line of the text says what stands at a path of the study; a mistake there is reported there."""


class View(Protocol):
    """The other tool's files in a results folder, written out of the journal."""

    def refresh(self, *, is_last: bool = False) -> None:
        """Write what changed since the last time; `is_last`: the run is over. Raises OSError and StoreError.

        It runs in a thread, beside the run, and never twice at a time.
        """
        ...


class Format(Protocol):
    """One plan format of another tool."""

    def translate(self, file: Path, text: str) -> Translation:
        """The plan as a study. Raises StudyMistakes with everything that is wrong in the file."""
        ...

    def view(self, folder: Path) -> View | None:
        """The tool's files for the results in this folder, if it has any."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A format, cheap to look at: nothing of it is imported before a plan of its kind is there."""

    name: str
    files: tuple[str, ...]
    """What such plans are usually called; a folder that holds one stands for it."""
    recognises: Callable[[str, str], bool]
    """Whether this is such a plan, by the name of its file and its text."""
    made: Callable[[], Format]


_OFFERS: dict[str, Offer] = {}


def offer(one: Offer) -> None:
    """Make a format known. Doing it twice is the same as once."""
    _OFFERS[one.name] = one


def offers() -> tuple[Offer, ...]:
    return tuple(_OFFERS.values())


def format_of(name: str) -> Format | None:
    """The format with this name, if it is known."""
    return _OFFERS[name].made() if name in _OFFERS else None


def recognised(file: Path, text: str) -> str:
    """The name of the format that this plan has; empty for a study file."""
    return next((each.name for each in offers() if each.recognises(file.name, text)), "")


def plan_in(folder: Path) -> Path | None:
    """The plan of another tool that a folder holds, under one of its usual names."""
    for each in offers():
        for name in each.files:
            file = folder / name
            if file.is_file() and each.recognises(name, file.read_text(encoding="utf-8", errors="replace")):
                return file
    return None
