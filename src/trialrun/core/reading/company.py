"""In which company a level is judged: levels of all other factors with which it meets in some condition.

A level may be wrong beside levels that the design never puts beside it, and that is no mistake.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from trialrun.core.reading.arrangement import Arrangement, LabelMap
from trialrun.core.reading.factors import Draft, FactorDraft

_MOST_TRIED = 1000


class Company:
    """Finds a condition that a level is part of, as drafts."""

    def __init__(self, drafts: Sequence[FactorDraft], arrangement: Arrangement) -> None:
        self._levels = {draft.name: {level.label: level for level in draft.levels} for draft in drafts}
        self._firsts = {draft.name: draft.levels[0] for draft in drafts}
        self._by_place = {draft.name: draft.levels for draft in drafts}
        self._zips = [[name for name in group if name in self._levels] for group in arrangement.zips]
        self._excluded = arrangement.excluded
        self._is_listed = bool(arrangement.listed)
        self._rows: dict[tuple[str, str], LabelMap] = {}
        for row in (*arrangement.listed, *arrangement.included):
            for name, label in row.items():
                self._rows.setdefault((name, label), row)

    def of(self, factor: str, place: int) -> list[Draft] | None:
        """One level of each other factor, for the level at this place of a factor; None when no condition has it."""
        label = self._by_place[factor][place].label
        row = self._rows.get((factor, label))
        found = None if self._is_listed else self._crossed(factor, place)
        if found is None and row is not None:
            found = {
                name: self._levels[name][own]
                for name, own in row.items()
                if own in self._levels.get(name, {})
            }
        if found is None:
            return None
        return [level for name, level in (self._firsts | found).items() if name != factor]

    def any_of(self, factor: str) -> list[Draft]:
        """The first level of each other factor."""
        return [level for name, level in self._firsts.items() if name != factor]

    def _crossed(self, factor: str, place: int) -> dict[str, Draft] | None:
        """The first crossing with this level that is not excluded."""
        axes: list[list[dict[str, Draft]]] = []
        zipped = {name for group in self._zips for name in group}
        for group in (*self._zips, *([name] for name in self._levels if name not in zipped)):
            entries = [dict(zip(group, row, strict=True)) for row in _rows_of(group, self._by_place)]
            axes.append(entries[place : place + 1] if factor in group else entries)
        for entries in islice(product(*axes), _MOST_TRIED):
            levels = {name: level for entry in entries for name, level in entry.items()}
            if not any(_matches(levels, out) for out in self._excluded):
                return levels
        return None


def _rows_of(group: Sequence[str], levels: Mapping[str, tuple[Draft, ...]]) -> Iterator[tuple[Draft, ...]]:
    # Groups of unequal lengths have been reported; what they share is enough here.
    return zip(*(levels[name] for name in group), strict=False)


def _matches(levels: Mapping[str, Draft], labels: LabelMap) -> bool:
    return all(name in levels and levels[name].label == label for name, label in labels.items())
