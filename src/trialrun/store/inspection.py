"""What `doctor` does: finds damage in a study's file, rebuilds what follows from the facts, sets damaged facts aside.

A check reads everything and changes nothing. Memory does not grow with the study, only with the damage.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from trialrun.core import facts as f
from trialrun.core.errors import StoreCorrupt, UsageError
from trialrun.core.identity import text_hash
from trialrun.core.ports import Clock
from trialrun.core.state import TrialState
from trialrun.store import database, queries, rows, schema, wire
from trialrun.store.batch import write_facts, write_trials
from trialrun.store.database import Cell, Database
from trialrun.store.lock import StudyLock

_PAGE = 1000

_FACTS = "SELECT seq, trial, at, body, crc FROM fact WHERE seq > ? ORDER BY seq LIMIT ?"
_SET_ASIDE = "SELECT seq FROM quarantine WHERE seq > ? AND seq < ?"
_TEXTS = "SELECT rowid, hash, body FROM text WHERE rowid > ? ORDER BY rowid LIMIT ?"
_KNOWN_TEXTS = "SELECT hash FROM text WHERE hash IN (SELECT unhex(value) FROM json_each(?))"
_NAMES = "SELECT id FROM trial WHERE id > ? ORDER BY id LIMIT ?"
# Trials that have facts and no row.
_ORPHANS = (
    "SELECT DISTINCT trial FROM fact WHERE trial <> '' AND trial NOT IN (SELECT id FROM trial) ORDER BY 1"
)
_ROW = f"SELECT {', '.join(rows.COLUMNS)} FROM trial WHERE id = ?"  # noqa: S608
_LAGS = rows.COLUMNS.index("lags")

_FIX_ROWS = "`trialrun doctor --rebuild` computes the table anew from the facts"
_FIX_FILE = "put study.db back from a copy; `trialrun export` may still read most of this one"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something in the file that is not as it was written. `seq` is the damaged fact, where it is one."""

    what: str
    fix: str
    trial: str = ""
    seq: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A row of `trial` that said something else than the facts."""

    trial: str
    column: str
    stored: object
    folded: object


def check(folder: Path) -> list[Problem]:
    """Everything that is wrong with the study's file."""
    problems: list[Problem] = []
    db = database.open_reader(folder / schema.FILE)
    try:
        for look in (_file_problems, _text_and_fact_problems, _row_problems):
            with db.told():
                problems += look(db)
    except StoreCorrupt as error:
        problems.append(Problem(what=error.what, fix=_FIX_FILE))
    finally:
        db.close()
    return problems


def rebuild(folder: Path, *, clock: Clock) -> list[Difference]:
    """Compute the table of trials anew from the facts, and say what was different. Texts whose content does not match
    their hash are forgotten, so that they are stored again when they are next used."""
    with _exclusive(folder, clock) as db, db.told():
        db.run("REINDEX")
        differences: list[Difference] = []
        for names in _pages_of_trials(db):
            cells: list[Cell] = []
            with db.transaction():
                for trial in names:
                    cells += _rebuilt(db, trial, differences)
                write_trials(db, cells)
        for name in list(_damaged_texts(db)):
            db.run("DELETE FROM text WHERE hash = unhex(?)", (name,))
        return differences


def quarantine(folder: Path, seq: int, *, clock: Clock) -> str:
    """Set a damaged fact aside; its trial begins anew, with what it cost still counted. Gives the trial's id."""
    with _exclusive(folder, clock) as db, db.told(), db.transaction():
        found = db.rows("SELECT trial FROM fact WHERE seq = ?", (seq,))
        if not found:
            raise UsageError(
                f"there is no fact {seq}", where=str(db.path), fix="`trialrun doctor` lists the damaged ones"
            )
        trial: str = found[0][0]
        db.run(
            "INSERT INTO quarantine SELECT seq, trial, at, kind, body, crc, ? FROM fact WHERE seq = ?",
            (clock.now(), seq),
        )
        db.run("DELETE FROM fact WHERE seq = ?", (seq,))
        if trial and queries.state(db, trial) is not None:
            _begin_anew(db, trial, seq, clock.now())
        return trial


@contextmanager
def _exclusive(folder: Path, clock: Clock) -> Generator[Database]:
    """The writing connection of a study on which nobody works."""
    database.open_reader(folder / schema.FILE).close()  # a study that is not there is not created
    lock = StudyLock(folder, now=clock.now())
    try:
        db = database.open_writer(folder / schema.FILE)
        try:
            yield db
        finally:
            database.close_for_good(db)
    finally:
        lock.release()


# --- what is looked at ---------------------------------------------------------------------------------------------


def _file_problems(db: Database) -> Iterator[Problem]:
    """Damage that SQLite itself sees: pages that do not hang together."""
    for (line,) in db.rows("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Problem(what=f"the database file is damaged: {line}", fix=_FIX_FILE)
    if db.rows(database.SCHEMA) != database.tables_as_created():
        yield Problem(what="the description of the tables in the file is damaged", fix=_FIX_FILE)


def _text_and_fact_problems(db: Database) -> Iterator[Problem]:
    damaged = set(_damaged_texts(db))
    for name in sorted(damaged):
        yield Problem(
            what=f"the text {name} is not what was stored",
            fix="`trialrun doctor --rebuild` forgets it; a prompt is stored again when it is next used",
        )
    before = 0
    while page := db.rows(_FACTS, (before, _PAGE)):
        entries: list[f.Entry] = []
        for seq, trial, at, body, crc in page:
            yield from _gap(db, before, seq)
            before = seq
            try:
                entries.append(wire.entry_of(seq, trial, at, body, crc))
            except StoreCorrupt as error:
                yield Problem(what=error.what, fix=error.fix, trial=trial, seq=seq)
        yield from _lost_texts(db, entries, damaged)


def _damaged_texts(db: Database) -> Iterator[str]:
    """The names of texts whose content is another; a name that is damaged itself is spelled as it is found."""
    after = 0
    while page := db.rows(_TEXTS, (after, _PAGE)):
        after = page[-1][0]
        for number, digest, body in page:
            if not isinstance(digest, bytes):
                yield f"in row {number}"
            elif not isinstance(body, bytes) or text_hash(body) != digest.hex():
                yield digest.hex()


def _gap(db: Database, before: int, seq: int) -> Iterator[Problem]:
    """Numbers are given without gaps; those that were set aside are accounted for."""
    missing = seq - before - 1
    if missing and missing != len(db.rows(_SET_ASIDE, (before, seq))):
        yield Problem(
            what=f"facts between {before} and {seq} are gone",
            fix=_FIX_FILE,
            seq=before + 1,
        )


def _lost_texts(db: Database, entries: list[f.Entry], damaged: set[str]) -> Iterator[Problem]:
    named = {name for entry in entries for name in texts_of(entry.fact)}
    known = {
        digest.hex() for (digest,) in db.rows(_KNOWN_TEXTS, (msgspec.json.encode(list(named)).decode(),))
    }
    lost = (named - known) | (named & damaged)
    for entry in entries if lost else []:
        for name in lost.intersection(texts_of(entry.fact)):
            yield Problem(
                what=f"fact {entry.seq} names the text {name}, which is damaged or gone",
                fix=f"`trialrun doctor --quarantine {entry.seq}` runs the trial anew"
                if entry.trial
                else _FIX_FILE,
                trial=entry.trial,
                seq=entry.seq,
            )


def texts_of(fact: f.Fact) -> list[str]:
    """The texts that a fact names."""
    match fact:
        case f.Declared():
            return [fact.source, fact.document]
        case f.Judging():
            return [name for name in (fact.source, fact.document, fact.labelled) if name]
        case f.Judges():
            return [fact.unit] if fact.unit else []
        case f.Rated():
            return [fact.explanation] if fact.explanation else []
        case f.Held():
            return [name for _, name in fact.request.add] if fact.request else []
        case f.Settled():
            return [name for name in (fact.text, fact.raw, fact.extras) if name]
        case f.Said():
            return [fact.text]
        case f.ArtefactKept():
            return [fact.content]
        case _:
            return []


def _row_problems(db: Database) -> Iterator[Problem]:
    for names in _pages_of_trials(db):
        for trial in names:
            # One look at both, so that a run that goes on meanwhile is not taken for damage.
            with db.snapshot():
                stored = db.rows(_ROW, (trial,))
                state = _folded(db, trial)
            if state is None or (stored and stored[0][_LAGS]):
                continue
            for difference in _differences(stored[0] if stored else None, state):
                yield Problem(
                    what=f"the table of trials says {difference.column} = {difference.stored!r} of trial {trial}; "
                    f"the facts say {difference.folded!r}",
                    fix=_FIX_ROWS,
                    trial=trial,
                )


def _pages_of_trials(db: Database) -> Iterator[list[str]]:
    """All trials that have a row or facts."""
    orphans = [row[0] for row in db.rows(_ORPHANS)]
    after = ""
    while page := [row[0] for row in db.rows(_NAMES, (after, _PAGE))]:
        after = page[-1]
        yield page
    yield orphans


def _folded(db: Database, trial: str) -> TrialState | None:
    """The state by the facts; None if one of them is damaged, which is reported as such."""
    try:
        return queries.folded(db, trial)
    except StoreCorrupt:
        return None


def _differences(stored: rows.Row | None, state: TrialState) -> list[Difference]:
    folded = rows.row_of(state, lags=False)
    if stored is None:
        return [Difference(trial=state.id, column="id", stored=None, folded=state.id)]
    return [
        Difference(trial=state.id, column=column, stored=was, folded=now)
        for column, was, now in zip(rows.COLUMNS, stored, folded, strict=True)
        if was != now and column != "lags"
    ]


# --- what is mended ------------------------------------------------------------------------------------------------


def _rebuilt(db: Database, trial: str, differences: list[Difference]) -> rows.Row:
    """The cells of the trial's new row; none if its facts do not say, or if it has none any more."""
    stored = db.rows(_ROW, (trial,))
    state = _folded(db, trial)
    if state is None:
        return ()
    if not db.value("SELECT 1 FROM fact WHERE trial = ? LIMIT 1", (trial,)):
        differences.append(Difference(trial=trial, column="id", stored=trial, folded=None))
        db.run("DELETE FROM trial WHERE id = ?", (trial,))
        return ()
    differences += _differences(stored[0] if stored else None, state)
    return rows.row_of(state, lags=False)


def _begin_anew(db: Database, trial: str, seq: int, at: float) -> None:
    """The trial's facts up to now no longer count. A fork says again where it branches off, and a
    trial that rates another one which."""
    anew: list[f.Fact] = [f.Superseded(reason=f"fact {seq} was damaged and set aside")]
    readable = _readable(db, trial)
    anew += [entry.fact for entry in readable if isinstance(entry.fact, f.Forked | f.Judges)][-1:]
    cells: list[Cell] = []
    state = TrialState(id=trial)
    for entry in readable:
        state.apply(cast("f.TrialFact", entry.fact), entry.at)
    for number, fact in enumerate(anew, start=queries.last_seq(db) + 1):
        body = wire.encode(fact)
        cells += (number, trial, at, wire.KINDS[type(fact)], body, wire.checksum(number, trial, at, body))
        state.apply(cast("f.TrialFact", fact), at)
    write_facts(db, cells)
    write_trials(db, list(rows.row_of(state, lags=False)))


def _readable(db: Database, trial: str) -> list[f.Entry]:
    """The facts of a trial without those that are damaged; the others are reported on their own."""
    found: list[f.Entry] = []
    for seq, at, body, crc in db.rows(
        "SELECT seq, at, body, crc FROM fact WHERE trial = ? ORDER BY seq", (trial,)
    ):
        try:
            found.append(wire.entry_of(seq, trial, at, body, crc))
        except StoreCorrupt:
            continue
    return found
