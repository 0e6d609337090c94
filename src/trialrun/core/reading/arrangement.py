"""The `design` section of a study file: which levels meet, with every factor and level name checked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trialrun.core.near import pick
from trialrun.core.paths import Path
from trialrun.core.reading.document import DesignEntry, Labels
from trialrun.core.reading.factors import FactorDraft
from trialrun.core.reading.labels import label_of
from trialrun.core.reading.mistakes import Mistakes

LabelMap = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """How levels meet, by labels."""

    zips: tuple[tuple[str, ...], ...] = ()
    listed: tuple[LabelMap, ...] = ()
    included: tuple[LabelMap, ...] = ()
    excluded: tuple[LabelMap, ...] = ()


def read_design(entry: DesignEntry | None, drafts: Sequence[FactorDraft], mistakes: Mistakes) -> Arrangement:
    """The design section in labels of levels."""
    if entry is None:
        return Arrangement()
    reader = _Reader(drafts, mistakes)
    listed = entry.list
    if listed is not None and entry.zip:
        mistakes.add(
            "`design.zip` has no effect beside `design.list`", ("design", "zip"), "keep one of them", key=True
        )
    reader.check_order(entry.order or [])
    if listed == []:
        mistakes.add(
            "`design.list` is empty", ("design", "list"), "list at least one condition, or remove the key"
        )
    return Arrangement(
        zips=reader.zips(entry.zip or []),
        listed=reader.maps("list", listed or [], reader.complete),
        included=reader.maps("include", entry.include or [], reader.complete),
        excluded=reader.maps("exclude", entry.exclude or [], reader.partial),
    )


def in_order(drafts: list[FactorDraft], entry: DesignEntry | None) -> list[FactorDraft]:
    """The factors and their levels in the order that `design.order` gives; the rest follows as it is in the file."""
    rows = {row[0]: row[1:] for row in (entry.order if entry else None) or [] if row}
    factors = _places(rows)

    def ordered(draft: FactorDraft) -> FactorDraft:
        labels = _places(rows.get(draft.name, []))
        levels = sorted(draft.levels, key=lambda level: labels.get(level.label, len(labels)))
        return replace(draft, levels=tuple(levels))

    return sorted(
        (ordered(draft) for draft in drafts), key=lambda draft: factors.get(draft.name, len(factors))
    )


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


class _Reader:
    def __init__(self, drafts: Sequence[FactorDraft], mistakes: Mistakes) -> None:
        self.factors = {draft.name: draft for draft in drafts}
        self.mistakes = mistakes

    def zips(self, groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
        taken: dict[str, int] = {}
        for number, group in enumerate(groups):
            at: Path = ("design", "zip", number)
            known = [name for index, name in enumerate(group) if self._has_factor(name, (*at, index))]
            sizes = {name: len(self.factors[name].levels) for name in known}
            if len(set(sizes.values())) > 1:
                counts = ", ".join(f"`{name}` has {count}" for name, count in sizes.items())
                what = f"zipped factors need the same number of levels: {counts}"
                self.mistakes.add(what, at, "make them equal, or cross the factors")
            if len(group) < 2:
                self.mistakes.add(
                    "a zip of fewer than two factors does nothing", at, "name two, or remove it"
                )
            for name in known:
                if name in taken:
                    what = f"the factor `{name}` is zipped twice"
                    self.mistakes.add(what, at, "put all factors that advance together into one group")
                taken[name] = number
        return tuple(tuple(group) for group in groups)

    def check_order(self, rows: Sequence[Sequence[str]]) -> None:
        for number, row in enumerate(rows):
            at: Path = ("design", "order", number)
            if row and self._has_factor(row[0], (*at, 0)):
                for index, label in enumerate(row[1:], start=1):
                    self._label(row[0], label, (*at, index))

    def maps(
        self, key: str, rows: Sequence[Labels], finish: Callable[[dict[str, str], Path], None]
    ) -> tuple[LabelMap, ...]:
        found: list[LabelMap] = []
        for index, row in enumerate(rows):
            at: Path = ("design", key, index)
            before = len(self.mistakes)
            labels = {name: self._label(name, value, (*at, name)) for name, value in row.items()}
            if len(self.mistakes) == before:
                finish(labels, at)
                if labels in found:
                    self.mistakes.add(f"this entry of `design.{key}` stands there twice", at, "remove one")
                found.append(labels)
        return tuple(found)

    def complete(self, labels: dict[str, str], at: Path) -> None:
        """A condition names a level of every factor; a factor with one level goes without saying."""
        for name, draft in self.factors.items():
            if name in labels:
                continue
            if len(draft.levels) == 1:
                labels[name] = draft.levels[0].label
                continue
            names = [level.label for level in draft.levels]
            self.mistakes.add(
                f"this condition has no level of `{name}`", at, f"add `{name}: ...`; {pick('', names)}"
            )

    def partial(self, labels: dict[str, str], at: Path) -> None:
        if not labels:
            self.mistakes.add(
                "an empty map excludes every condition", at, "name a level, or remove the entry"
            )

    def _has_factor(self, name: str, at: Path) -> bool:
        if name not in self.factors:
            fix = pick(name, self.factors, otherwise="add it under `factors`")
            self.mistakes.add(f"there is no factor `{name}`", at, fix, key=True)
            return False
        return True

    def _label(self, name: str, value: object, at: Path) -> str:
        if not self._has_factor(name, at):
            return ""
        draft, text = self.factors[name], label_of(value)
        known = [level.label for level in draft.levels]
        if text in known or str(value) in known:
            return text if text in known else str(value)
        if text in draft.also:
            return draft.also[text]
        self.mistakes.add(f"factor `{name}` has no level `{value}`", at, pick(str(value), known))
        return ""
