"""A batch as data: `batch-summary.json`, `batch-state.json` and `batch-costs.json`.

V1. planned = completed + failed + pending, in every file. A run that was halted is not completed.
V2. The costs of the runs add up to what the batch spent, to the last digit of the journal.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from trialrun.app.analysis.data import Results, TrialRow, Variation
from trialrun.app.analysis.layout import run_id, usd
from trialrun.app.analysis.statistics import standing_of
from trialrun.compat.scenario_lab.log import moment
from trialrun.core.errors import BudgetExhausted, QuotaExhausted
from trialrun.core.study import Study
from trialrun.stats.intervals import Estimate

Data = dict[str, object]
Status = Literal["running", "completed", "completed_with_failures", "halted"]
_WORLD = "settings.world.scenario."


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRecord:
    """Everything that the journal has of a batch."""

    name: str
    """The experiment's, as the batch file spells it."""
    base_scenario: str
    results: Results
    spent_usd: Decimal
    """By everything in this folder, runs of variations that are no longer planned included."""
    held_usd: Decimal
    unknown_costs: int
    is_running: bool
    closed: str
    """What the last run said when it ended."""
    stopped_by: str
    """The kind of error that ended it, if one did."""
    started_at: float | None
    ended_at: float | None

    @property
    def completed(self) -> list[TrialRow]:
        return self.results.done

    @property
    def failed(self) -> list[TrialRow]:
        return self.results.broken

    @property
    def pending(self) -> int:
        return self.results.planned - len(self.completed) - len(self.failed)

    @property
    def duration_s(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.started_at)


def summary(batch: BatchRecord) -> Data:
    """`batch-summary.json`."""
    status, reason = standing(batch)
    whole = standing_of(batch.results)
    return {
        "experiment_name": batch.name,
        "base_scenario": batch.base_scenario,
        "total_variations": len(batch.results.variations),
        "runs_per_variation": batch.results.study.replicates,
        "total_runs_planned": batch.results.planned,
        "runs_completed": len(batch.completed),
        "runs_failed": len(batch.failed),
        "duration_seconds": batch.duration_s,
        "cost_summary": cost_summary(batch),
        "failed_runs": failed_runs(batch),
        "status": status,
        "halt_reason": reason,
        "message": _message(batch, status, reason),
        "runs_pending": batch.pending,
        "completion_rate": _estimate(whole.completion),
        "outcome_rate": None if whole.outcome is None else _estimate(whole.outcome),
        "is_rehearsal": batch.results.is_rehearsal,
    }


def state(batch: BatchRecord) -> Data:
    """`batch-state.json`."""
    return {
        "experiment_name": batch.name,
        "config_path": "batch-config.yaml",
        "runs_per_variation": batch.results.study.replicates,
        "completed_runs": [_id(trial) for trial in batch.completed],
        "failed_runs": failed_runs(batch),
        "variations": [
            {
                "variation_id": each.number,
                "description": each.description,
                "modifications": _modifications(batch.results.study, each),
            }
            for each in batch.results.variations
        ],
        "start_time": moment(batch.started_at),
        "end_time": moment(batch.ended_at),
    }


def costs(batch: BatchRecord) -> Data:
    """`batch-costs.json`."""
    return {
        "summary": cost_summary(batch),
        "run_costs": [
            {
                "run_id": _id(trial),
                "variation_id": trial.variation,
                "cost": usd(trial.cost_usd),
                "success": trial.is_done,
                "timestamp": moment(trial.ended_at),
            }
            for trial in batch.results.trials
        ],
        "variation_statistics": {
            str(each.number): _variation(batch, each) for each in batch.results.variations
        },
    }


def cost_summary(batch: BatchRecord) -> Data:
    """What was spent and what is left, as both files have it."""
    budget = batch.results.study.budget
    left = None if budget.study_usd is None else budget.study_usd - batch.spent_usd - batch.held_usd
    ended = len(batch.completed) + len(batch.failed)
    paid = sum((trial.cost_usd for trial in (*batch.completed, *batch.failed)), Decimal(0))
    return {
        "total_spent": usd(batch.spent_usd),
        "budget_limit": usd(budget.study_usd),
        "cost_per_run_limit": usd(budget.trial_usd),
        "remaining_budget": usd(left),
        "runs_completed": len(batch.completed),
        "runs_failed": len(batch.failed),
        "runs_budget_exceeded": sum(trial.status == "stopped_by_budget" for trial in batch.results.trials),
        "avg_cost_per_run": usd(paid / ended) if ended else None,
        "duration_seconds": batch.duration_s,
        "start_time": moment(batch.started_at),
        "end_time": moment(batch.ended_at),
        "in_doubt": usd(batch.held_usd),
        "calls_of_unknown_cost": batch.unknown_costs,
    }


def standing(batch: BatchRecord) -> tuple[Status, str | None]:
    """How the batch stands, and why if it stopped before its end."""
    if batch.is_running:
        return "running", None
    if not batch.pending:
        over = any(trial.is_over_limit for trial in batch.failed)
        if over:
            return "halted", "cost_per_run_limit"
        return ("completed_with_failures" if batch.failed else "completed"), None
    return "halted", _halted_by(batch)


def _halted_by(batch: BatchRecord) -> str:
    unfinished = [trial for trial in batch.results.trials if not trial.is_done and not trial.is_broken]
    if any(trial.status == "stopped_by_budget" for trial in unfinished):
        return "budget_limit"
    if any(trial.status == "parked" for trial in unfinished):
        return "waiting_for_answers"
    if batch.stopped_by in _STOPS:
        return _STOPS[batch.stopped_by]
    if re.search(r"\b429\b|\brate[- ]limit", batch.closed, re.IGNORECASE):
        return "rate_limit"
    return batch.closed if batch.closed not in ("", "nothing left to do") else "interrupted"


_STOPS: Mapping[str, str] = {BudgetExhausted.__name__: "budget_limit", QuotaExhausted.__name__: "rate_limit"}
_MESSAGES: Mapping[str, str] = {
    "budget_limit": "Budget limit reached: raise `budget_limit`, then run again with `--resume`.",
    "cost_per_run_limit": "Run cost exceeds limit: raise `cost_per_run_limit`, then run again with `--resume`.",
    "rate_limit": "API rate limit: wait, or reduce `max_parallel`, then run again with `--resume`.",
    "waiting_for_answers": "Runs wait for answers of people: `trialrun answer`, then run again.",
}


def _message(batch: BatchRecord, status: Status, reason: str | None) -> str:
    done = f"{len(batch.completed)} of {batch.results.planned} runs completed, {len(batch.failed)} failed"
    if status != "halted":
        return f"{done}."
    more = _MESSAGES.get(reason or "", "Run the batch again with `--resume`; nothing is paid twice.")
    return f"Halted: {done}, {batch.pending} pending. {more}"


def failed_runs(batch: BatchRecord) -> list[Data]:
    """The runs that broke, with the reason. Those that wait for a higher budget of the batch are pending."""
    return [
        {
            "run_id": _id(trial),
            "error": "Run cost exceeds limit" if trial.is_over_limit else trial.reason,
            "status": "cost_limit_exceeded" if trial.is_over_limit else "failed",
        }
        for trial in batch.failed
    ]


def _variation(batch: BatchRecord, variation: Variation) -> Data:
    trials = batch.results.of(variation)
    total = sum((trial.cost_usd for trial in trials), Decimal(0))
    return {
        "total_cost": usd(total),
        "num_runs": len(trials),
        "successful_runs": sum(trial.is_done for trial in trials),
        "avg_cost_per_run": usd(total / len(trials)) if trials else None,
    }


def _modifications(study: Study, variation: Variation) -> Data:
    """What a variation changes in the scenario; what has no place in Scenario Lab stands by its dotted path."""
    models: dict[str, object] = {}
    overrides: dict[str, object] = {}
    others: dict[str, object] = {}
    for path, value in _sets(study, variation):
        owner, _, name = path.rpartition(".")
        if name == "model" and owner.startswith("parties.") and owner.count(".") == 1:
            models[owner.removeprefix("parties.")] = value
        elif path.startswith(_WORLD):
            overrides[path.removeprefix(_WORLD)] = value
        else:
            others[path] = value
    found: Data = {"actor_models": models, "scenario_overrides": overrides}
    return {**found, "paths": others} if others else found


def _sets(study: Study, variation: Variation) -> Iterable[tuple[str, object]]:
    for factor in study.factors:
        for level in factor.levels:
            if level.label == variation.levels[factor.name]:
                yield from level.sets


def _estimate(found: Estimate) -> Data:
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


def _id(trial: TrialRow) -> str:
    return run_id(trial.variation, trial.replicate)
