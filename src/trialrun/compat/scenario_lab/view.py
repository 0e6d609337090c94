"""The files of a batch, written out of the journal beside it. They can be deleted at any time and written again.

W1. The batch file that a user wrote is never written over.
W2. Only files that a view itself would have written are removed, and only folders that are empty then.
"""

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import cast

from trialrun.app.analysis import layout
from trialrun.app.analysis.data import Results, results_in
from trialrun.app.analysis.files import analyse, as_json
from trialrun.app.files import put
from trialrun.app.procedures import Procedures
from trialrun.app.studies import GIVEN
from trialrun.compat.scenario_lab import batch_data, run_data
from trialrun.compat.scenario_lab.batch_data import BatchRecord
from trialrun.compat.scenario_lab.batch_file import Batch, archived_batch
from trialrun.compat.scenario_lab.log import log
from trialrun.compat.scenario_lab.pages import pages
from trialrun.compat.scenario_lab.run_data import RunRecord
from trialrun.core import facts as f
from trialrun.core.design import Design
from trialrun.core.reading.specs import Specs
from trialrun.core.state import TrialState
from trialrun.core.study import Condition
from trialrun.procedures.scenario.reading import Reading
from trialrun.store.archive import Archive

RUNS = "runs"
CONFIG, SUMMARY, STATE, COSTS = (
    "batch-config.yaml",
    "batch-summary.json",
    "batch-state.json",
    "batch-costs.json",
)
_RUN = re.compile(r"var-\d{3,}-run-\d{3,}")
_OURS = re.compile(
    r"world-state-\d{3,}\.md|actor-[a-z0-9-]+-\d{3,}\.md|(?:bilateral|coalition)-\d{3,}-[a-z0-9_-]+\.md|"
    r"validation-(?:\d{3,}|summary)\.(?:md|json)|scenario\.log|(?:metrics|costs|scenario-state)\.json"
)
_PAGE = 50
_SHARE = 20
"""A view may take one part in so many of the time of a run."""


class BatchView:
    """Keeps the tree of one batch as its journal is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, object] = {}
        """Trial → the mark of what was last written of it."""
        self._rest_until = 0.0

    def refresh(self, *, is_last: bool = False) -> None:
        """Write what changed since the last time."""
        if not (self._folder / "study.db").exists():
            return
        began = time.monotonic()
        if not is_last and began < self._rest_until:
            return
        text = _text_of(self._folder / GIVEN)
        batch = archived_batch(text)
        if batch is None:
            return
        with Archive(self._folder) as archive:
            self._config(archive, text)
            results = results_in(self._folder)
            self._batch(archive, batch, results)
            if batch.save_individual_runs:
                self._runs(archive, batch, results, is_last=is_last)
        if is_last:
            self._remove_strangers(results if batch.save_individual_runs else None)
            if batch.aggregate_metrics:
                analyse(self._folder, with_report=True)
        now = time.monotonic()
        self._rest_until = now + _SHARE * (now - began)

    # --- the batch ----------------------------------------------------------------------------------------------------

    def _config(self, archive: Archive, text: str) -> None:
        """The plan that is in force. A file that is neither it nor an earlier copy of ours is the user's (W1)."""
        file = self._folder / CONFIG
        there = _text_of(file)
        if there == text:
            self._written[CONFIG] = text
        elif not file.exists() or (CONFIG not in self._written and there in _earlier(archive)):
            put(file, text)

    def _batch(self, archive: Archive, batch: Batch, results: Results) -> None:
        total = archive.total()
        study = archive.facts_of("")
        opened = [entry.at for entry in study if isinstance(entry.fact, f.Opened)]
        closed = [entry for entry in study if isinstance(entry.fact, f.Closed)]
        ended = [trial.ended_at for trial in results.trials if trial.ended_at is not None]
        is_closed = bool(closed) and bool(opened) and closed[-1].at >= opened[-1]
        last = closed[-1].fact if is_closed else None
        record = BatchRecord(
            name=batch.experiment_name,
            base_scenario=batch.base_scenario,
            results=results,
            spent_usd=total.spent_usd,
            held_usd=total.held_usd,
            unknown_costs=total.unknown_costs,
            is_running=archive.holder() is not None,
            closed=last.reason if isinstance(last, f.Closed) else "",
            stopped_by=last.error if isinstance(last, f.Closed) else "",
            started_at=min((t.started_at for t in results.trials if t.started_at is not None), default=None),
            ended_at=max(ended, default=None),
        )
        put(self._folder / SUMMARY, as_json(batch_data.summary(record)))
        put(self._folder / STATE, as_json(batch_data.state(record)))
        put(self._folder / COSTS, as_json(batch_data.costs(record)))

    # --- the runs -----------------------------------------------------------------------------------------------------

    def _runs(self, archive: Archive, batch: Batch, results: Results, *, is_last: bool) -> None:
        """Runs that ended or stopped since the last time; at the end also those that are under way."""
        places = {each.condition: each.number for each in results.variations}
        wanted = {trial.id for trial in results.trials}
        conditions = {each.id: each for each in Design(results.study)}
        specs = Specs(results.study, Procedures(self._folder).fingerprint)
        is_running = archive.holder() is not None
        due = (
            state
            for state in archive.trials()
            if state.id in wanted
            and (is_last or state.status != "running")
            and self._written.get(state.id) != _mark(state, is_running=is_running)
        )
        while page := list(islice(due, _PAGE)):
            for record in _records(archive, page, conditions, specs, is_running=is_running):
                state = record.state
                name = layout.run_id(places[state.condition], state.replicate)
                self._run(archive, self._folder / RUNS / name, record, batch.base_scenario)
                self._written[state.id] = _mark(state, is_running=is_running)

    def _run(self, archive: Archive, folder: Path, run: RunRecord, scenario: str) -> None:
        texts = pages(run.world, run.messages, run.states)
        for artefact in archive.artefacts([run.state.id]):
            if _OURS.fullmatch(artefact.name):
                texts[artefact.name] = archive.content_of(artefact.content).decode("utf-8", "replace")
        texts["metrics.json"] = as_json(run_data.metrics(run))
        texts["costs.json"] = as_json(run_data.costs(run))
        texts["scenario-state.json"] = as_json(run_data.scenario_state(run, scenario))
        texts["scenario.log"] = log(archive.facts_of(run.state.id))
        for name, text in texts.items():
            put(folder / name, text)
        _remove(folder, keep=texts)

    def _remove_strangers(self, results: Results | None) -> None:
        """Folders of runs that are no longer planned."""
        kept = {
            layout.run_id(trial.variation, trial.replicate) for trial in (results.trials if results else ())
        }
        runs = self._folder / RUNS
        for folder in runs.iterdir() if runs.is_dir() else ():
            if folder.is_dir() and _RUN.fullmatch(folder.name) and folder.name not in kept:
                _remove(folder, keep=())
        with suppress(OSError):
            runs.rmdir()


def _records(
    archive: Archive,
    page: list[TrialState],
    conditions: Mapping[str, Condition],
    specs: Specs,
    *,
    is_running: bool,
) -> Iterable[RunRecord]:
    """What the journal has of these trials."""
    only = [state.id for state in page]
    messages, states = list(archive.messages(only)), list(archive.states(only))
    measures, calls = list(archive.measures(only)), list(archive.calls(only))
    for state in page:
        spec = specs.spec_of(conditions[state.condition])
        world = Reading(cast("Mapping[str, object]", spec.settings["world"]), ("settings", "world")).world
        if world is None:
            continue
        yield RunRecord(
            state=state,
            spec=spec,
            world=world,
            messages=[each for each in messages if each.trial == state.id],
            states=[each for each in states if each.trial == state.id],
            measures=[each for each in measures if each.trial == state.id],
            calls=[each for each in calls if each.trial == state.id],
            is_running=is_running,
        )


def _mark(state: TrialState, *, is_running: bool) -> object:
    """Changes when a run's files do."""
    return (
        state.status,
        state.reason,
        state.generation,
        state.attempts,
        state.calls,
        state.turns,
        state.spent_usd,
        state.held_usd,
        state.ended_at,
        is_running and state.status == "running",
    )


def _earlier(archive: Archive) -> set[str]:
    """The plans that were in force here before, as given."""
    sources = [entry.fact.source for entry in archive.facts_of("") if isinstance(entry.fact, f.Declared)]
    return set(archive.texts(sources).values())


def _remove(folder: Path, *, keep: Iterable[str]) -> None:
    """Files of ours that are not to be kept, and the folder if nothing is left in it."""
    kept = set(keep)
    for file in folder.iterdir():
        if file.name not in kept and _OURS.fullmatch(file.name) and file.is_file():
            file.unlink()
    with suppress(OSError):
        folder.rmdir()


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
