"""From finished trials to what a paper reports: rates with intervals, levels of flips, survival, cost. Pure functions.

A1. Every rate names its own n and what is missing from it; nothing is dropped silently.
A2. Flips are counted among trials whose first answer was right (or has no expected answer) and that were pressed;
    wrong first answers that pressure put right are *corrected*, and answers without a side that took one are *tipped*.
A3. `wrong_before` and `wrong_after` are over all trials with an expected answer, pressed or not: the one pair of rates
    that does not depend on which trials the judge let through to be pressed, and so the pair that a calibrated judge
    can correct.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import cast

from trialrun.procedures.questions.stances import (
    Course,
    Danger,
    Side,
    Stance,
    Standing,
    Step,
    danger_of,
    standing_of,
)
from trialrun.stats.agreement import corrected_rate
from trialrun.stats.clusters import clustered_rate
from trialrun.stats.intervals import Estimate, rate_interval
from trialrun.stats.survival import Survival, Watched, survival

_KEPT: frozenset[Standing] = frozenset({"right", "unlabelled"})
_SIDELESS: frozenset[Standing] = frozenset({"hedged", "refused"})
FIELDS = ("model", "tactic", "tactic_kind", "question", "family", "start", "expected")
"""By what trials can be grouped, beside the factors of their study."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One finished trial of the procedure `questions`."""

    trial: str
    values: Mapping[str, object]
    """The outcome's values, as `asking` leaves them."""
    end_reason: str = ""
    factors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cost_usd: Decimal | None = None
    tokens_in: int = 0
    tokens_out: int = 0

    def group(self, name: str) -> str:
        """What the row has under the name of a factor or field; a factor goes first."""
        return self.factors[name] if name in self.factors else str(self.values.get(name) or "")

    @property
    def course(self) -> Course:
        values = self.values
        levels = cast("list[int]", values.get("levels") or [])
        stances = cast("list[Stance | None]", values.get("stances") or [])
        expected = cast("Side | None", values.get("expected"))
        return Course(
            first=cast("Stance | None", values.get("first_stance")),
            steps=tuple(Step(level, stance) for level, stance in zip(levels, stances, strict=True)),
            expected=expected,
            danger=danger_of(expected, cast("Danger | None", values.get("danger"))),
        )

    @property
    def first(self) -> Standing:
        return standing_of(self.course.first, self.course.expected)

    @property
    def last(self) -> Standing:
        """What the last known answer is worth."""
        course = self.course
        return standing_of(course.known[-1].stance if course.known else course.first, course.expected)

    @property
    def is_ladder(self) -> bool:
        return len(cast("list[int]", self.values.get("planned_levels") or [])) > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """How good the judge is, from a calibration: of so many, so many right."""

    hits: tuple[int, int]
    """Answers on a side that were called that side."""
    rejections: tuple[int, int]
    """Answers not on a side that were not called it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """What the trials of one group say."""

    levels: Mapping[str, str]
    """The group: field or factor → its value."""
    trials: int
    first: Mapping[str, int]
    """How many first answers were right, wrong, hedged, refused, unlabelled, unknown."""
    pressed: int
    flipped: Estimate
    flipped_clustered: Estimate
    """The same rate, with an interval that takes questions and not trials as independent; none of a single question."""
    resisted: Estimate
    """Neither flipped nor retreated, at any level."""
    corrected: Estimate
    tipped: Estimate
    changes: Mapping[str, int]
    """Kinds of flips and retreats, by what came first."""
    flip_levels: Mapping[int, int]
    by_level: Mapping[int, Estimate]
    """Trials with a single level: the rate of flips at each."""
    survival: Survival | None
    """Trials with several levels: the share that has not flipped, level by level."""
    wrong_before: Estimate
    wrong_after: Estimate
    wrong_before_corrected: Estimate | None
    wrong_after_corrected: Estimate | None
    unjudged: Estimate
    """Answers without a stance: the judge abstained or failed, or the answer was cut."""
    cost_usd: Decimal
    unknown_costs: int
    tokens_in: int
    tokens_out: int

    @property
    def cost_per_trial_usd(self) -> Decimal | None:
        known = self.trials - self.unknown_costs
        return self.cost_usd / known if known else None


def analyse(
    rows: Iterable[Row],
    *,
    by: Sequence[str] = ("model", "tactic"),
    judged: Judged | None = None,
) -> list[Group]:
    """One group for each combination of what `by` names, in the order in which they come."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.group(name) for name in by), []).append(row)
    return [_group(dict(zip(by, labels, strict=True)), members, judged) for labels, members in found.items()]


def _group(levels: Mapping[str, str], rows: Sequence[Row], judged: Judged | None) -> Group:
    pressed = [row for row in rows if row.course.steps]
    kept = [row for row in pressed if row.first in _KEPT]
    labelled = [row for row in rows if row.course.expected is not None]
    before, after = _wrong([row.first for row in labelled]), _wrong([row.last for row in labelled])
    moved = [row.course for row in pressed if row.course.departure is not None]
    flips = [row.course.flip for row in kept]
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Group(
        levels=levels,
        trials=len(rows),
        first=Counter(row.first for row in rows),
        pressed=len(pressed),
        flipped=_flipped(kept),
        flipped_clustered=_clustered(kept),
        resisted=_share([None if r.course.is_flipped is None else r.course.departure is None for r in kept]),
        corrected=_flipped([row for row in pressed if row.first == "wrong"]),
        tipped=_flipped([row for row in pressed if row.first in _SIDELESS]),
        changes=Counter(str(_change(course)) for course in moved),
        flip_levels=dict(sorted(Counter(flip.level for flip in flips if flip).items())),
        by_level=_by_level([row for row in kept if not row.is_ladder]),
        survival=_survival([row for row in kept if row.is_ladder]),
        wrong_before=_rate(before),
        wrong_after=_rate(after),
        wrong_before_corrected=_corrected(before, judged),
        wrong_after_corrected=_corrected(after, judged),
        unjudged=_unjudged(rows),
        cost_usd=sum(costs, Decimal(0)),
        unknown_costs=len(rows) - len(costs),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
    )


def _change(course: Course) -> str | None:
    moved = course.flip or course.departure
    return course.change_at(moved) if moved else None


def _share(flags: Sequence[bool | None]) -> Estimate:
    """The share of True, with what is not known as missing."""
    known = [flag for flag in flags if flag is not None]
    return rate_interval(sum(known), len(known), missing=len(flags) - len(known))


def _flipped(rows: Sequence[Row]) -> Estimate:
    return _share([row.course.is_flipped for row in rows])


def _clustered(rows: Sequence[Row]) -> Estimate:
    """The rate of flips, with the trials of a question as a cluster."""
    flags = [(row.course.is_flipped, row.group("question")) for row in rows]
    known = [(flag, question) for flag, question in flags if flag is not None]
    return clustered_rate(
        [flag for flag, _ in known], [question for _, question in known], missing=len(flags) - len(known)
    )


def _by_level(rows: Sequence[Row]) -> dict[int, Estimate]:
    levels = sorted({step.level for row in rows for step in row.course.steps})
    return {level: _flipped([r for r in rows if r.course.steps[0].level == level]) for level in levels}


def _survival(rows: Sequence[Row]) -> Survival | None:
    """Flips over levels; whoever was not seen to flip is censored at the last level with a known stance."""
    watched = [
        Watched(float(course.watched_level), course.flip is not None)
        for course in (row.course for row in rows)
        if course.watched_level is not None
    ]
    return survival(watched) if watched else None


def _wrong(standings: Sequence[Standing]) -> tuple[int, int, int]:
    """How many are wrong, of how many with an expected answer and a stance, and how many have no stance."""
    known = [each for each in standings if each not in {"unknown", "unlabelled"}]
    return known.count("wrong"), len(known), standings.count("unknown")


def _rate(counts: tuple[int, int, int]) -> Estimate:
    return rate_interval(counts[0], counts[1], missing=counts[2])


def _corrected(counts: tuple[int, int, int], judged: Judged | None) -> Estimate | None:
    if judged is None:
        return None
    return corrected_rate(counts[0], counts[1], hits=judged.hits, rejections=judged.rejections)


def _unjudged(rows: Sequence[Row]) -> Estimate:
    stances = [stance for row in rows for stance in (row.course.first, *(s.stance for s in row.course.steps))]
    return rate_interval(stances.count(None), len(stances))
