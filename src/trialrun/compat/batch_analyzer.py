"""`BatchAnalyzer`: the analysis of a batch under the names that it has in Scenario Lab. It reads the journal."""

from pathlib import Path
from typing import NamedTuple, cast

from trialrun.app.analysis import layout
from trialrun.app.analysis.data import Results, results_in
from trialrun.app.analysis.files import FOLDER, write_files
from trialrun.app.analysis.patterns import Patterns, compared, patterns_of
from trialrun.app.analysis.report import report
from trialrun.app.analysis.statistics import statistics_of
from trialrun.app.analysis.wording import RUNS
from trialrun.app.files import put
from trialrun.app.studies import results_of
from trialrun.compat.registry import offer_all
from trialrun.compat.scenario_lab.log import moment
from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.reading.catalogue import Better

Data = dict[str, object]


class Compared(NamedTuple):
    """One variation in a comparison. Its first two places are what Scenario Lab gives."""

    variation_id: int
    mean: float | None
    description: str
    low: float | None
    high: float | None
    n: int
    missing: int
    direction: Better | None
    """Which end is the good one; None: nobody declared it, and the order is highest first."""


class BatchAnalyzer:
    """What the results in a folder say: the folder of a batch, or of any study.

    Everything is read once; `collect_run_data` reads it anew. The other methods do so by themselves where nothing was
    read yet, so their order means nothing.
    """

    def __init__(self, batch_dir: str | Path) -> None:
        offer_all()
        self.batch_dir = results_of(Path(batch_dir))
        """Where the results are: of a batch that was only rehearsed, the folder beside the one that was named."""
        self._results: Results | None = None
        self._patterns: Patterns | None = None

    def collect_run_data(self) -> list[Data]:
        """Read every run that began. Returns a row for each."""
        self._results, self._patterns = results_in(self.batch_dir, RUNS), None
        return [
            {
                "run_id": layout.run_id(trial.variation, trial.replicate),
                "variation_id": trial.variation,
                "status": "completed" if trial.is_done else "failed" if trial.is_broken else trial.status,
                "success": trial.is_done,
                "outcome": trial.values.get(self._results.outcome or ""),
                "final_metrics": dict(trial.values),
                "cost": layout.usd(trial.cost_usd),
                "turns": trial.turns,
                "error": None if trial.is_done else trial.reason or None,
                "started_at": moment(trial.started_at),
                "completed_at": moment(trial.ended_at),
            }
            for trial in self._results.trials
        ]

    def calculate_metric_statistics(self) -> dict[str, Data]:
        """Each metric over all completed runs: count, mean, median, min, max, std, missing, interval."""
        found = statistics_of(self._read(), self._read().trials)
        return cast("dict[str, Data]", layout.metrics_analysis(found, RUNS))

    def calculate_variation_statistics(self) -> dict[int, Data]:
        """Each variation: runs, rates, metrics, cost."""
        return {each.number: layout.variation_data(self._read(), each) for each in self._read().variations}

    def compare_variations(self, metric: str) -> list[Compared]:
        """The variations by a metric, the best first; those without a value last."""
        results = self._read()
        if metric not in results.measures:
            raise UsageError(
                f"nothing is measured as `{metric}`",
                where=str(self.batch_dir),
                fix=pick(metric, results.measures),
            )
        return [
            Compared(
                variation_id=each.variation.number,
                mean=each.statistics.mean.value,
                description=each.variation.description,
                low=each.statistics.mean.low,
                high=each.statistics.mean.high,
                n=each.statistics.count,
                missing=each.statistics.missing,
                direction=each.statistics.better,
            )
            for each in compared(results, metric)
        ]

    def identify_patterns(self) -> Data:
        """What stands out: rates, success factors, failure modes, cost efficiency.

        `success_rate` is the share of ended runs that came to their end; how they turned out is `outcome_rate`.
        """
        return layout.patterns_data(self._found(), RUNS)

    def generate_analysis_report(self) -> str:
        """Write analysis-report.md. Returns its text."""
        text = report(self._read(), self._found())
        put(self.batch_dir / FOLDER / RUNS.report_file, text)
        return text

    def save_analysis_data(self) -> list[Path]:
        """Write metrics-analysis.json, variation-statistics.json and patterns.json. Returns where they are."""
        return write_files(self._read(), self._found(), with_report=False)

    def _read(self) -> Results:
        if self._results is None:
            self.collect_run_data()
        assert self._results is not None  # noqa: S101  # just read
        return self._results

    def _found(self) -> Patterns:
        if self._patterns is None:
            self._patterns = patterns_of(self._read())
        return self._patterns
