"""Conditions put together: which of them share a row of a table, and which of their trials are alike.

A row that is pooled over a factor holds trials of each of its levels. Those of one level (one question, one character)
are alike, so they are no independent trials of the row: they are a cluster. Of several pooled factors the one with the
most levels gives the clusters, as the others are averaged within each of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trialrun.core.design import Design
from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.study import Condition, Factor, Study

MOST_CONDITIONS = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """How conditions are put together."""

    by: tuple[Factor, ...] = ()
    """Rows differ by these; none: every condition is a row."""
    over: tuple[Factor, ...] = ()
    clusters: Factor | None = None

    def rows(self, conditions: Iterable[Condition]) -> list[list[Condition]]:
        """The conditions of each row. Rows stand in the order of their levels in the file."""
        if not self.by:
            return [[each] for each in conditions]
        places = [{level.label: place for place, level in enumerate(factor.levels)} for factor in self.by]
        rows: dict[tuple[int, ...], list[Condition]] = {}
        for each in conditions:
            labels = [each.levels[factor.name].label for factor in self.by]
            key = tuple(place[label] for place, label in zip(places, labels, strict=True))
            rows.setdefault(key, []).append(each)
        return [rows[key] for key in sorted(rows)]


def pool_of(study: Study, design: Design, by: Sequence[str]) -> Pool:
    """The conditions of a study told apart by these factors."""
    if not by:
        return Pool()
    factors = {factor.name: factor for factor in study.factors}
    for name in by:
        if name not in factors:
            raise UsageError(
                f"the study has no factor `{name}`", where=study.name, fix=pick(name, list(factors))
            )
    if design.count() > MOST_CONDITIONS:
        raise UsageError(
            f"{design.count():,} conditions are too many to be pooled in a table",
            where=study.name,
            fix=f"`trialrun export` has all trials; up to {MOST_CONDITIONS:,} conditions can be pooled",
        )
    chosen = tuple(dict.fromkeys(by))
    over = tuple(factor for factor in study.factors if factor.name not in chosen)
    return Pool(
        by=tuple(factors[name] for name in chosen),
        over=over,
        clusters=max(over, key=lambda factor: len(factor.levels), default=None),
    )
