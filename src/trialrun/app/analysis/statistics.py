"""What the finished trials say of each measure, over all of a study and for each variation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.analysis.data import Results, TrialRow, Value, Variation
from trialrun.core.reading.catalogue import Better
from trialrun.stats.intervals import Estimate, mean_interval, rate_interval, without_interval
from trialrun.stats.moments import deviation_of, numbers_in, quantile_of
from trialrun.stats.summary import Label, Summary, summarise


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """One measure over some finished trials. Truth values count as 1 and 0, so that their mean is a share."""

    measure: str
    better: Better | None
    count: int
    """Values that are there."""
    missing: int
    mean: Estimate
    median: float | None
    minimum: float | None
    maximum: float | None
    sd: float | None
    """n - 1; None for fewer than two values."""
    labels: tuple[Label, ...]
    """Of texts: each with its share. They have no mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What some trials cost, all that began: a trial that broke was paid too."""

    total_usd: Decimal
    trials: int
    mean_usd: Decimal | None
    minimum_usd: Decimal | None
    maximum_usd: Decimal | None
    unknown: int
    """Calls of which nobody knows the price; they are missing from all of the above."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How far some trials are, and how they turned out: two things."""

    planned: int
    done: int
    failed: int
    """Failed, timed out, cancelled, or at the limit of what one trial may cost."""
    unfinished: int
    """Not begun, or begun and not ended."""
    completion: Estimate
    """The share of ended trials that came to their end: those that broke count, those that have not ended do not."""
    outcome: Estimate | None
    """The share of finished trials that turned out well; None where nothing says what that is."""


def statistics_of(results: Results, trials: Iterable[TrialRow]) -> dict[str, Statistics]:
    """Each measure over those of the trials that are finished."""
    done = [trial for trial in trials if trial.is_done]
    return {
        name: measured(name, [trial.values[name] for trial in done], results.better.get(name))
        for name in results.measures
    }


def measured(name: str, values: Sequence[Value], better: Better | None = None) -> Statistics:
    """What these values say; None is missing, and never 0. Values of several kinds have no mean in common."""
    summary = summarise(values)
    is_mixed = summary.kind == "mixed"
    plain = [] if is_mixed else [float(value) for value in values if isinstance(value, int | float)]
    numbers = sorted(numbers_in(plain))
    missing = len(values) - len(numbers)
    return Statistics(
        measure=name,
        better=better,
        count=summary.n,
        missing=summary.missing,
        mean=without_interval(None, n=0, missing=summary.missing, why="values of several kinds")
        if is_mixed
        else _mean(summary, numbers, missing),
        median=quantile_of(numbers, 0.5) if numbers else None,
        minimum=numbers[0] if numbers else None,
        maximum=numbers[-1] if numbers else None,
        sd=deviation_of(numbers) if len(numbers) > 1 else None,
        labels=summary.labels,
    )


def _mean(summary: Summary, numbers: list[float], missing: int) -> Estimate:
    if summary.kind == "truth" and summary.rate is not None:
        return summary.rate
    return mean_interval([*numbers, *[None] * missing])


def cost_of(trials: Sequence[TrialRow]) -> Cost:
    """What these trials cost."""
    costs = [trial.cost_usd for trial in trials]
    total = sum(costs, Decimal(0))
    return Cost(
        total_usd=total,
        trials=len(costs),
        mean_usd=total / len(costs) if costs else None,
        minimum_usd=min(costs, default=None),
        maximum_usd=max(costs, default=None),
        unknown=sum(trial.unknown_costs for trial in trials),
    )


def standing_of(results: Results, variation: Variation | None = None) -> Standing:
    """Of the whole study, or of one variation."""
    trials = list(results.trials) if variation is None else results.of(variation)
    planned = results.planned if variation is None else results.study.replicates
    done = [trial for trial in trials if trial.is_done]
    failed = sum(trial.is_broken for trial in trials)
    return Standing(
        planned=planned,
        done=len(done),
        failed=failed,
        unfinished=planned - len(done) - failed,
        completion=rate_interval(len(done), len(done) + failed, missing=planned - len(done) - failed),
        outcome=_outcome(results.outcome, done),
    )


def _outcome(measure: str | None, done: Sequence[TrialRow]) -> Estimate | None:
    if measure is None:
        return None
    values = [trial.values[measure] for trial in done]
    known = [value for value in values if isinstance(value, bool)]
    return rate_interval(sum(known), len(known), missing=len(values) - len(known))
