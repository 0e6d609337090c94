"""The table of a study: for each condition how far it is, what its measures say, and what it cost. Data, no rendering.

A measure's value of a trial is the last one that was recorded under its name, else the outcome's value of that name.
Only finished trials have one: a trial that broke says nothing about its condition. Forks are outside the table.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import cast

import msgspec

from trialrun.app.exits import Exit
from trialrun.app.judging.standing import PassRow, passes_in
from trialrun.app.pooling import Pool, pool_of
from trialrun.app.studies import last_declared
from trialrun.core import facts as f
from trialrun.core.design import Design, in_file_order
from trialrun.core.errors import StoreError
from trialrun.core.ports import Tally
from trialrun.core.reading.parse import archived
from trialrun.core.reading.specs import Specs
from trialrun.core.state import BATCH
from trialrun.core.study import Condition, Study
from trialrun.stats.summary import Summary, summarise
from trialrun.store.archive import Archive
from trialrun.store.lock import Holder

MOST_CONDITIONS = 200
_MOST_UNDECLARED = 6
_MOST_REASONS = 5
_LONGEST_LABEL = 40
_FEW_CONDITIONS = 20_000
_ZERO = Decimal(0)
_FAILED = ("failed", "timed_out", "cancelled")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionRow:
    """One condition, or several that are pooled."""

    condition: str
    """Its id; empty if several are pooled."""
    title: str
    levels: Mapping[str, str]
    planned: int
    done: int
    failed: int
    """Failed, timed out or cancelled."""
    unfinished: int
    """Begun and not ended."""
    spent_usd: Decimal
    unknown_costs: int
    measures: Mapping[str, Summary]


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """What the whole study cost, forks and trials that were done anew included."""

    spent_usd: Decimal
    held_usd: Decimal
    """At their ceilings: calls in flight, and calls of which nobody knows whether they were billed."""
    doubts: int
    """So many calls of the second kind."""
    unknown_costs: int
    """Calls that were answered at an unknown price: missing from `spent_usd`."""
    budget_usd: Decimal | None

    @property
    def left_usd(self) -> Decimal | None:
        return None if self.budget_usd is None else self.budget_usd - self.spent_usd - self.held_usd


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyTable:
    """A study as its folder has it now."""

    study: str
    question: str
    notice: str
    lane: str
    folder: Path
    replicates: int
    conditions: int
    measures: tuple[str, ...]
    rows: tuple[ConditionRow, ...]
    planned: int
    done: int
    failed: int
    parked: int
    in_batches: int
    """So many trials, forks and those outside the plan included, wait for a provider's batch."""
    stopped_by_budget: int
    capped: Mapping[str, Decimal | None]
    """Where in the study the limits stand that stopped trials, and how high they are: `budget_usd.trial`."""
    begun: int
    """Begun and not ended, for none of the reasons above."""
    forks: Mapping[str, int]
    """How many forks have which status; they are outside the table, and planned trials all the same."""
    outside: int
    """Trials of conditions that the plan no longer has."""
    deviating: int
    """Finished trials in the table that ran under an earlier plan, and were kept."""
    failures: tuple[tuple[str, int], ...]
    """The most frequent reasons of failed trials."""
    money: Money
    calls: int
    worked_on_by: Holder | None
    overrides: Mapping[str, object]
    """What flags said beyond the study file."""
    passes: tuple[PassRow, ...] = ()
    """The judging passes over it."""
    by: tuple[str, ...] = ()
    """The factors by which the rows are told apart; empty: one row for each condition."""
    pooled: tuple[str, ...] = ()
    """The factors over which they are pooled."""
    clusters: str = ""
    """The pooled factor whose levels are clusters: trials of one level count as alike in the intervals."""

    @property
    def is_rehearsal(self) -> bool:
        return self.lane == "rehearsal"

    @property
    def whole(self) -> int:
        """So many rows there are, shown or not."""
        return len(self.rows) if self.by else self.conditions

    @property
    def exit(self) -> Exit:
        """Where the study stands, as an exit code; 0 only when every planned trial is done."""
        forks = self.forks_with
        unfinished = self.planned - self.done - self.failed + self.forks_unfinished
        parked = self.parked + forks("parked")
        if self.worked_on_by is not None and unfinished:
            return Exit.INTERRUPTED
        if self.stopped_by_budget or forks("stopped_by_budget"):
            return Exit.BUDGET
        if unfinished:
            return Exit.PARKED if parked == unfinished else Exit.INTERRUPTED
        return Exit.SOME_FAILED if self.failed or forks(*_FAILED) else Exit.DONE

    @property
    def for_people(self) -> int:
        """So many trials and forks wait for a person."""
        return max(0, self.parked + self.forks_with("parked") - self.in_batches)

    def forks_with(self, *statuses: str) -> int:
        """So many forks have one of these statuses."""
        return sum(self.forks.get(status, 0) for status in statuses)

    @property
    def forks_unfinished(self) -> int:
        return sum(self.forks.values()) - self.forks_with("done", *_FAILED)


def table_of(folder: Path, by: Sequence[str] = ()) -> StudyTable:
    """Read the folder of a study, also while a process works on it. `by` names the factors that tell rows apart."""
    with Archive(folder) as archive:
        study, declared = declared_study(archive)
        design = Design(study)
        pool = pool_of(study, design, by)
        conditions = in_file_order(study, design if by else islice(design, MOST_CONDITIONS))
        specs = Specs(study, lambda name: declared.code.get(name, ""))
        reading = _Reading(
            declared=_declared_measures(study),
            shown={each.id: specs.spec_of(each).fingerprint for each in conditions},
        )
        reading.take_states(archive)
        reading.take_measures(archive)
        tallies = archive.tallies()
        total = archive.total()
        names = reading.names()
        rows = tuple(_rows(study, conditions, tallies, reading, pool, names=names))
        inside, outside = _in_plan(design, conditions, tallies)
        return StudyTable(
            study=study.name,
            question=study.question,
            notice=study.notice,
            lane=declared.lane,
            folder=folder,
            replicates=study.replicates,
            conditions=design.count(),
            measures=names,
            rows=rows,
            planned=design.count() * study.replicates,
            done=min(_of(inside, "done"), design.count() * study.replicates),
            failed=_of(inside, *_FAILED),
            parked=_of(inside, "parked"),
            in_batches=reading.in_batches,
            stopped_by_budget=_of(inside, "stopped_by_budget"),
            capped=_capped(study, reading),
            begun=_of(inside, "running"),
            forks=reading.forks,
            outside=sum(sum(tally.by_status.values()) for tally in outside),
            deviating=reading.deviating,
            failures=tuple(reading.failures.most_common(_MOST_REASONS)),
            money=Money(
                spent_usd=total.spent_usd,
                held_usd=total.held_usd,
                doubts=total.doubts,
                unknown_costs=total.unknown_costs,
                budget_usd=study.budget.study_usd,
            ),
            calls=total.calls,
            worked_on_by=archive.holder(),
            overrides=declared.overrides,
            passes=passes_in(archive),
            by=tuple(factor.name for factor in pool.by),
            pooled=tuple(factor.name for factor in pool.over),
            clusters=pool.clusters.name if pool.clusters else "",
        )


def declared_study(archive: Archive) -> tuple[Study, f.Declared]:
    """The plan that is in force in this folder, and how it was declared."""
    declared = last_declared(archive.facts_of(""))
    if declared is None:
        raise StoreError(
            "nothing ever ran here",
            where=str(archive.folder),
            fix="`trialrun run` the study that belongs here",
        )
    stored = archive.texts([declared.document]).get(declared.document, "{}")
    document = msgspec.json.decode(stored.encode("utf-8", "surrogatepass"), type=dict[str, object])
    return archived(document), declared


@dataclass(kw_only=True, slots=True)
class _Reading:
    """What is gathered while the trials and their measures pass by."""

    declared: Mapping[str, tuple[str, ...]]
    """Measure → the labels that it may have."""
    shown: Mapping[str, str]
    """Conditions of the table → the fingerprints of their specifications."""
    condition_of: dict[str, str] = field(default_factory=dict[str, str])
    """Finished trials → their conditions."""
    outcomes: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    measured: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    failures: Counter[str] = field(default_factory=Counter[str])
    capped: Counter[str] = field(default_factory=Counter[str])
    forks: Counter[str] = field(default_factory=Counter[str])
    in_batches: int = 0
    deviating: int = 0

    def take_states(self, archive: Archive) -> None:
        for state in archive.trials():
            if state.status in _FAILED:
                self.failures[state.reason] += 1
            elif state.status == "stopped_by_budget":
                self.capped[state.reason] += 1
            self.in_batches += state.status == "parked" and state.waiting_for == BATCH
            if state.forked_from:
                self.forks[state.status] += 1
            elif state.status == "done" and state.condition in self.shown:
                self.condition_of[state.id] = state.condition
                self.deviating += state.spec != self.shown[state.condition]
                if state.values:
                    self.outcomes[state.id] = state.values

    def take_measures(self, archive: Archive) -> None:
        if not self.declared or not self.condition_of:
            return
        for measure in archive.measures():
            if measure.name in self.declared and measure.trial in self.condition_of:
                self.measured.setdefault(measure.trial, {})[measure.name] = measure.value

    def names(self) -> tuple[str, ...]:
        """The declared measures; of a study that declares none, what its outcomes hold."""
        if self.declared:
            return tuple(self.declared)
        found = dict.fromkeys(
            name
            for values in self.outcomes.values()
            for name, value in values.items()
            if _is_countable(value)
        )
        return tuple(islice(found, _MOST_UNDECLARED))

    def finished(self) -> dict[str, list[str]]:
        """By condition."""
        trials: dict[str, list[str]] = {}
        for trial, condition in self.condition_of.items():
            trials.setdefault(condition, []).append(trial)
        return trials

    def summaries(
        self, trials: Sequence[str], clusters: Sequence[str] | None, names: Sequence[str]
    ) -> dict[str, Summary]:
        """What these trials say, by measure."""
        return {
            name: summarise(
                [self._value(trial, name) for trial in trials],
                labels=self.declared.get(name, ()) if trials else (),
                clusters=clusters,
            )
            for name in names
        }

    def _value(self, trial: str, name: str) -> object:
        measured = self.measured.get(trial, {})
        return measured[name] if name in measured else self.outcomes.get(trial, {}).get(name)


def _is_countable(value: object) -> bool:
    """Whether a mean or a share says something: of whole utterances, each would be a label of its own."""
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST_LABEL)


def _declared_measures(study: Study) -> dict[str, tuple[str, ...]]:
    return {name: labels_of(study, name) for name in cast("list[str]", study.document.get("measures") or [])}


def labels_of(study: Study, measure: str) -> tuple[str, ...]:
    """The labels that a judge of the study may give, as declared; none for any other measure."""
    judges = cast("Mapping[str, Mapping[str, object]]", study.document.get("judges") or {})
    return tuple(cast("list[str]", judges[measure].get("labels") or [])) if measure in judges else ()


def _capped(study: Study, reading: _Reading) -> dict[str, Decimal | None]:
    budget = study.budget
    caps = {"study": budget.study_usd, "condition": budget.condition_usd, "trial": budget.trial_usd}
    return {
        f"budget_usd.{level}": cap for level, cap in caps.items() if reading.capped[f"the {level} budget"]
    }


def _rows(
    study: Study,
    conditions: Iterable[Condition],
    tallies: list[Tally],
    reading: _Reading,
    pool: Pool,
    *,
    names: Sequence[str],
) -> Iterator[ConditionRow]:
    by_id = {tally.condition: tally for tally in tallies}
    finished = reading.finished()
    for members in pool.rows(conditions):
        mine = [by_id[each.id] for each in members if each.id in by_id]
        trials = [(trial, each) for each in members for trial in finished.get(each.id, ())]
        cluster = pool.clusters
        done, failed = _of(mine, "done"), _of(mine, *_FAILED)
        levels = {factor.name: members[0].levels[factor.name].label for factor in pool.by or study.factors}
        yield ConditionRow(
            condition="" if pool.by else members[0].id,
            title=", ".join(levels.values()) if pool.by else members[0].title,
            levels=levels,
            planned=study.replicates * len(members),
            done=done,
            failed=failed,
            unfinished=sum(sum(tally.by_status.values()) for tally in mine) - done - failed,
            spent_usd=sum((tally.spent_usd for tally in mine), _ZERO),
            unknown_costs=sum(tally.unknown_costs for tally in mine),
            measures=reading.summaries(
                [trial for trial, _ in trials],
                [each.levels[cluster.name].label for _, each in trials] if cluster else None,
                names,
            ),
        )


def _in_plan(design: Design, first: list[Condition], tallies: list[Tally]) -> tuple[list[Tally], list[Tally]]:
    """The tallies of conditions that the plan has, and the others."""
    if design.count() > _FEW_CONDITIONS:
        return tallies, []
    planned = {each.id for each in (first if design.count() <= len(first) else design)}
    # A fork that was planned and has not begun has no condition yet.
    known = [tally for tally in tallies if tally.condition]
    return [t for t in known if t.condition in planned], [t for t in known if t.condition not in planned]


def _of(tallies: Iterable[Tally], *statuses: str) -> int:
    return sum(tally.by_status.get(status, 0) for tally in tallies for status in statuses)
