"""What is asked of the tables, by the journal and by the archive alike."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from trialrun.core.facts import Entry, TrialFact
from trialrun.core.ports import Tally
from trialrun.core.state import TrialState
from trialrun.store import rows, wire
from trialrun.store.database import Database

PAGE = 500

# All facts of one trial, oldest first.
_FACTS = "SELECT seq, at, body, crc FROM fact WHERE trial = ? ORDER BY seq"

# Facts of some kinds that were written after a number, of all trials, in order.
_SINCE = """
SELECT seq, trial, at, body, crc FROM fact
WHERE seq > ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?
"""

# The bodies of some texts.
_TEXTS = "SELECT hash, body FROM text WHERE hash IN (SELECT unhex(value) FROM json_each(?))"

_LAGS = rows.COLUMNS.index("lags")
_COLUMNS = ", ".join(rows.COLUMNS)

# The body of one text.
_TEXT = "SELECT body FROM text WHERE hash = unhex(?)"

# What the running process last said of itself.
_LIVE = "SELECT body FROM live"

# Where some trials stand.
_STATES = f"SELECT {_COLUMNS} FROM trial WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608

# Where one trial stands.
_STATE = f"SELECT {_COLUMNS} FROM trial WHERE id = ?"  # noqa: S608

# A page of all trials, or of those with a status, in the order in which they began.
_PAGE = f"SELECT rowid, {_COLUMNS} FROM trial WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
_PAGE_OF = f"SELECT rowid, {_COLUMNS} FROM trial WHERE status = ? AND rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608

# The highest number that a fact ever had; a number is not given twice, also when its row was set aside.
_LAST_SEQ = """
SELECT max((SELECT coalesce(max(seq), 0) FROM fact), (SELECT coalesce(max(seq), 0) FROM quarantine))
"""

# Trials whose row may lag behind their facts.
_LAGGING = "SELECT id FROM trial WHERE lags ORDER BY rowid"

# Sums by condition and status: money, tokens, counts. The index `trial_sums` has all that is asked for.
_SUMS = """
SELECT condition, status, count(*), sum(spent), sum(held), sum(unknown_costs), sum(doubts), sum(calls),
       sum(tokens_in), sum(tokens_out)
FROM trial WHERE {which} GROUP BY {by}
"""
_OWN = "forked_from = '' AND judging = ''"
_NAMED = "id IN (SELECT value FROM json_each(?))"
_SUMS_BY_CONDITION = _SUMS.format(which=_OWN, by="condition, status")
_SUMS_OF_NAMED_BY_CONDITION = _SUMS.format(which=f"{_OWN} AND {_NAMED}", by="condition, status")
_SUMS_OF_ALL = _SUMS.format(which="1", by="status")
_SUMS_OF_NAMED = _SUMS.format(which=_NAMED, by="status")

_json = msgspec.json.Encoder().encode


def facts_of(db: Database, trial: str) -> list[Entry]:
    """All facts of one trial, oldest first; StoreCorrupt if one does not read back."""
    found = db.each(_FACTS, (trial,))
    return [wire.entry_of(seq, trial, at, body, crc) for seq, at, body, crc in found]


def since(db: Database, seq: int, kinds: Iterable[str]) -> list[Entry]:
    """The next facts of these kinds with a higher number, a page of them."""
    found = db.each(_SINCE, (seq, _listed(kinds), PAGE))
    return [wire.entry_of(*row) for row in found]


def texts(db: Database, hashes: Iterable[str]) -> dict[str, str]:
    """The texts that are stored under these hashes; unknown ones are left out."""
    found = db.each(_TEXTS, (_listed(hashes),))
    return {digest.hex(): wire.text_of(body) for digest, body in found}


def state(db: Database, trial: str) -> TrialState | None:
    """Where one trial stands; None if it never began."""
    found = db.rows(_STATE, (trial,))
    return state_at(db, found[0]) if found else None


def content(db: Database, name: str) -> bytes | None:
    """The bytes that are stored under this hash."""
    return cast("bytes | None", db.value(_TEXT, (name,)))


def live(db: Database) -> bytes | None:
    """What the running process last said of itself, as JSON."""
    return cast("bytes | None", db.value(_LIVE))


def states(db: Database, trials: Iterable[str]) -> list[TrialState]:
    """Where these trials stand; those that never began are left out."""
    return [state_at(db, row) for row in db.each(_STATES, (_listed(trials),))]


def last_seq(db: Database) -> int:
    """The highest number that a fact ever had."""
    return int(db.value(_LAST_SEQ))


def page(db: Database, after: int, status: str | None) -> list[tuple[int, TrialState]]:
    """The next trials after a row number, with theirs."""
    found = db.rows(_PAGE, (after, PAGE)) if status is None else db.rows(_PAGE_OF, (status, after, PAGE))
    return [(row[0], state_at(db, row[1:])) for row in found]


def state_at(db: Database, row: rows.Row) -> TrialState:
    """The state in a row, or folded anew where the row lags."""
    return folded(db, row[0]) if row[_LAGS] else rows.state_of(row)


def folded(db: Database, trial: str) -> TrialState:
    """Where a trial stands by its facts."""
    state = TrialState(id=trial)
    for entry in facts_of(db, trial):
        state.apply(cast("TrialFact", entry.fact), entry.at)
    return state


def lagging(db: Database) -> list[str]:
    """The trials whose rows may be behind their facts."""
    return [row[0] for row in db.rows(_LAGGING)]


def lagging_states(db: Database) -> list[TrialState]:
    """Those trials by their facts."""
    return [folded(db, trial) for trial in lagging(db)]


def tallies(db: Database, instead: Iterable[TrialState]) -> list[Tally]:
    """Sums by condition, forks and judging left out; `instead` are states that are newer than their rows."""
    newer = [state for state in instead if not state.forked_from and not state.judging]
    sums = _Sums()
    with db.snapshot():
        sums.read(db.each(_SUMS_BY_CONDITION))
        if newer:
            sums.read(db.each(_SUMS_OF_NAMED_BY_CONDITION, (_names(newer),)), sign=-1)
    for state in newer:
        sums.add(state, state.condition)
    return sums.tallies()


def total(db: Database, instead: Iterable[TrialState]) -> Tally:
    """Sums over every trial; `instead` are states that are newer than their rows."""
    newer = list(instead)
    sums = _Sums()
    with db.snapshot():
        sums.read(db.each(_SUMS_OF_ALL), condition="")
        if newer:
            sums.read(db.each(_SUMS_OF_NAMED, (_names(newer),)), condition="", sign=-1)
    for state in newer:
        sums.add(state, "")
    return sums.tally("")


class _Sums:
    """Adds up by condition."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, list[int]] = {}

    def read(self, found: Iterable[tuple[Any, ...]], *, condition: str | None = None, sign: int = 1) -> None:
        for by, status, count, *numbers in found:
            self._put(
                by if condition is None else condition, status, sign * count, [sign * n for n in numbers]
            )

    def add(self, state: TrialState, condition: str) -> None:
        numbers = [
            rows.pico(state.spent_usd), rows.pico_up(state.held_usd), state.unknown_costs, state.doubts,
            state.calls, state.tokens_in, state.tokens_out,
        ]  # fmt: skip
        self._put(condition, state.status, 1, numbers)

    def _put(self, condition: str, status: str, count: int, numbers: list[int]) -> None:
        counts = self._counts.setdefault(condition, {})
        counts[status] = counts.get(status, 0) + count
        so_far = self._numbers.setdefault(condition, [0] * len(numbers))
        self._numbers[condition] = [a + b for a, b in zip(so_far, numbers, strict=True)]

    def tally(self, condition: str) -> Tally:
        spent, held, unknown, doubts, calls, tokens_in, tokens_out = self._numbers.get(condition, [0] * 7)
        return Tally(
            condition=condition,
            by_status={status: n for status, n in self._counts.get(condition, {}).items() if n},
            spent_usd=rows.usd(spent),
            held_usd=rows.usd(held),
            unknown_costs=unknown,
            doubts=doubts,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
        )

    def tallies(self) -> list[Tally]:
        tallies = [self.tally(condition) for condition in sorted(self._counts)]
        return [tally for tally in tallies if tally.by_status]


def _names(states: Iterable[TrialState]) -> str:
    return _listed(state.id for state in states)


def _listed(names: Iterable[str]) -> str:
    return _json(list(names)).decode()
