"""What the fault tests of the store share: a small study, and ways to look at and alter its file."""

from pathlib import Path

import apsw

from trialrun.core import facts as f
from trialrun.core.errors import StoreError
from trialrun.core.identity import text_hash
from trialrun.store import inspection, schema
from trialrun.store.journal import SqliteJournal
from trialrun.testing.clock import ManualClock
from trialrun.testing.made_facts import finished, held, settled, started

CLOCK = ManualClock()


def open_journal(folder: Path) -> SqliteJournal:
    return SqliteJournal.open(folder, clock=CLOCK)


def alter(folder: Path, sql: str, *cells: str | int) -> None:
    """Change the file behind the journal's back."""
    db = apsw.Connection(str(folder / schema.FILE))
    db.execute(sql, cells)
    db.close()


async def make_study(folder: Path, *, trials: int = 5) -> None:
    """A few finished trials, each with a text of its own and one that they share."""
    journal = open_journal(folder)
    for number in range(trials):
        texts = {text_hash(text): text for text in ("shared", f"own of t{number}")}
        said = [f.Said(at=f"s{place}", turn=1, party="a", text=name) for place, name in enumerate(texts)]
        journal.append(
            f"t{number}", [started(replicate=number), held("1"), settled("1"), *said, finished()], texts
        )
    await journal.commit()
    await journal.close()


def problems_of(folder: Path) -> list[inspection.Problem]:
    """What a check says of a file, also when it cannot even be opened."""
    try:
        return inspection.check(folder)
    except StoreError as error:
        return [inspection.Problem(what=error.what, fix=error.fix)]
