"""What a judging pass says: ratings by condition, and how far raters agree with themselves, each other and the truth.

A trial is the unit of analysis. Its value of an item is one number or label, from however many turns, raters and
repeats: the mean of scores and of true (1) and false (0), the most frequent label. Several labels equally often are
missing, and so is a trial without any rating.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

from trialrun.app.findings.tables import MOST_CONDITIONS, declared_study
from trialrun.app.judging.standing import PassRow, passes_in
from trialrun.core import chance
from trialrun.core.design import Design, in_file_order
from trialrun.core.errors import UsageError
from trialrun.core.rubric import UNANSWERED, Item, Rubric, Value
from trialrun.stats.agreement import agreement, confusion, krippendorff_alpha
from trialrun.stats.intervals import Estimate
from trialrun.stats.moments import mean_of
from trialrun.stats.summary import Summary, summarise
from trialrun.store.archive import Archive
from trialrun.store.tables import Rating

_MOST_REASONS = 5
_MANY = 500
"""With more units than this the interval of an agreement is made with fewer draws."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedCondition:
    """One condition with what its trials were rated."""

    title: str
    levels: Mapping[str, str]
    rated: int
    """Trials with at least one rating."""
    items: Mapping[str, Summary]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far ratings of the same units agree."""

    item: str
    between: str
    """`raters`, or the rater whose repeats are compared."""
    share: Estimate
    """Pairs with the same rating."""
    alpha: Estimate
    """Krippendorff's alpha, for labels."""
    mean_difference: float | None
    """Of scores: by how much two ratings of a unit differ on average."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A pass as it stands."""

    row: PassRow
    items: tuple[str, ...]
    conditions: tuple[JudgedCondition, ...]
    agreements: tuple[Agreement, ...]
    ratings: int
    missing: Mapping[str, int]
    """Ratings without a value, by reason."""
    unanswered: tuple[tuple[str, int], ...]
    """Why no usable answer gave a rating, and how many ratings that is, the most frequent reason first."""


def judgement_of(folder: Path, rubric: Rubric, judging: str) -> Judgement:
    """Read what a pass has brought so far."""
    with Archive(folder) as archive:
        study, _ = declared_study(archive)
        row = next((each for each in passes_in(archive) if each.id == judging), None)
        if row is None:
            raise UsageError(
                f"there is no judging pass `{judging}`", where=str(folder), fix="`status` lists them"
            )
        ratings = [rating for rating in archive.ratings() if rating.judging == judging]
        condition_of = {state.id: state.condition for state in archive.trials("done")}
    items = items_of(rubric)
    by_trial = _by_trial(ratings)
    conditions = in_file_order(study, islice(Design(study), MOST_CONDITIONS))
    trials: dict[str, list[str]] = {}
    for trial in by_trial:
        trials.setdefault(condition_of.get(trial, ""), []).append(trial)
    return Judgement(
        row=row,
        items=items,
        conditions=tuple(
            JudgedCondition(
                title=each.title,
                levels={factor.name: each.levels[factor.name].label for factor in study.factors},
                rated=len(trials.get(each.id, [])),
                items=_summaries(rubric, items, [by_trial[trial] for trial in trials.get(each.id, [])]),
            )
            for each in conditions
        ),
        agreements=tuple(_agreements(rubric, ratings, study.key)),
        ratings=len(ratings),
        missing=dict(Counter(rating.missing for rating in ratings if rating.missing)),
        unanswered=tuple(
            Counter(_why(rating) for rating in ratings if rating.missing in UNANSWERED).most_common(
                _MOST_REASONS
            )
        ),
    )


def _why(rating: Rating) -> str:
    """Why there is no rating, in words."""
    match rating.missing:
        case "unreadable" if rating.call:
            return "the answer ended before it was complete"
        case "unreadable":
            return f"the answer could not be read: {rating.explanation}"
        case "refused":
            return (
                f"the request was refused: {rating.explanation}"
                if rating.explanation
                else "the rater refused"
            )
        case _:
            return "the answer left it out"


def items_of(rubric: Rubric) -> tuple[str, ...]:
    """What a table shows: each item, and how much was recovered where there is a truth."""
    return tuple(f"{item.id}.recovered" if item.truth else item.id for item in rubric.items)


def _by_trial(ratings: Iterable[Rating]) -> dict[str, dict[str, list[Value]]]:
    found: dict[str, dict[str, list[Value]]] = {}
    for rating in ratings:
        if rating.trial:
            found.setdefault(rating.trial, {}).setdefault(rating.item, []).append(rating.value)
    return found


def _summaries(
    rubric: Rubric, items: Sequence[str], trials: Sequence[Mapping[str, Sequence[Value]]]
) -> dict[str, Summary]:
    labels = {item.id: item.labels for item in rubric.items}
    return {
        name: summarise([value_of(trial.get(name, ())) for trial in trials], labels=labels.get(name, ()))
        for name in items
    }


def value_of(values: Sequence[Value]) -> str | float | bool | None:
    """One value for a trial from all its ratings of an item."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if len(there) == 1 and isinstance(there[0], bool | str):
        return there[0]
    numbers = [_number(value) for value in there]
    known = [number for number in numbers if number is not None]
    if known:
        return mean_of(known)
    (first, count), *others = Counter(str(value) for value in there).most_common(2)
    return None if others and others[0][1] == count else first


def _number(value: Value) -> float | None:
    """A score, true as 1, and of an extraction the number of phrases."""
    if isinstance(value, dict):
        return float(sum(len(phrases) for phrases in value.values()))
    return float(value) if isinstance(value, bool | int | float) else None


# --- agreement -----------------------------------------------------------------------------------------------------


def _agreements(rubric: Rubric, ratings: Sequence[Rating], key: bytes) -> Iterable[Agreement]:
    for item in rubric.items:
        if item.paradigm == "extraction":
            continue
        mine = [rating for rating in ratings if rating.item == item.id]
        raters = sorted({rating.rater for rating in mine})
        for rater in raters:
            rows = _side_by_side([r for r in mine if r.rater == rater], lambda r: str(r.repeat))
            yield from _agreement(item, rater, rows, key)
        if len(raters) > 1:
            first = [rating for rating in mine if rating.repeat == 0]
            yield from _agreement(item, "raters", _side_by_side(first, lambda r: r.rater), key)


def _side_by_side(ratings: Iterable[Rating], by: Callable[[Rating], str]) -> list[list[Value]]:
    """The ratings of each unit, one beside the other."""
    units: dict[str, dict[str, Value]] = {}
    for rating in ratings:
        units.setdefault(rating.mask, {})[by(rating)] = rating.value
    return [list(row.values()) for _, row in sorted(units.items()) if len(row) > 1]


def _agreement(item: Item, between: str, rows: Sequence[Sequence[Value]], key: bytes) -> Iterable[Agreement]:
    if not rows:
        return
    is_scale = item.paradigm == "scalar"
    texts = [[None if value is None else str(value) for value in row] for row in rows]
    pairs = [pair for row in texts for pair in pairwise(row)]
    numbers = [(_number(a), _number(b)) for row in rows for a, b in pairwise(row)]
    gaps = [abs(a - b) for a, b in numbers if is_scale and a is not None and b is not None]
    yield Agreement(
        item=item.id,
        between=between,
        share=agreement(confusion(pairs)),
        alpha=krippendorff_alpha(
            texts,
            key=chance.derive(key, "alpha", item.id, between),
            draws=2000 if len(rows) <= _MANY else 200,
        ),
        mean_difference=mean_of(gaps) if gaps else None,
    )
