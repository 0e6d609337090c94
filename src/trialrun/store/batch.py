"""What goes to the disk in one transaction, and the statements that put it there.

Each statement carries many rows. apsw lets go of the interpreter lock in every step, and a thread that asks for it
back waits up to 5 ms while the event loop computes: a statement per row would make 1,000 facts last seconds.
"""

import asyncio
import threading
from functools import cache

from trialrun.core.errors import StoreError
from trialrun.core.facts import TrialFact
from trialrun.store.database import Cell, Database
from trialrun.store.rows import COLUMNS

# SQL of 16 kB and more is not kept prepared by apsw.
_PREPARED_LIMIT = 16_000

_FACTS = ("fact", 6, "")
_TEXTS = ("text", 2, "ON CONFLICT (hash) DO NOTHING")
_TRIALS = (
    "trial",
    len(COLUMNS),
    "ON CONFLICT (id) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:]),
)
_LIVE = (
    "INSERT INTO live VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at, body = excluded.body"
)
_TAKE = "UPDATE inbox SET taken_at = ?, answer = ? WHERE id = ? AND taken_at IS NULL"


Change = tuple[str, float, tuple[TrialFact, ...]]
"""What happened to a trial, and when."""


class Batch:
    """Facts, texts, rows and acknowledgements that become durable together. Cells lie flat, row after row."""

    __slots__ = (
        "arrivals",
        "error",
        "facts",
        "finished",
        "live",
        "loop",
        "retired",
        "rows",
        "takes",
        "texts",
        "timer",
        "trials",
        "visitors",
        "waiters",
    )

    def __init__(self) -> None:
        self.facts: list[Cell] = []
        self.texts: list[Cell] = []
        self.trials: dict[str, None] = {}
        self.arrivals: list[Change] = []
        """What happened to those of them whose state was not in memory then."""
        self.visitors: dict[str, None] = {}
        """Of these, the ones that were parked until then: they come for one change, and are opened for it later."""
        self.retired: dict[str, None] = {}
        """Trials whose rows become exact with this batch; memory may forget them then."""
        self.rows: list[Cell] = []
        self.takes: list[tuple[float, str, int]] = []
        self.live: tuple[float, bytes] | None = None
        self.waiters: list[asyncio.Future[None]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.finished = threading.Event()
        self.error: StoreError | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.facts or self.texts or self.takes or self.live)

    def write(self, db: Database) -> None:
        """One transaction: all of it, or nothing."""
        with db.transaction():
            _insert(db, _FACTS, self.facts)
            _insert(db, _TEXTS, self.texts)
            _insert(db, _TRIALS, self.rows)
            for take in self.takes:
                db.run(_TAKE, take)
            if self.live is not None:
                db.run(_LIVE, self.live)


def write_facts(db: Database, cells: list[Cell]) -> None:
    """Put rows of `fact`, given flat, at the end."""
    _insert(db, _FACTS, cells)


def write_trials(db: Database, cells: list[Cell]) -> None:
    """Put rows of `trial`, given flat, in the place of those that are there."""
    _insert(db, _TRIALS, cells)


def _insert(db: Database, into: tuple[str, int, str], cells: list[Cell]) -> None:
    table, width, conflict = into
    most = _most_rows(table, width, conflict) * width
    for start in range(0, len(cells), most):
        part = cells[start : start + most] if len(cells) > most else cells
        rows = 1 << (len(part) // width - 1).bit_length()
        missing = rows * width - len(part)
        db.run(_insert_sql(table, width, conflict, rows), part + [None] * missing if missing else part)


@cache
def _insert_sql(table: str, width: int, conflict: str, rows: int) -> str:
    """Inserts up to `rows` rows; empty ones at the end are skipped, so that ten statements serve every number."""
    row = "(" + ",".join("?" * width) + ")"
    return f"INSERT INTO {table} SELECT * FROM (VALUES {','.join([row] * rows)}) WHERE column1 IS NOT NULL {conflict}"  # noqa: S608  # names of ours


@cache
def _most_rows(table: str, width: int, conflict: str) -> int:
    rows = 1024
    while len(_insert_sql(table, width, conflict, rows)) > _PREPARED_LIMIT:
        rows //= 2
    return rows
