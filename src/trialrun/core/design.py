"""Which conditions a study has, and in what order its trials are planned. Nothing is listed out: conditions are found
by index, so a million of them cost no memory.

I1. The order of factors and levels in the file changes nothing here: factors go by name, levels by label.
I2. Block b holds replicate b of every condition once, in an order of its own; so after any prefix of the schedule two
    conditions differ by at most one trial.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from trialrun.core import chance, identity
from trialrun.core.study import Condition, Level, Study

_KEPT = 8192


@dataclass(frozen=True, slots=True)
class _Axis:
    """One thing that varies by itself: a factor, or a group of zipped factors."""

    names: tuple[str, ...]
    entries: tuple[tuple[Level, ...], ...]
    stride: int


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A partial condition, as the entries that it allows on each axis that it speaks of."""

    allowed: tuple[tuple[int, frozenset[int]], ...]

    def fits(self, places: Sequence[int]) -> bool:
        return all(places[axis] in entries for axis, entries in self.allowed)


class Design:
    """The conditions of a study, by index. Indexes count excluded conditions too, so they never shift."""

    def __init__(self, study: Study) -> None:
        self.factors = tuple(sorted(study.factors, key=lambda factor: factor.name))
        self._names = tuple(factor.name for factor in self.factors)
        self._levels = {
            factor.name: {level.label: level for level in factor.levels} for factor in self.factors
        }
        self._rows = tuple(sorted(self._key(labels) for labels in study.listed))
        self._row_index = {row: index for index, row in enumerate(self._rows)}
        self._axes = () if self._rows else self._axes_of(study)
        self._owner = {
            name: (number, axis.names.index(name))
            for number, axis in enumerate(self._axes)
            for name in axis.names
        }
        self._core = len(self._rows) if self._rows else prod(len(axis.entries) for axis in self._axes)
        self._excluded = tuple(dict(labels) for labels in study.excluded)
        self._patterns = tuple(self._pattern(labels) for labels in self._excluded)
        self._added: tuple[tuple[str, ...], ...] = ()
        self._added = tuple(
            row
            for row in sorted({self._key(labels) for labels in study.included})
            if self._index_of(row) is None
        )
        self.size = self._core + len(self._added)
        """Number of indexes; with exclusions there are fewer conditions."""
        self.condition = lru_cache(maxsize=_KEPT)(self._condition) if self.size <= _KEPT else self._condition

    def __iter__(self) -> Iterator[Condition]:
        for index in range(self.size):
            condition = self.condition(index)
            if condition is not None:
                yield condition

    def count(self) -> int:
        """How many conditions there are. Exclusions are counted axis by axis, without walking the indexes."""
        if self._rows:
            return sum(self._is_kept(row) for row in self._rows) + len(self._added)
        alive: dict[frozenset[int], int] = {frozenset(range(len(self._patterns))): 1}
        for number, axis in enumerate(self._axes):
            speaking = [
                (which, dict(pattern.allowed).get(number)) for which, pattern in enumerate(self._patterns)
            ]
            ruled_out: dict[frozenset[int], int] = {}
            for entry in range(len(axis.entries)):
                out = frozenset(
                    which for which, allowed in speaking if allowed is not None and entry not in allowed
                )
                ruled_out[out] = ruled_out.get(out, 0) + 1
            following: dict[frozenset[int], int] = {}
            for left, ways in alive.items():
                for out, entries in ruled_out.items():
                    following[left - out] = following.get(left - out, 0) + ways * entries
            alive = following
        return alive.get(frozenset(), 0) + len(self._added)

    def by_labels(self, labels: Mapping[str, str]) -> Condition | None:
        """The condition with these labels; a factor with one level may be left out."""
        if any(name not in self._levels for name in labels):
            return None
        row = tuple(labels.get(name) or self._only(name) for name in self._names)
        index = self._index_of(row)
        return None if index is None else self.condition(index)

    def _condition(self, index: int) -> Condition | None:
        """The condition at an index, or None when it is excluded."""
        if index >= self._core:
            return self._made(self._added[index - self._core])
        if self._rows:
            row = self._rows[index]
            return self._made(row) if self._is_kept(row) else None
        places = [index // axis.stride % len(axis.entries) for axis in self._axes]
        if any(pattern.fits(places) for pattern in self._patterns):
            return None
        levels: dict[str, Level] = {}
        for axis, place in zip(self._axes, places, strict=True):
            levels.update(zip(axis.names, axis.entries[place], strict=True))
        return self._named({name: levels[name] for name in self._names})

    def _made(self, row: tuple[str, ...]) -> Condition:
        return self._named(
            {name: self._levels[name][label] for name, label in zip(self._names, row, strict=True)}
        )

    def _named(self, levels: dict[str, Level]) -> Condition:
        labels = {name: level.label for name, level in levels.items()}
        return Condition(id=identity.condition_id(labels), levels=levels)

    def _axes_of(self, study: Study) -> tuple[_Axis, ...]:
        zipped = {name for group in study.zips for name in group}
        groups = [tuple(sorted(group)) for group in study.zips]
        groups += [(name,) for name in self._names if name not in zipped]
        by_name = {factor.name: factor for factor in self.factors}
        axes: list[_Axis] = []
        stride = 1
        # The last factor advances fastest, as in a table.
        for names in sorted(groups, reverse=True):
            # Zipped levels meet in the order of the file; only then are the pairs put in order.
            entries = zip(*(by_name[name].levels for name in names), strict=True)
            in_order = tuple(sorted(entries, key=lambda levels: [level.label for level in levels]))
            axes.append(_Axis(names, in_order, stride))
            stride *= len(in_order)
        return tuple(reversed(axes))

    def _key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels.get(name) or self._only(name) for name in self._names)

    def _only(self, name: str) -> str:
        labels = list(self._levels[name])
        return labels[0] if len(labels) == 1 else ""

    def _pattern(self, labels: Mapping[str, str]) -> _Pattern:
        allowed: dict[int, frozenset[int]] = {}
        for name, label in labels.items():
            if name not in self._owner:
                continue
            number, position = self._owner[name]
            entries = self._axes[number].entries
            fitting = frozenset(i for i, levels in enumerate(entries) if levels[position].label == label)
            allowed[number] = allowed.get(number, fitting) & fitting
        return _Pattern(tuple(allowed.items()))

    def _is_kept(self, row: tuple[str, ...]) -> bool:
        labels = dict(zip(self._names, row, strict=True))
        return not any(
            all(labels.get(name) == label for name, label in out.items()) for out in self._excluded
        )

    def _index_of(self, row: tuple[str, ...]) -> int | None:
        """The index of a condition that is part of the design."""
        if row in self._added:
            return self._core + self._added.index(row)
        if not self._is_kept(row):
            return None
        if self._rows:
            return self._row_index.get(row)
        index = 0
        labels = dict(zip(self._names, row, strict=True))
        for axis in self._axes:
            wanted = [labels[name] for name in axis.names]
            place = next(
                (i for i, levels in enumerate(axis.entries) if [x.label for x in levels] == wanted), None
            )
            if place is None:
                return None
            index += place * axis.stride
        return index


@dataclass(frozen=True, slots=True)
class Slot:
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
        return self.blocks(1)

    def __len__(self) -> int:
        return self._design.count() * self._study.replicates

    def blocks(self, first: int) -> Iterator[Slot]:
        """The trials from this block on."""
        planned = (first - 1) * self._design.count()
        condition_at = self._design.condition
        for block in range(first, self._study.replicates + 1):
            for index in chance.permuted(self._design.size, chance.derive(self._study.key, "order", block)):
                condition = condition_at(index)
                if condition is not None:
                    planned += 1
                    yield Slot(block, planned, condition, block)
