"""The results of a study in its folder: data frames, the table of conditions, verification."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trialrun.app import studies
from trialrun.app.exits import Exit
from trialrun.app.findings.exporting import lane_of
from trialrun.app.findings.frames import Library, frame_of, frame_of_columns
from trialrun.app.findings.pressure import CalibrationReport, PressureReport, calibration_of, pressure_of
from trialrun.app.findings.rows import TableName, message_columns, table
from trialrun.app.findings.tables import ConditionRow, StudyTable, table_of
from trialrun.app.loops import waited_for
from trialrun.app.studies import Plan
from trialrun.app.verifying import Verified, verify
from trialrun.core.errors import TrialrunError
from trialrun.stats.intervals import Estimate
from trialrun.stats.summary import Summary
from trialrun.store.archive import Archive

Function = Callable[..., Awaitable[object]]


class Results:
    """A study that ran. Frames are polars if it is installed, else pandas; `frame="pandas"` chooses."""

    def __init__(
        self,
        folder: Path,
        *,
        plan: Plan | None = None,
        procedures: Mapping[str, Function] | None = None,
        exit_: Exit | None = None,
        stopped_by: TrialrunError | None = None,
    ) -> None:
        self.folder = folder
        self.stopped_by = stopped_by
        """Why the run ended early, if it did."""
        self._plan = plan
        self._procedures = procedures or {}
        self._exit = exit_

    def __repr__(self) -> str:
        found = self.table
        mark = "rehearsal, " if found.is_rehearsal else ""
        return f"<Results of {found.study}: {mark}{found.done} of {found.planned} trials done, {self.folder}>"

    @property
    def exit(self) -> Exit:
        """How the run ended; of loaded results, where the study stands. 0 only when every planned trial is done."""
        return self.table.exit if self._exit is None else self._exit

    @property
    def table(self) -> StudyTable:
        """The table of conditions as objects, read anew each time."""
        return table_of(self.folder)

    def trials(self, *, frame: Library | None = None) -> Any:
        """One row per trial: levels (`factor.*`), outcome (`outcome.*`), measures (`measure.*`), status, money."""
        return self._frame("trials", frame)

    def messages(self, *, frame: Library | None = None) -> Any:
        """One row per utterance."""
        with Archive(self.folder) as archive:
            found = archive.message_columns()
            lane = lane_of(archive)
        return (
            self._frame("messages", frame)
            if found is None
            else frame_of_columns(message_columns(found, lane), frame)
        )

    def calls(self, *, frame: Library | None = None) -> Any:
        """One row per attempt of a call, with tokens, cost, latency and errors."""
        return self._frame("calls", frame)

    def measures(self, *, frame: Library | None = None) -> Any:
        """One row per measured value: `value` is a number (true is 1), `label` a text."""
        return self._frame("measures", frame)

    def states(self, *, frame: Library | None = None) -> Any:
        """One row per logged hidden state of a party."""
        return self._frame("states", frame)

    def artefacts(self, *, frame: Library | None = None) -> Any:
        """One row per thing that a trial kept."""
        return self._frame("artefacts", frame)

    def ratings(self, *, frame: Library | None = None) -> Any:
        """One row per rating of `trialrun judge`: trial, unit, item, rater, value, or why it is missing."""
        return self._frame("ratings", frame)

    def summary(self, *, by: Sequence[str] = (), frame: Library | None = None) -> Any:
        """One row per condition and measure, and per label where a measure has labels, with the 95 % interval.

        With `by`, conditions are pooled over all factors but these; the intervals allow for trials of one level of a
        pooled factor being alike.
        """
        found = table_of(self.folder, by)
        factors = list(found.rows[0].levels) if found.rows else []
        columns = [
            "lane", "condition", *(f"factor.{name}" for name in factors), "planned", "done", "failed", "spent_usd",
            "measure", "label", "n", "missing", "value", "low", "high", "method",
        ]  # fmt: skip
        rows = [
            [*_condition(found.lane, row), name, *cells]
            for row in found.rows
            for name, summary in (row.measures or {"": None}).items()
            for cells in _estimates(summary)
        ]
        return frame_of(columns, rows, frame)

    def pressure(
        self, *, by: Sequence[str] = ("model", "tactic"), calibration: "Results | None" = None
    ) -> PressureReport:
        """Of a study with the procedure `questions`: flips, resistance, survival and cost, as text or as data.

        `calibration` are the results of a study with the procedure `replies`: then rates are also given as they would
        be without the judge's errors.
        """
        known = calibration_of(calibration.folder) if calibration else None
        return pressure_of(self.folder, by=by, calibration=known)

    def calibration(self) -> CalibrationReport:
        """Of a study with the procedure `replies`: agreement of the judges with the known labels."""
        return calibration_of(self.folder)

    def verify(self) -> Verified:
        """Replay every finished trial offline. No difference means that the journal explains everything."""
        plan = self._plan or studies.load(self.folder, given=self._procedures)
        return waited_for(lambda: verify(plan))

    def _frame(self, name: TableName, wanted: Library | None) -> Any:
        with Archive(self.folder) as archive:
            made = table(archive, name, lane_of(archive))
            return frame_of(made.columns, made.rows, wanted)


def _condition(lane: str, row: ConditionRow) -> list[object]:
    return [lane, row.condition, *row.levels.values(), row.planned, row.done, row.failed, row.spent_usd]


def _estimates(summary: Summary | None) -> list[list[object]]:
    """label, n, missing, value, low, high, method: a row for the rate or mean, and one for each label."""
    if summary is None:
        return [[None] * 7]
    found: list[tuple[str | None, Estimate]] = []
    if summary.rate is not None:
        found.append((None, summary.rate))
    if summary.numbers is not None:
        found.append((None, summary.numbers.mean))
    found += [(label.label, label.share) for label in summary.labels]
    rows: list[list[object]] = [
        [label, each.n, summary.missing, each.value, each.low, each.high, each.method]
        for label, each in found
    ]
    return rows or [[None, summary.n, summary.missing, None, None, None, "no values"]]
