"""The results of a study as an analysis needs them: conditions as numbered variations, and each trial with its values.

A value is the last one that was taken under its name; where that one is missing, so is the value. Forks are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

from trialrun.app import foreign
from trialrun.app.analysis.wording import Words, words_of
from trialrun.app.findings.tables import declared_study
from trialrun.app.procedures import BUILT_IN
from trialrun.app.studies import GIVEN
from trialrun.core.design import Design, in_file_order
from trialrun.core.facts import Status
from trialrun.core.reading.catalogue import Better
from trialrun.core.state import TrialState
from trialrun.core.study import Study
from trialrun.store.archive import Archive

Value = str | int | float | bool | None
BROKEN: tuple[Status, ...] = ("failed", "timed_out", "cancelled")
OUTCOME = "success"
"""The measure that says whether a trial turned out well, where a study has it."""
OVER_LIMIT = "the trial budget"
_LONGEST_LABEL = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """One condition, by its place in the order of the file."""

    number: int
    """From 1; the last factor varies fastest."""
    condition: str
    description: str
    levels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRow:
    """One trial that began."""

    id: str
    variation: int
    replicate: int
    """From 1."""
    status: Status
    reason: str
    boundary: str
    end_reason: str
    levels: Mapping[str, str]
    values: Mapping[str, Value]
    cost_usd: Decimal
    unknown_costs: int
    turns: int
    started_at: float | None
    ended_at: float | None

    @property
    def is_done(self) -> bool:
        return self.status == "done"

    @property
    def is_over_limit(self) -> bool:
        """It reached what one trial may cost; a higher limit lets it go on."""
        return self.status == "stopped_by_budget" and self.reason == OVER_LIMIT

    @property
    def is_broken(self) -> bool:
        """It ended without coming to its end."""
        return self.status in BROKEN or self.is_over_limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """A study as its folder has it now."""

    study: Study
    lane: str
    folder: Path
    variations: tuple[Variation, ...]
    measures: tuple[str, ...]
    better: Mapping[str, Better]
    words: Words
    """What its trials, conditions and measures are called."""
    trials: tuple[TrialRow, ...]
    """Those that began, in the order of variations and replicates."""

    @property
    def is_rehearsal(self) -> bool:
        return self.lane == "rehearsal"

    @property
    def planned(self) -> int:
        return len(self.variations) * self.study.replicates

    @property
    def done(self) -> list[TrialRow]:
        return [trial for trial in self.trials if trial.is_done]

    @property
    def broken(self) -> list[TrialRow]:
        """Those that failed, timed out, were cancelled, or reached the limit of one trial."""
        return [trial for trial in self.trials if trial.is_broken]

    @property
    def outcome(self) -> str | None:
        """The measure that says how a trial turned out, if there is one."""
        return OUTCOME if OUTCOME in self.measures else None

    def of(self, variation: Variation) -> list[TrialRow]:
        return [trial for trial in self.trials if trial.variation == variation.number]


def results_in(folder: Path, words: Words | None = None) -> Results:
    """Read the folder of a study, also while a process works on it. The words are those of its plan unless given."""
    with Archive(folder) as archive:
        study, declared = declared_study(archive)
        given = archive.texts([declared.source]).get(declared.source, "")
        words = words or words_of(foreign.recognised(folder / GIVEN, given))
        variations = variations_of(study, words)
        places = {each.condition: each.number for each in variations}
        states = [
            state
            for state in archive.trials()
            if not state.forked_from and state.condition in places and state.replicate <= study.replicates
        ]
        measured = _measured(archive, {state.id for state in states})
    measures = _measures(study, measured.values(), states)
    trials = [_row(state, places[state.condition], measured.get(state.id, {}), measures) for state in states]
    return Results(
        study=study,
        lane=declared.lane,
        folder=folder,
        variations=variations,
        measures=measures,
        better=_better(study),
        words=words,
        trials=tuple(sorted(trials, key=lambda trial: (trial.variation, trial.replicate))),
    )


def variations_of(study: Study, words: Words) -> tuple[Variation, ...]:
    """The conditions of a study as the file lists them: the last factor varies fastest."""
    return tuple(
        Variation(
            number=number,
            condition=condition.id,
            description=_described(study, condition.labels) or words.all,
            levels={factor.name: condition.levels[factor.name].label for factor in study.factors},
        )
        for number, condition in enumerate(in_file_order(study, Design(study)), 1)
    )


def _described(study: Study, labels: Mapping[str, str]) -> str:
    return ", ".join(f"{factor.name}={labels[factor.name]}" for factor in study.factors)


def _measured(archive: Archive, wanted: set[str]) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for measure in archive.measures():
        if measure.trial in wanted:
            found.setdefault(measure.trial, {})[measure.name] = measure.value
    return found


def _measures(
    study: Study, measured: Iterable[Mapping[str, Value]], states: Iterable[TrialState]
) -> tuple[str, ...]:
    """The declared measures; of a study that declares none, whatever was taken or came out."""
    declared = cast("list[str]", study.document.get("measures") or [])
    if declared:
        return tuple(declared)
    taken = (name for values in measured for name in values)
    came_out = (name for state in states for name, value in state.values.items() if _is_countable(value))
    return tuple(dict.fromkeys((*taken, *came_out)))


def _is_countable(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST_LABEL)


def _row(
    state: TrialState, variation: int, measured: Mapping[str, Value], measures: Iterable[str]
) -> TrialRow:
    def value(name: str) -> Value:
        found = measured[name] if name in measured else state.values.get(name)
        return found if isinstance(found, str | int | float | bool) else None

    return TrialRow(
        id=state.id,
        variation=variation,
        replicate=state.replicate,
        status=state.status,
        reason=state.reason,
        boundary=state.boundary,
        end_reason=state.end_reason,
        levels=state.levels,
        values={name: value(name) for name in measures},
        cost_usd=state.spent_usd,
        unknown_costs=state.unknown_costs,
        turns=state.turns,
        started_at=state.started_at,
        ended_at=state.ended_at,
    )


def _better(study: Study) -> Mapping[str, Better]:
    """Which end of a measure is the good one, as far as the study's settings say."""
    kind = BUILT_IN.get(str(study.document.get("procedure")))
    if kind is None or kind.facts.contents is None:
        return {}
    return kind.facts.contents(study.document).better
