"""The files of a batch beside its journal: one for each run that ended, and `batch_summary.json`.

A run's file appears when it ends, and goes away when the run is taken up again. The summary follows every refresh.
"""

from itertools import islice
from pathlib import Path

from trialrun.app import studies
from trialrun.app.findings.exporting import lane_of
from trialrun.app.studies import Plan
from trialrun.compat.patienthub.files import write_json
from trialrun.compat.patienthub.rows import Place, Row, places_of, rows_of
from trialrun.compat.patienthub.summary import aggregate_results
from trialrun.store.archive import Archive

_PAGE = 200
_KEPT = ("status", "client", "therapist", "run_id", "error", "num_turns", "usage", "lane")


class Sessions:
    """Follows one folder. What a run's file says is written once for each time that the run ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan: Plan | None = None
        self._places: list[Place] = []
        self._ended: dict[str, tuple[object, Row]] = {}
        """Trial → how it stood when its file was written, and what the summary needs of it."""

    def refresh(self, *, is_last: bool = False) -> None:
        """Write what changed. Raises OSError and StoreError."""
        if not (self._folder / studies.RESOLVED).exists():
            return  # nothing was declared yet
        if self._plan is None:
            self._plan = studies.load(self._folder)
            self._places = places_of(self._plan)
        with Archive(self._folder) as archive:
            states = {state.id: state for state in archive.trials()}
            lane = lane_of(archive)
            news: list[Place] = []
            for place in self._places:
                state = states.get(place.trial)
                stand = (state.status, state.generation, state.attempts) if state and state.is_ended else None
                known = self._ended.get(place.trial)
                if stand is None:
                    self._ended.pop(place.trial, None)
                    if is_last or known is not None:
                        (self._folder / place.file).unlink(missing_ok=True)
                elif known is None or known[0] != stand:
                    news.append(place)
                    self._ended[place.trial] = (stand, {})
            waiting = iter(news)
            while page := list(islice(waiting, _PAGE)):
                for place, row in zip(page, rows_of(archive, page, states, lane), strict=True):
                    write_json(self._folder / place.file, row)
                    stand, _ = self._ended[place.trial]
                    self._ended[place.trial] = (stand, {key: row[key] for key in _KEPT if key in row})
            if news or is_last:
                left = [place for place in self._places if place.trial not in self._ended]
                begun = {row["trial"]: row for row in rows_of(archive, left, states, lane)}
                rows = (
                    self._ended[place.trial][1] if place.trial in self._ended else begun[place.trial]
                    for place in self._places
                )
                aggregate_results(rows, self._folder)
