"""The facts of some kinds, trial by trial in planned order, a page of trials at a time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from trialrun.core import facts as f
from trialrun.core.state import TrialState
from trialrun.store import queries, rows, wire
from trialrun.store.database import Database

SIZE = 250
_START = (-1, "")

_PLACE = "id, planned, lags OR generation > 0, lags OR forked_from <> ''"

# The next trials in planned order.
_PLACES = f"SELECT {_PLACE} FROM trial WHERE (planned, id) > (?, ?) ORDER BY planned, id LIMIT ?"  # noqa: S608

# Some trials, in planned order.
_SOME_PLACES = f"SELECT {_PLACE} FROM trial WHERE id IN (SELECT value FROM json_each(?)) ORDER BY planned, id"  # noqa: S608

_ROWS = f"SELECT {', '.join(rows.COLUMNS)} FROM trial WHERE (planned, id) > (?, ?) AND "  # noqa: S608
_IN_ORDER = " ORDER BY planned, id LIMIT ?"

# The next trials of the study with everything that their rows say.
_STATES = f"{_ROWS} judging = '' {_IN_ORDER}"

# The same of the trials that rate others.
_JUDGING = f"{_ROWS} judging <> '' {_IN_ORDER}"

# The facts of some kinds of some trials; in the order of the index, which is by trial and kind.
_FACTS = """
SELECT trial, seq, at, body, crc FROM fact
WHERE trial IN (SELECT value FROM json_each(?)) AND kind IN (SELECT value FROM json_each(?))
"""

# Where some trials began anew for the last time.
_ANEW = """
SELECT trial, max(seq) FROM fact
WHERE trial IN (SELECT value FROM json_each(?)) AND kind = 'superseded' GROUP BY trial
"""

_json = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """A trial as a table comes by it. Both marks may be set without need, never missing."""

    trial: str
    planned: int
    may_have_begun_anew: bool
    may_be_fork: bool


def states(db: Database, *, judging: bool = False) -> Iterator[TrialState]:
    """Every trial that began, in planned order: those of the study, or those that rate them."""
    after = _START
    while True:
        with db.told():
            found = db.rows(_JUDGING if judging else _STATES, (*after, SIZE))
            page = [queries.state_at(db, row) for row in found]
        if not page:
            return
        after = (page[-1].planned, page[-1].id)
        yield from page


def places(db: Database, only: Sequence[str] | None) -> Iterator[list[Place]]:
    """Pages of trials in planned order: all, or those that are named."""
    if only is None:
        after = _START
        while page := _places(db, _PLACES, (*after, SIZE)):
            after = (page[-1].planned, page[-1].trial)
            yield page
    else:
        for start in range(0, len(only), SIZE):
            yield _places(db, _SOME_PLACES, (_listed(only[start : start + SIZE]),))


def facts(
    db: Database, page: list[Place], kinds: tuple[str, ...], *, all_generations: bool
) -> dict[str, list[f.Entry]]:
    """The facts of these kinds by trial, oldest first; of the last generation, or of all."""
    found: dict[str, list[f.Entry]] = {place.trial: [] for place in page}
    with db.told():
        anew: dict[str, int] = {}
        if not all_generations:
            suspects = [place.trial for place in page if place.may_have_begun_anew]
            anew = dict(db.rows(_ANEW, (_listed(suspects),))) if suspects else {}
        for trial, seq, at, body, crc in db.rows(_FACTS, (_listed(list(found)), _listed(kinds))):
            if not anew or seq > anew.get(trial, 0):
                entry = wire.entry_of(seq, trial, at, body, crc)
                found[trial].append(entry)
    if len(kinds) > 1:
        for entries in found.values():
            entries.sort(key=_seq)
    return found


def _places(db: Database, sql: str, cells: tuple[str | int, ...]) -> list[Place]:
    with db.told():
        return [Place._make(row) for row in db.rows(sql, cells)]


def _seq(entry: f.Entry) -> int:
    return entry.seq


def _listed(names: Sequence[str]) -> str:
    return _json(names).decode()
