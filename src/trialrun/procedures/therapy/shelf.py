"""The characters and topics that come with Trialrun, by name, read when one is first asked for."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from trialrun.procedures.therapy.characters import KINDS
from trialrun.procedures.therapy.prompts import read_data

Data = Mapping[str, object]


class Shelf(Mapping[str, Data]):
    """Name → character, as plain data for a study's document."""

    def __getitem__(self, name: str) -> Data:
        return _characters()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_characters())

    def __len__(self) -> int:
        return len(_characters())

    def of_kind(self, kind: str) -> list[str]:
        """The names of all characters of a kind."""
        return [name for name, character in _characters().items() if character["kind"] == kind]


SHELF = Shelf()


@lru_cache(maxsize=1)
def _characters() -> dict[str, Data]:
    found: dict[str, Data] = {}
    for kind in KINDS:
        for name, entry in cast("dict[str, dict[str, Any]]", read_data("characters", f"{kind}.yaml")).items():
            found.update(_situations(name, {"kind": kind, **entry}))
    return found


def _situations(name: str, entry: dict[str, Any]) -> dict[str, Data]:
    """A person with several situations is as many characters: `mara` with `exam` is `mara-exam`."""
    situations = cast("dict[str, dict[str, Any]]", entry.pop("situations", {}))
    if not situations:
        return {name: entry}
    return {f"{name}-{short}": {**entry, **situation} for short, situation in situations.items()}
