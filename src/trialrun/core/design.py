"""Which conditions a study has, and in what order its trials are planned. Nothing is listed out: conditions are found
by index, so a million of them cost no memory.

I1. The order of factors and levels in the file changes nothing here: factors go by name, levels by label.
I2. Block b holds replicate b of every condition once, in an order of its own; so after any prefix of the schedule two
    conditions differ by at most one trial.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import msgspec

from trialrun.core import chance, identity
from trialrun.core.study import Condition, Factor, Level, Study

_KEPT = 8192


@dataclass(frozen=True, slots=True)
class _Axis:
    """One thing that varies by itself: a factor, or a group of zipped factors."""

    names: tuple[str, ...]
    entries: tuple[dict[str, Level], ...]
    place_of: dict[tuple[str, ...], int]
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A partial condition, as the entries that it allows on each axis that it speaks of."""

    allowed: dict[int, frozenset[int]]

    def fits(self, places: Sequence[int]) -> bool:
        return all(places[axis] in entries for axis, entries in self.allowed.items())


class Design:
    """The conditions of a study, by index. Indexes count excluded conditions too, so they never shift."""

    def __init__(self, study: Study) -> None:
        factors = sorted(study.factors, key=lambda factor: factor.name)
        self._names = tuple(factor.name for factor in factors)
        self._levels = {factor.name: {level.label: level for level in factor.levels} for factor in factors}
        self._rows = tuple(sorted(self._row(labels) for labels in study.listed))
        self._row_places = {row: place for place, row in enumerate(self._rows)}
        self._axes = () if self._rows else _axes_of(factors, study.zips)
        self._is_zipped = bool(study.zips)
        self._core = len(self._rows) if self._rows else prod(axis.size for axis in self._axes)
        self._excluded = tuple(dict(labels) for labels in study.excluded)
        self._patterns = tuple(self._pattern(labels) for labels in self._excluded)
        self._added: dict[tuple[str, ...], int] = {}
        wanted = sorted({self._row(labels) for labels in study.included})
        self._extra = tuple(row for row in wanted if self._index_of(row) is None)
        self._added = {row: self._core + place for place, row in enumerate(self._extra)}
        self.size = self._core + len(self._extra)
        """Number of indexes; with exclusions there are fewer conditions."""
        self._find = lru_cache(maxsize=_KEPT)(self._made) if self.size <= _KEPT else self._made

    def condition(self, index: int) -> Condition | None:
        """The condition at an index, or None when it is excluded."""
        return self._find(index)

    def __iter__(self) -> Iterator[Condition]:
        return self.at(range(self.size))

    def at(self, indexes: Iterable[int]) -> Iterator[Condition]:
        """The conditions at these indexes, without the excluded ones."""
        find = self._find
        for index in indexes:
            condition = find(index)
            if condition is not None:
                yield condition

    def count(self) -> int:
        """How many conditions there are. Exclusions are counted axis by axis, without walking the indexes."""
        if self._rows:
            return sum(self._is_kept(row) for row in self._rows) + len(self._extra)
        # Patterns that may still come to fit, after the axes so far → in how many ways.
        open_ways = {frozenset(range(len(self._patterns))): 1}
        for number, axis in enumerate(self._axes):
            complete = {
                which for which, pattern in enumerate(self._patterns) if max(pattern.allowed) == number
            }
            following: dict[frozenset[int], int] = {}
            for ruled_out, entries in self._ruled_out(number, axis.size).items():
                for still, ways in open_ways.items():
                    left = still - ruled_out
                    if complete.isdisjoint(left):
                        following[left] = following.get(left, 0) + ways * entries
            open_ways = following
        return sum(open_ways.values()) + len(self._extra)

    def by_labels(self, labels: Mapping[str, str]) -> Condition | None:
        """The condition with these labels; a factor with one level may be left out."""
        if any(name not in self._levels for name in labels):
            return None
        index = self._index_of(self._row(labels))
        return None if index is None else self.condition(index)

    def _made(self, index: int) -> Condition | None:
        if index >= self._core:
            return self._of_row(self._extra[index - self._core])
        if self._rows:
            row = self._rows[index]
            return self._of_row(row) if self._is_kept(row) else None
        if self._patterns:
            places = [index // axis.stride % axis.size for axis in self._axes]
            if any(pattern.fits(places) for pattern in self._patterns):
                return None
        levels: dict[str, Level] = {}
        for axis in self._axes:
            levels |= axis.entries[index // axis.stride % axis.size]
        return _condition({name: levels[name] for name in self._names} if self._is_zipped else levels)

    def _of_row(self, row: tuple[str, ...]) -> Condition:
        return _condition(
            {name: self._levels[name][label] for name, label in zip(self._names, row, strict=True)}
        )

    def _row(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Labels in the order of the factors; what is not named is the factor's only level, or empty."""
        return tuple(labels.get(name) or self._only(name) for name in self._names)

    def _only(self, name: str) -> str:
        labels = self._levels[name]
        return next(iter(labels)) if len(labels) == 1 else ""

    def _pattern(self, labels: Mapping[str, str]) -> _Pattern:
        allowed: dict[int, frozenset[int]] = {}
        for number, axis in enumerate(self._axes):
            mine = {name: labels[name] for name in axis.names if name in labels}
            if mine:
                allowed[number] = frozenset(
                    place
                    for place, levels in enumerate(axis.entries)
                    if all(levels[name].label == label for name, label in mine.items())
                )
        return _Pattern(allowed)

    def _ruled_out(self, axis: int, size: int) -> dict[frozenset[int], int]:
        """Which patterns an entry of this axis rules out → by how many entries."""
        speaking = [(which, p.allowed[axis]) for which, p in enumerate(self._patterns) if axis in p.allowed]
        ruled: dict[frozenset[int], int] = {}
        for entry in range(size):
            out = frozenset(which for which, allowed in speaking if entry not in allowed)
            ruled[out] = ruled.get(out, 0) + 1
        return ruled

    def _is_kept(self, row: tuple[str, ...]) -> bool:
        labels = dict(zip(self._names, row, strict=True))
        return not any(
            all(labels.get(name) == label for name, label in out.items()) for out in self._excluded
        )

    def _index_of(self, row: tuple[str, ...]) -> int | None:
        """The index of a condition that is part of the design."""
        if row in self._added:
            return self._added[row]
        if not self._is_kept(row):
            return None
        if self._rows:
            return self._row_places.get(row)
        labels = dict(zip(self._names, row, strict=True))
        places = [axis.place_of.get(tuple(labels[name] for name in axis.names)) for axis in self._axes]
        index = 0
        for axis, place in zip(self._axes, places, strict=True):
            if place is None:
                return None
            index += place * axis.stride
        return index


class Slot(msgspec.Struct, frozen=True):
    """A trial's place in the planned order. Blocks, places and replicates count from 1."""

    block: int
    planned: int
    condition: Condition
    replicate: int


class Schedule:
    """All trials of a study in complete randomised blocks, one after another, never as a list."""

    def __init__(self, study: Study, design: Design) -> None:
        self._study = study
        self._design = design

    def __iter__(self) -> Iterator[Slot]:
        return self.blocks()

    def __len__(self) -> int:
        return self._design.count() * self._study.replicates

    def blocks(self, first: int = 1) -> Iterator[Slot]:
        """The trials from this block on."""
        planned = (first - 1) * self._design.count()
        for block in range(first, self._study.replicates + 1):
            order = chance.permuted(self._design.size, chance.derive(self._study.key, "order", block))
            for condition in self._design.at(order):
                planned += 1
                yield Slot(block, planned, condition, block)


def in_file_order(study: Study, conditions: Iterable[Condition]) -> list[Condition]:
    """Conditions as the file lists factors and levels, for people; a design is in the order of names (I1)."""
    places = {
        factor.name: {level.label: place for place, level in enumerate(factor.levels)}
        for factor in study.factors
    }
    return sorted(conditions, key=lambda each: [places[name][each.levels[name].label] for name in places])


def _condition(levels: dict[str, Level]) -> Condition:
    return Condition(
        id=identity.condition_id({name: level.label for name, level in levels.items()}), levels=levels
    )


def _axes_of(factors: Sequence[Factor], zips: Sequence[Sequence[str]]) -> tuple[_Axis, ...]:
    by_name = {factor.name: factor for factor in factors}
    zipped = {name for group in zips for name in group}
    groups = [tuple(sorted(group)) for group in zips]
    groups += [(name,) for name in by_name if name not in zipped]
    axes: list[_Axis] = []
    stride = 1
    # The last factor advances fastest, as in a table.
    for names in sorted(groups, reverse=True):
        # Zipped levels meet in the order of the file; only then are the pairs put in order.
        rows = zip(*(by_name[name].levels for name in names), strict=True)
        entries = {
            tuple(level.label for level in levels): dict(zip(names, levels, strict=True)) for levels in rows
        }
        in_order = sorted(entries)
        places = {labels: place for place, labels in enumerate(in_order)}
        axes.append(
            _Axis(names, tuple(entries[labels] for labels in in_order), places, len(in_order), stride)
        )
        stride *= len(in_order)
    return tuple(reversed(axes))
