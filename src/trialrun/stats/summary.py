"""What can be said about the values of one measure in one condition.

The kind of the values decides: truth values give a rate, numbers a mean with its spread, text the share of each label.
Values of several kinds under one name are never forced into one: each kind is summarised by itself, and `kind` says
`mixed`. Missing values (None, NaN) are counted and touch nothing else.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from trialrun.stats.clusters import Cluster, clustered_mean, clustered_rate
from trialrun.stats.intervals import Estimate, mean_interval, rate_interval
from trialrun.stats.moments import as_number, deviation_of, quantile_of

Kind = Literal["truth", "number", "label", "other", "mixed", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """Where the numbers lie. `sd` is None for a single one."""

    mean: Estimate
    sd: float | None
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One label: how often it occurs, and its share among all labels."""

    label: str
    count: int
    share: Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The values of one measure. A part is there when its kind occurs; its `n` counts the values of that kind."""

    kind: Kind
    n: int
    """Values that are there, of any kind."""
    missing: int
    rate: Estimate | None = None
    """The share of True."""
    numbers: Numbers | None = None
    labels: tuple[Label, ...] = ()
    """Declared labels in their order, then the others, most frequent first."""
    others: int = 0
    """Values that are neither truth, number nor text (a list, a record): counted, not summarised."""


def summarise(
    values: Sequence[object],
    *,
    labels: Sequence[str] = (),
    clusters: Sequence[Cluster] | None = None,
    confidence: float = 0.95,
) -> Summary:
    """Summarise the values of one measure. `labels` are those that may occur: one that does not is 0 of n. `clusters`
    has for each value what it is alike by; None: the values are independent."""
    ask = _Interval(confidence, None if clusters is None else list(clusters))
    truths = [(value, place) for place, value in enumerate(values) if isinstance(value, bool)]
    texts = [(value, place) for place, value in enumerate(values) if isinstance(value, str)]
    plain = [
        (as_number(value), place)
        for place, value in enumerate(values)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    ]
    numbers = [(number, place) for number, place in plain if number is not None]
    nothing = sum(value is None for value in values)
    missing = nothing + len(plain) - len(numbers)
    others = len(values) - nothing - len(truths) - len(texts) - len(plain)
    return Summary(
        kind=_kind(truth=len(truths), number=len(numbers), label=len(texts), other=others),
        n=len(values) - missing,
        missing=missing,
        rate=ask.rate(truths, missing) if truths else None,
        numbers=_numbers(numbers, missing, ask) if numbers else None,
        labels=tuple(_labels(texts, labels, missing, ask)),
        others=others,
    )


@dataclass(frozen=True, slots=True)
class _Interval:
    """Which interval is asked for. Values come with their places, by which their clusters are found."""

    confidence: float
    clusters: list[Cluster] | None

    def rate(self, found: Sequence[tuple[bool, int]], missing: int) -> Estimate:
        truths = [truth for truth, _ in found]
        if self.clusters is None:
            return rate_interval(sum(truths), len(truths), missing=missing, confidence=self.confidence)
        mine = [self.clusters[place] for _, place in found]
        return clustered_rate(truths, mine, missing=missing, confidence=self.confidence)

    def mean(self, found: Sequence[tuple[float, int]], missing: int) -> Estimate:
        values = [*(value for value, _ in found), *[None] * missing]
        if self.clusters is None:
            return mean_interval(values, confidence=self.confidence)
        mine = [*(self.clusters[place] for _, place in found), *[None] * missing]
        return clustered_mean(values, mine, confidence=self.confidence)


def _kind(*, truth: int, number: int, label: int, other: int) -> Kind:
    counts: dict[Kind, int] = {"truth": truth, "number": number, "label": label, "other": other}
    found: list[Kind] = [kind for kind, count in counts.items() if count]
    if len(found) > 1:
        return "mixed"
    return found[0] if found else "nothing"


def _numbers(found: list[tuple[float, int]], missing: int, ask: _Interval) -> Numbers:
    values = [value for value, _ in found]
    in_order = sorted(values)
    return Numbers(
        mean=ask.mean(found, missing),
        sd=deviation_of(values) if len(values) > 1 else None,
        minimum=in_order[0],
        lower_quartile=quantile_of(in_order, 0.25),
        median=quantile_of(in_order, 0.5),
        upper_quartile=quantile_of(in_order, 0.75),
        maximum=in_order[-1],
    )


def _labels(
    texts: list[tuple[str, int]], declared: Sequence[str], missing: int, ask: _Interval
) -> list[Label]:
    found = Counter(text for text, _ in texts)
    undeclared = sorted(found.keys() - set(declared), key=lambda label: (-found[label], label))
    return [
        Label(
            label=label,
            count=found[label],
            share=ask.rate([(text == label, place) for text, place in texts], missing),
        )
        for label in [*dict.fromkeys(declared), *undeclared]
    ]
