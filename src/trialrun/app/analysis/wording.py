"""The words of an analysis: Trialrun's own, and for a batch of Scenario Lab those of its documented files."""

from collections.abc import Mapping
from dataclasses import dataclass

_SCENARIO_LAB = "scenario-lab"


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What things are called, in texts, in names of files and in their keys."""

    trial: str
    condition: str
    measure: str
    all: str
    """The one condition of a study in which nothing is varied."""
    measures_file: str
    conditions_file: str
    patterns_file: str
    report_file: str
    is_numbered: bool
    """A trial is called by its numbers, `var-001-run-001`, and not by its id."""
    keys: Mapping[str, str]
    """How a key of `layout` is spelled where it is spelled otherwise; empty: it is left out."""

    @property
    def trials(self) -> str:
        return f"{self.trial}s"

    @property
    def conditions(self) -> str:
        return f"{self.condition}s"

    @property
    def measures(self) -> str:
        return f"{self.measure}s"

    def keyed(self, data: Mapping[str, object]) -> dict[str, object]:
        """The same with its keys in these words."""
        spelled = {self.keys.get(key, key): value for key, value in data.items()}
        spelled.pop("", None)
        return spelled


RUNS = Words(
    trial="run",
    condition="variation",
    measure="metric",
    all="Base configuration",
    measures_file="metrics-analysis.json",
    conditions_file="variation-statistics.json",
    patterns_file="patterns.json",
    report_file="analysis-report.md",
    is_numbered=True,
    keys={},
)
TRIALS = Words(
    trial="trial",
    condition="condition",
    measure="measure",
    all="all trials",
    measures_file="measures.json",
    conditions_file="conditions.json",
    patterns_file="patterns.json",
    report_file="report.md",
    is_numbered=False,
    keys={
        "stdev": "sd",
        "std": "",
        "variation_id": "number",
        "variations": "conditions",
        "best_variation": "first_condition",
        "metric": "measure",
        "metrics": "measures",
        "runs": "trials",
        "total_runs": "ended_trials",
        "successful_runs": "done_trials",
        "failed_runs": "failed_trials",
        "planned_runs": "planned_trials",
        "unfinished_runs": "unfinished_trials",
        "success_rate": "",
        "runs_per_dollar": "trials_per_usd",
        "successes_per_dollar": "good_outcomes_per_usd",
        "cost_per_run": "usd_per_trial",
        "total_cost": "total_usd",
    },
)


def words_of(form: str) -> Words:
    """Those for a study whose plan has this format (`app.foreign`)."""
    return RUNS if form == _SCENARIO_LAB else TRIALS
