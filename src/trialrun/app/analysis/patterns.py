"""What stands out in a study: what goes with success, how trials fail, which variation leads, what money buys."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.analysis.data import Results, TrialRow, Variation
from trialrun.app.analysis.effects import LEAST, LEVEL, Effect, effects_of
from trialrun.app.analysis.statistics import Cost, Standing, Statistics, cost_of, measured, standing_of
from trialrun.core.reading.catalogue import Better
from trialrun.stats.comparisons import fisher_exact
from trialrun.stats.intervals import Estimate

_MOST_TRIALS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One variation in a comparison by one measure."""

    variation: Variation
    statistics: Statistics


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureMode:
    """One way in which trials broke."""

    status: str
    reason: str
    boundary: str
    trials: int
    examples: tuple[TrialRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Efficiency:
    """What money buys in one variation."""

    variation: Variation
    cost: Cost
    done: int
    trials_per_usd: Decimal | None
    """Finished trials; None where nothing was paid, or nobody knows what."""
    successes_per_usd: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The variation that leads, and by what."""

    variation: Variation
    by: str
    """`success`, or `completion` where nothing says what success is."""
    standing: Standing
    ahead_of: tuple[Variation, ...]
    """Those that it leads by more than chance, the many pairs that it was chosen from allowed for."""
    not_clearly: tuple[Variation, ...]
    """Those whose distance from it may be chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patterns:
    """What stands out."""

    standing: Standing
    effects: tuple[Effect, ...]
    success_factors: tuple[Effect, ...]
    """Effects that are clear and go the good way."""
    risk_factors: tuple[Effect, ...]
    """Effects that are clear and go the other way."""
    failure_modes: tuple[FailureMode, ...]
    best: Best | None
    efficiency: tuple[Efficiency, ...]
    """The cheapest finished trials first."""
    notes: tuple[str, ...]
    """What could not be said, and why."""


def patterns_of(results: Results) -> Patterns:
    """Everything that stands out in a study."""
    standing = standing_of(results)
    effects = effects_of(results)
    best = _best(results)
    return Patterns(
        standing=standing,
        effects=tuple(effects),
        success_factors=tuple(effect for effect in effects if effect.is_good is True),
        risk_factors=tuple(effect for effect in effects if effect.is_good is False),
        failure_modes=tuple(_failure_modes(results.broken)),
        best=best,
        efficiency=tuple(_efficiency(results)),
        notes=tuple(_notes(results, standing, effects, best)),
    )


def compared(results: Results, measure: str) -> list[Compared]:
    """The variations by one measure, the best first; those without a value last.

    Which end is best, the measure declares; where it does not, the highest comes first, and that is only an order.
    """
    found = [
        Compared(
            variation=each,
            statistics=measured(
                measure,
                [trial.values.get(measure) for trial in results.of(each) if trial.is_done],
                results.better.get(measure),
            ),
        )
        for each in results.variations
    ]
    sign = 1 if results.better.get(measure) == "lower" else -1

    def place(each: Compared) -> tuple[bool, float, int]:
        mean = each.statistics.mean.value
        return mean is None, sign * (mean or 0.0), each.variation.number

    return sorted(found, key=place)


def direction(better: Better | None) -> str:
    return f"{better} is better" if better else "no direction is declared"


def _failure_modes(broken: Sequence[TrialRow]) -> list[FailureMode]:
    """Ways of breaking, the most frequent first."""
    groups: dict[tuple[str, str, str], list[TrialRow]] = {}
    for trial in broken:
        groups.setdefault((trial.status, trial.reason, trial.boundary), []).append(trial)
    modes = [
        FailureMode(
            status=status,
            reason=reason,
            boundary=boundary,
            trials=len(trials),
            examples=tuple(trials[:_MOST_TRIALS]),
        )
        for (status, reason, boundary), trials in groups.items()
    ]
    return sorted(modes, key=lambda mode: (-mode.trials, mode.reason))


def _best(results: Results) -> Best | None:
    """The one variation with the highest rate; None if several share it or none has one.

    Of several variations one is always first. So each of the others is tested against it, and every p-value counts as
    one of all the pairs that there are (Bonferroni): the first was chosen after looking at them.
    """
    by = "completion" if results.outcome is None else results.outcome
    standings = [(each, standing_of(results, each)) for each in results.variations]
    rates = [(each, standing, standing.completion if standing.outcome is None else standing.outcome)
             for each, standing in standings]  # fmt: skip
    there = [(each, standing, rate) for each, standing, rate in rates if rate.value is not None]
    top = max((rate.value or 0.0 for _, _, rate in there), default=None)
    leaders = [found for found in there if found[2].value == top]
    if len(leaders) != 1 or len(results.variations) < 2:
        return None
    first, standing, rate = leaders[0]
    pairs = len(there) * (len(there) - 1) // 2
    ahead = {each.number for each, _, other in there if each != first and _is_above(rate, other, pairs)}
    others = [each for each in results.variations if each != first]
    return Best(
        variation=first,
        by=by,
        standing=standing,
        ahead_of=tuple(each for each in others if each.number in ahead),
        not_clearly=tuple(each for each in others if each.number not in ahead),
    )


def _is_above(rate: Estimate, other: Estimate, pairs: int) -> bool:
    if min(rate.n, other.n) < LEAST:
        return False
    p = fisher_exact(_count(rate), rate.n, _count(other), other.n).p
    return p is not None and p * pairs < LEVEL


def _count(rate: Estimate) -> int:
    return round((rate.value or 0.0) * rate.n)


def _efficiency(results: Results) -> list[Efficiency]:
    found: list[Efficiency] = []
    for each in results.variations:
        trials = results.of(each)
        cost = cost_of(trials)
        done = [trial for trial in trials if trial.is_done]
        is_known = cost.total_usd > 0 and not cost.unknown
        well = sum(trial.values[results.outcome] is True for trial in done) if results.outcome else None
        found.append(
            Efficiency(
                variation=each,
                cost=cost,
                done=len(done),
                trials_per_usd=len(done) / cost.total_usd if is_known else None,
                successes_per_usd=well / cost.total_usd if is_known and well is not None else None,
            )
        )
    return sorted(found, key=lambda each: (each.trials_per_usd is None, -(each.trials_per_usd or 0)))


def _notes(results: Results, standing: Standing, effects: Sequence[Effect], best: Best | None) -> list[str]:
    notes: list[str] = []
    words = results.words
    if standing.unfinished:
        notes.append(
            f"{standing.unfinished} of {standing.planned} {words.trials} have not ended; this is what the others say"
        )
    if not standing.done:
        notes.append(f"not enough data: no {words.trial} is finished")
    if results.outcome is None:
        notes.append(
            f"nothing says when a {words.trial} turned out well (a {words.measure} `success` would), so there is no "
            "outcome rate, only completion"
        )
    if not results.study.factors:
        notes.append(
            "nothing was varied, so there are no factors of success; "
            f"the spread of {words.measures} is what there is"
        )
    poor = [effect for effect in effects if effect.verdict == "not enough data"]
    if poor:
        notes.append(f"not enough data for {len(poor)} of {len(effects)} questions about factors")
    undirected = [name for name in results.measures if name not in results.better]
    if undirected and results.study.factors:
        notes.append(
            f"no direction is declared for {', '.join(undirected)}: an effect on it is neither good nor bad"
        )
    if best is not None and (others := len(best.not_clearly)):
        are = "is" if others == 1 else "are"
        notes.append(
            f"{words.condition} {best.variation.number} is first, and {others} of the others {are} not clearly behind "
            "it"
        )
    asked = len({effect.measure.partition("=")[0] for effect in effects})
    if asked > 1:
        notes.append(
            f"{asked} {words.measures} were asked about, each for itself: of many clear effects a few may be chance"
        )
    if results.outcome and len(results.variations) > 1 and best is None and standing.done:
        notes.append(f"no {words.condition} leads: several share the highest rate")
    return notes
