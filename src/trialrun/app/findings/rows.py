"""A study's tables as columns and rows, for files and data frames. Every row says in which lane it came about.

Names of columns that come from the study have a prefix (`factor.`, `outcome.`, `measure.`), so that none of them can
hide one of ours. A row of `trials` has one trial with everything that was measured; the other tables name the trial.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby, islice
from typing import Literal, cast, get_args

from trialrun.app.judging.passes import declared
from trialrun.core.state import TrialState
from trialrun.store.archive import Archive
from trialrun.store.columns import MessageColumns
from trialrun.store.tables import CallAttempt, Measure, Message, Rating

TableName = Literal["trials", "messages", "calls", "measures", "states", "artefacts", "ratings"]
TABLES: tuple[TableName, ...] = get_args(TableName)
Cell = str | int | float | bool | Decimal | datetime | None | Mapping[str, object] | list[object]
Row = list[Cell]

_PAGE = 250
_TRIAL = (
    "trial", "condition", "replicate", "block", "planned", "actual", "status", "end_reason", "reason", "boundary",
    "waiting_for", "turns", "calls", "attempts", "tokens_in", "tokens_out", "spent_usd", "held_usd", "unknown_costs",
    "in_doubt", "started_at", "ended_at", "redone", "spec", "forked_from",
)  # fmt: skip
_MESSAGE = ("trial", "number", "turn", "party", "text", "audience", "call", "said_at")
_MEASURE = ("trial", "turn", "name", "value", "label", "source", "note", "at")
_STATE = ("trial", "turn", "party", "values", "at")
_ARTEFACT = ("trial", "turn", "name", "media_type", "size_bytes", "content", "at")
_RATING = (
    "trial", "unit", "turn", "mask", "item", "value", "label", "extracted", "missing", "explanation", "rubric",
    "judging", "rater", "repeat", "order", "shown", "cost_usd", "by", "call", "labelled",
)  # fmt: skip
_CALL = tuple(name if name != "text" else "reply" for name in CallAttempt._fields if name != "raw")


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table: its columns are known before its rows are read."""

    name: TableName
    columns: tuple[str, ...]
    rows: Iterator[Row]


def table(archive: Archive, name: TableName, lane: str) -> Table:
    """One of the tables, streaming."""
    columns, rows = _MAKERS[name](archive)
    return Table(name=name, columns=("lane", *columns), rows=([lane, *row] for row in rows))


def _trials(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    factors: dict[str, None] = {}
    outcomes: dict[str, None] = {}
    for state in archive.trials():
        factors |= dict.fromkeys(state.levels)
        outcomes |= dict.fromkeys(state.values)
    measures = dict.fromkeys(measure.name for measure in archive.measures())
    columns = (
        *_TRIAL,
        *(f"factor.{name}" for name in factors),
        *(f"outcome.{name}" for name in outcomes),
        *(f"measure.{name}" for name in measures),
    )

    def rows() -> Iterator[Row]:
        for state, measured in _with_measures(archive):
            yield [
                *_cells_of(state),
                *(state.levels.get(name) for name in factors),
                *(cast("Cell", state.values.get(name)) for name in outcomes),
                *(measured.get(name) for name in measures),
            ]

    return columns, rows()


def _with_measures(archive: Archive) -> Iterator[tuple[TrialState, Mapping[str, Cell]]]:
    """Each trial with the last value of each of its measures. Both come in planned order, and are joined in passing."""
    groups = groupby(archive.measures(), key=lambda measure: measure.trial)
    trial, values = _next(groups)
    for state in archive.trials():
        if state.id == trial:
            yield state, values
            trial, values = _next(groups)
        else:
            yield state, {}


def _next(groups: Iterator[tuple[str, Iterator[Measure]]]) -> tuple[str, dict[str, Cell]]:
    for trial, measures in groups:
        return trial, {measure.name: measure.value for measure in measures}
    return "", {}


def _cells_of(state: TrialState) -> Row:
    return [
        state.id, state.condition, state.replicate, state.block, state.planned, state.actual, state.status,
        state.end_reason or None, state.reason or None, state.boundary or None, state.waiting_for or None,
        state.turns, state.calls, state.attempts, state.tokens_in, state.tokens_out, state.spent_usd, state.held_usd,
        state.unknown_costs, state.doubts, _time(state.started_at), _time(state.ended_at), state.generation,
        state.spec or None, state.forked_from or None,
    ]  # fmt: skip


def _messages(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    return _MESSAGE, map(_message, archive.messages())


def _message(row: Message) -> Row:
    heard_by = ", ".join(row.audience) if row.audience else None
    return [
        row.trial,
        row.number,
        row.turn,
        row.party,
        row.text,
        heard_by,
        row.call or None,
        _time(row.said_at),
    ]


def message_columns(found: MessageColumns, lane: str) -> dict[str, Sequence[object]]:
    """The table of messages as columns; times are seconds since 1970."""
    data: dict[str, Sequence[object]] = {"lane": [lane] * len(found.trial), **found._asdict()}
    data["audience"] = [", ".join(names) if names else None for names in found.audience]
    data["call"] = [call or None for call in found.call]
    return data


def _calls(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    def rows() -> Iterator[Row]:
        attempts = archive.calls()
        while page := list(islice(attempts, _PAGE)):
            texts = archive.texts({row.text for row in page if row.text})
            for row in page:
                cells = row._asdict()
                cells["reply"] = texts.get(row.text) if row.text else None
                cells["held_at"], cells["ended_at"] = _time(row.held_at), _time(row.ended_at)
                yield [cells[name] if cells[name] != "" else None for name in _CALL]

    return _CALL, rows()


def _measures(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    rows = (
        [
            row.trial,
            row.turn,
            row.name,
            number_of(row.value),
            label_of(row.value),
            row.source,
            row.note,
            row.at,
        ]
        for row in archive.measures()
    )
    return _MEASURE, cast("Iterator[Row]", rows)


def number_of(value: object) -> int | float | None:
    """A measured number; true is 1 and false is 0."""
    return int(value) if isinstance(value, bool) else value if isinstance(value, int | float) else None


def label_of(value: object) -> str | None:
    """A measured label."""
    return value if isinstance(value, str) else None


def _states(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    return _STATE, (list(cast("Iterable[Cell]", row)) for row in archive.states())


def _artefacts(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    return _ARTEFACT, (list(cast("Iterable[Cell]", row)) for row in archive.artefacts())


def _ratings(archive: Archive) -> tuple[tuple[str, ...], Iterator[Row]]:
    names = {id_: fact.rubric for id_, fact in declared(archive.facts_of("")).items()}
    return _RATING, (_rating(row, names.get(row.judging)) for row in archive.ratings())


def _rating(row: Rating, rubric: str | None) -> Row:
    extracted = cast("Mapping[str, object]", row.value) if isinstance(row.value, dict) else None
    return [
        row.trial or None, row.unit or None, row.turn or None, row.mask, row.item, number_of(row.value),
        label_of(row.value), extracted, row.missing or None, row.explanation or None, rubric, row.judging, row.rater,
        row.repeat, row.order, ", ".join(row.labels) or None, row.cost_usd, row.by, row.call or None,
        row.labelled or None,
    ]  # fmt: skip


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


_MAKERS: dict[TableName, Callable[[Archive], tuple[tuple[str, ...], Iterator[Row]]]] = {
    "trials": _trials,
    "messages": _messages,
    "calls": _calls,
    "measures": _measures,
    "states": _states,
    "artefacts": _artefacts,
    "ratings": _ratings,
}
