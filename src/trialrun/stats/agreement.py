"""Do two ratings of the same things agree, and what does a rate mean that was measured with an imperfect judge?

G1. A thing that one of the two did not rate (None) is counted as missing and takes no part.
G2. Kappa alone misleads when nearly everything has one label, so plain agreement and AC1 stand beside it.
G3. Where chance alone would always agree (a single label in use) the corrected coefficients do not exist: None.

First is what is held to be true (gold, the first rater), second is what is judged.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trialrun.stats.bootstrap import bootstrap_interval
from trialrun.stats.intervals import (
    Estimate,
    check_confidence,
    check_counts,
    named,
    rate_interval,
    without_interval,
    z_factor,
)

_DRAWS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Confusion:
    """How often each pair of labels met. `labels` are in the order given, then those that were met beside them."""

    labels: tuple[str, ...]
    counts: Mapping[tuple[str, str], int]
    n: int
    missing: int

    def of(self, first: str, second: str) -> int:
        return self.counts.get((first, second), 0)

    def row(self, first: str) -> int:
        """How often the first rating was this label."""
        return sum(self.of(first, second) for second in self.labels)

    def column(self, second: str) -> int:
        """How often the second rating was this label."""
        return sum(self.of(first, second) for first in self.labels)

    @property
    def agreed(self) -> int:
        return sum(self.of(label, label) for label in self.labels)


def confusion(pairs: Iterable[tuple[str | None, str | None]], *, labels: Sequence[str] = ()) -> Confusion:
    """Count the pairs of a first and a second rating."""
    both = list(pairs)
    there = [(one, other) for one, other in both if one is not None and other is not None]
    counts = Counter(there)
    met = sorted({label for pair in there for label in pair} - set(labels))
    return Confusion(
        labels=(*dict.fromkeys(labels), *met),
        counts=dict(counts),
        n=len(there),
        missing=len(both) - len(there),
    )


def agreement(found: Confusion, *, confidence: float = 0.95) -> Estimate:
    """The share of pairs with the same label, whatever chance would give."""
    return rate_interval(found.agreed, found.n, missing=found.missing, confidence=confidence)


def cohen_kappa(found: Confusion, *, confidence: float = 0.95) -> Estimate:
    """Agreement beyond chance, where each rater has base rates of its own (Cohen), with the delta-method interval."""
    rows = {label: found.row(label) / found.n for label in found.labels} if found.n else {}
    columns = {label: found.column(label) / found.n for label in found.labels} if found.n else {}
    by_chance = math.fsum(rows[label] * columns[label] for label in rows)
    slopes = {(one, other): columns[one] + rows[other] for one in rows for other in rows}
    return _beyond_chance(found, by_chance, slopes, confidence)


def gwet_ac1(found: Confusion, *, confidence: float = 0.95) -> Estimate:
    """Agreement beyond chance, robust to lopsided base rates (Gwet's AC1), with the delta-method interval."""
    labels = found.labels
    if found.n == 0 or len(labels) < 2:
        return _undefined(found)
    share = {label: (found.row(label) + found.column(label)) / (2.0 * found.n) for label in labels}
    others = len(labels) - 1
    by_chance = math.fsum(each * (1.0 - each) for each in share.values()) / others
    lean = {label: (1.0 - 2.0 * share[label]) / (2.0 * others) for label in labels}
    slopes = {(one, other): lean[one] + lean[other] for one in labels for other in labels}
    return _beyond_chance(found, by_chance, slopes, confidence)


def krippendorff_alpha(
    ratings: Sequence[Sequence[str | None]],
    *,
    key: bytes,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Agreement of any number of raters on labels: one row per thing, one place per rater, None where one is missing.

    The interval is a bootstrap over the things that were rated twice or more.
    """
    units = [[label for label in row if label is not None] for row in ratings]
    rated = [unit for unit in units if len(unit) > 1]
    missing = len(units) - len(rated)
    value = _alpha(rated)
    if value is None:
        return without_interval(None, n=len(rated), missing=missing, why="nothing varies")

    def of(places: Sequence[float]) -> float:
        # A resample in which nothing varies has no disagreement either.
        found = _alpha([rated[int(place)] for place in places])
        return 1.0 if found is None else found

    found = bootstrap_interval(list(range(len(rated))), of, key=key, draws=draws, confidence=confidence)
    return Estimate(
        value=value, low=found.low, high=found.high, n=len(rated), missing=missing, method=found.method
    )


def corrected_rate(
    positives: int,
    n: int,
    *,
    hits: tuple[int, int],
    rejections: tuple[int, int],
    confidence: float = 0.95,
) -> Estimate:
    """A rate as it would be without the judge's errors (Rogan and Gladen), interval of Lang and Reiczigel.

    `hits`: of so many true cases, so many were called one. `rejections`: of so many that are none, so many were
    called none. Both come from a calibration, whose own uncertainty is in the interval. A judge that tells nothing
    apart corrects nothing: None.
    """
    check_confidence(confidence)
    check_counts(positives, n)
    for right, of in (hits, rejections):
        check_counts(right, of)
    if n == 0 or hits[1] == 0 or rejections[1] == 0:
        return without_interval(
            None, n=n, missing=0, why="no values" if n == 0 else "the judge is not calibrated"
        )
    power = hits[0] / hits[1] + rejections[0] / rejections[1] - 1.0
    if power <= 0.0:
        return without_interval(None, n=n, missing=0, why="the judge tells nothing apart")
    value = _clipped((positives / n + rejections[0] / rejections[1] - 1.0) / power)
    low, high = _lang_reiczigel(positives, n, hits, rejections, z_factor(confidence))
    return Estimate(
        value=value,
        low=min(value, _clipped(low)),
        high=max(value, _clipped(high)),
        n=n,
        missing=0,
        method=named("Rogan-Gladen, Lang-Reiczigel", confidence),
    )


def _lang_reiczigel(
    positives: int, n: int, hits: tuple[int, int], rejections: tuple[int, int], z: float
) -> tuple[float, float]:
    """The interval before it is cut at 0 and 1: every count is moved a little to the middle first."""
    size = n + z * z
    rate = (positives + z * z / 2.0) / size
    trues, falses = hits[1] + 2.0, rejections[1] + 2.0
    sensitivity, specificity = (hits[0] + 1.0) / trues, (rejections[0] + 1.0) / falses
    power = sensitivity + specificity - 1.0
    if power <= 0.0:
        return 0.0, 1.0
    middle = (rate + specificity - 1.0) / power
    doubt_hits = sensitivity * (1.0 - sensitivity) / trues
    doubt_rejections = specificity * (1.0 - specificity) / falses
    shift = 2.0 * z * z * (middle * doubt_hits - (1.0 - middle) * doubt_rejections)
    variance = (
        rate * (1.0 - rate) / size + middle**2 * doubt_hits + (1.0 - middle) ** 2 * doubt_rejections
    ) / power**2
    half = z * math.sqrt(variance)
    return middle + shift - half, middle + shift + half


def _beyond_chance(
    found: Confusion, by_chance: float, slopes: Mapping[tuple[str, str], float], confidence: float
) -> Estimate:
    """(observed - chance) / (1 - chance); `slopes` say how chance agreement changes with the share of each cell."""
    check_confidence(confidence)
    room = 1.0 - by_chance
    if found.n == 0 or room <= 1e-12:
        return _undefined(found)
    observed = found.agreed / found.n
    value = (observed - by_chance) / room
    gradients = [
        (count / found.n, (one == other) / room - (1.0 - observed) / room**2 * slopes[one, other])
        for (one, other), count in found.counts.items()
    ]
    mean = math.fsum(share * slope for share, slope in gradients)
    variance = math.fsum(share * (slope - mean) ** 2 for share, slope in gradients) / found.n
    if variance <= 1e-18:
        return without_interval(value, n=found.n, missing=found.missing, why="nothing varies")
    half = z_factor(confidence) * math.sqrt(variance)
    return Estimate(
        value=value,
        low=max(-1.0, value - half),
        high=min(1.0, value + half),
        n=found.n,
        missing=found.missing,
        method=named("delta", confidence),
    )


def _undefined(found: Confusion) -> Estimate:
    why = "no values" if found.n == 0 else "nothing varies"
    return without_interval(None, n=found.n, missing=found.missing, why=why)


def _alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for labels: 1 - observed / expected disagreement; None where nothing varies."""
    totals: Counter[str] = Counter()
    observed = 0.0
    for unit in units:
        counts = Counter(unit)
        totals.update(counts)
        pairs = len(unit) * (len(unit) - 1) - sum(count * (count - 1) for count in counts.values())
        observed += pairs / (len(unit) - 1)
    size = sum(totals.values())
    expected = (size * size - sum(count * count for count in totals.values())) / max(1, size - 1)
    return None if expected <= 0.0 else 1.0 - observed / expected


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
