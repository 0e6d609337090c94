"""An analysis as plain data, with the keys that Scenario Lab's files have; what we add stands after them.

For any other study `Words.keyed` spells them.
"""

from collections.abc import Mapping
from decimal import Decimal

from trialrun.app.analysis.data import Results, Variation
from trialrun.app.analysis.effects import Effect
from trialrun.app.analysis.patterns import Efficiency, FailureMode, Patterns, direction
from trialrun.app.analysis.statistics import Cost, Standing, Statistics, cost_of, standing_of, statistics_of
from trialrun.app.analysis.wording import Words
from trialrun.stats.intervals import Estimate

Data = dict[str, object]


def metrics_analysis(statistics: Mapping[str, Statistics], words: Words) -> Data:
    """The file of all measures."""
    return {name: statistics_data(each, words) for name, each in statistics.items()}


def statistics_data(each: Statistics, words: Words) -> Data:
    """One measure. `std` and `stdev` are the same number under both of its names."""
    return words.keyed(
        {
            "count": each.count,
            "mean": each.mean.value,
            "median": each.median,
            "min": each.minimum,
            "max": each.maximum,
            "stdev": each.sd,
            "std": each.sd,
            "missing": each.missing,
            "low": each.mean.low,
            "high": each.mean.high,
            "interval": each.mean.method,
            "direction": each.better,
            "labels": {label.label: label.count for label in each.labels},
        }
    )


def variation_statistics(results: Results) -> Data:
    """The file of all variations, by their numbers."""
    return {str(each.number): variation_data(results, each) for each in results.variations}


def variation_data(results: Results, variation: Variation) -> Data:
    """One variation."""
    trials, words = results.of(variation), results.words
    standing = standing_of(results, variation)
    return words.keyed(
        {
            "variation_id": variation.number,
            "description": variation.description,
            **_runs(standing),
            "metrics": metrics_analysis(statistics_of(results, trials), words),
            "cost": cost_data(cost_of(trials)),
            **_rates(standing),
            "levels": dict(variation.levels),
        }
    )


def patterns_data(found: Patterns, words: Words) -> Data:
    """The file of what stands out."""
    return words.keyed(
        {
            **_runs(found.standing),
            "best_variation": None
            if found.best is None
            else words.keyed(
                {
                    "variation_id": found.best.variation.number,
                    "success_rate": found.best.standing.completion.value,
                    "description": found.best.variation.description,
                    "by": found.best.by,
                    "clearly_ahead_of": [each.number for each in found.best.ahead_of],
                    "not_clearly_ahead_of": [each.number for each in found.best.not_clearly],
                    **_rates(found.best.standing),
                }
            ),
            "cost_efficiency": [_efficiency(each, words) for each in found.efficiency],
            "success_factors": [effect_data(each, words) for each in found.success_factors],
            "failure_modes": [_failure_mode(each, words) for each in found.failure_modes],
            "risk_factors": [effect_data(each, words) for each in found.risk_factors],
            "effects": [effect_data(each, words) for each in found.effects],
            **_rates(found.standing),
            "notes": list(found.notes),
        }
    )


def cost_data(cost: Cost) -> Data:
    return {
        "total": usd(cost.total_usd),
        "mean": usd(cost.mean_usd),
        "min": usd(cost.minimum_usd),
        "max": usd(cost.maximum_usd),
        "calls_of_unknown_cost": cost.unknown,
    }


def effect_data(effect: Effect, words: Words) -> Data:
    """One effect, with all that its verdict rests on."""
    return words.keyed(
        {
            "factor": effect.factor,
            "level": effect.level,
            "against": effect.against,
            "metric": effect.measure,
            "difference": effect.difference.value,
            "low": effect.difference.low,
            "high": effect.difference.high,
            "interval": effect.difference.method,
            "n": list(effect.n),
            "p": effect.p,
            "p_adjusted": effect.p_adjusted,
            "test": effect.test,
            "verdict": effect.verdict,
            "why": effect.why,
            "direction": direction(effect.better),
            "is_good": effect.is_good,
        }
    )


def usd(amount: Decimal | None) -> float | None:
    """Money as a number, as these files have it. The journal keeps it exactly."""
    return None if amount is None else float(amount)


def _runs(standing: Standing) -> Data:
    """`success_rate` is what it is in Scenario Lab: the share of runs that came to their end. How they turned out is
    `outcome_rate`."""
    return {
        "total_runs": standing.done + standing.failed,
        "successful_runs": standing.done,
        "failed_runs": standing.failed,
        "success_rate": standing.completion.value,
    }


def _rates(standing: Standing) -> Data:
    return {
        "planned_runs": standing.planned,
        "unfinished_runs": standing.unfinished,
        "completion_rate": _estimate(standing.completion),
        "outcome_rate": None if standing.outcome is None else _estimate(standing.outcome),
    }


def _estimate(found: Estimate) -> Data:
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "missing": found.missing,
        "interval": found.method,
    }


def _efficiency(each: Efficiency, words: Words) -> Data:
    return words.keyed(
        {
            "variation_id": each.variation.number,
            "runs_per_dollar": _ratio(each.trials_per_usd),
            "successes_per_dollar": _ratio(each.successes_per_usd),
            "cost_per_run": usd(each.cost.mean_usd),
            "successful_runs": each.done,
            "total_cost": usd(each.cost.total_usd),
            "description": each.variation.description,
        }
    )


def _failure_mode(mode: FailureMode, words: Words) -> Data:
    return words.keyed(
        {
            "status": mode.status,
            "error": mode.reason,
            "boundary": mode.boundary,
            "runs": mode.trials,
            "examples": [
                run_id(each.variation, each.replicate) if words.is_numbered else each.id
                for each in mode.examples
            ],
        }
    )


def _ratio(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def run_id(variation: int, replicate: int) -> str:
    """`var-001-run-001`."""
    return f"var-{variation:03d}-run-{replicate:03d}"
