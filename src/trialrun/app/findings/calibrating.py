"""How well raters find what is known to be right: their ratings of labelled units beside the labels.

A rater that repeats its ratings counts once for each unit, with its most frequent answer. Abstentions and other
ratings without a value are counted and compared with nothing. Beside the coefficients stands what a rater would reach
that always gives the most frequent label: a coefficient alone flatters a rubric whose labels are lopsided.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trialrun.app.judging.labelled import Gold, gold_of
from trialrun.core.rubric import Rubric
from trialrun.stats.agreement import Confusion, agreement, cohen_kappa, confusion, gwet_ac1
from trialrun.stats.intervals import Estimate
from trialrun.stats.moments import mean_of
from trialrun.store.archive import Archive
from trialrun.store.tables import Rating

_Unit = tuple[str, int]
"""The hash of a labelled unit, and the number of the turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """One rater and one item against the labels. In the confusion, the label is first and the rating second."""

    item: str
    rater: str
    confusion: Confusion
    accuracy: Estimate
    kappa: Estimate
    ac1: Estimate
    baseline: float | None
    """The accuracy of always giving the most frequent label."""
    mean_error: float | None
    """Of scores: how far a rating is from the label on average."""
    missing: Mapping[str, int]
    """Labelled units without a rating, by reason."""


def calibrations_of(folder: Path, rubric: Rubric, judging: str, labelled: Path) -> list[Calibration]:
    """Compare what a calibration pass has brought so far with the labels of its file."""
    gold = gold_of(labelled, rubric)
    with Archive(folder) as archive:
        ratings = [rating for rating in archive.ratings() if rating.judging == judging]
    raters = sorted({rating.rater for rating in ratings})
    return [
        found
        for item in rubric.items
        for rater in raters
        for found in _calibration(
            rubric,
            item.id,
            rater,
            [each for each in gold if each.item == item.id],
            [each for each in ratings if (each.item, each.rater) == (item.id, rater)],
        )
    ]


def _calibration(
    rubric: Rubric, item: str, rater: str, gold: Sequence[Gold], ratings: Sequence[Rating]
) -> Iterator[Calibration]:
    if not gold:
        return
    answers = _answers(ratings)
    reasons = {(rating.labelled, rating.unit): rating.missing for rating in ratings if rating.missing}
    pairs = [(str(each.value), answers.get((each.unit, each.number))) for each in gold]
    without = [each for each in gold if answers.get((each.unit, each.number)) is None]
    table = confusion(pairs, labels=_labels(rubric, item))
    most = Counter(right for right, answer in pairs if answer is not None).most_common(1)
    yield Calibration(
        item=item,
        rater=rater,
        confusion=table,
        accuracy=agreement(table),
        kappa=cohen_kappa(table),
        ac1=gwet_ac1(table),
        baseline=most[0][1] / table.n if most else None,
        mean_error=_mean_error(rubric, item, pairs),
        missing=dict(
            Counter(reasons.get((each.unit, each.number), "not_rated") or "tied" for each in without)
        ),
    )


def _answers(ratings: Sequence[Rating]) -> dict[_Unit, str]:
    """The most frequent answer about each unit; none where two are equally frequent."""
    given: dict[_Unit, Counter[str]] = {}
    for rating in ratings:
        if rating.value is not None:
            given.setdefault((rating.labelled, rating.unit), Counter())[str(rating.value)] += 1
    found: dict[_Unit, str] = {}
    for unit, counts in given.items():
        (first, count), *others = counts.most_common(2)
        if not others or others[0][1] < count:
            found[unit] = first
    return found


def _labels(rubric: Rubric, item: str) -> tuple[str, ...]:
    """The answers in their own order."""
    found = next(each for each in rubric.items if each.id == item)
    match found.paradigm:
        case "binary":
            return ("True", "False")
        case "scalar" if found.scale:
            return tuple(str(score) for score in range(found.scale[0], found.scale[1] + 1))
        case _:
            return found.labels


def _mean_error(rubric: Rubric, item: str, pairs: Sequence[tuple[str, str | None]]) -> float | None:
    found = next(each for each in rubric.items if each.id == item)
    if found.paradigm != "scalar":
        return None
    gaps = [abs(float(right) - float(answer)) for right, answer in pairs if answer is not None]
    return mean_of(gaps) if gaps else None
