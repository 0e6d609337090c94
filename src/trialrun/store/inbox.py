"""How another process puts a wish to the one that runs: stop, or an answer to a human question."""

from pathlib import Path

import msgspec

from trialrun.core.ports import Clock, Command
from trialrun.store import database, schema
from trialrun.store.database import Database

# Wishes that nobody has taken yet, oldest first.
_OPEN = "SELECT id, kind, body FROM inbox WHERE taken_at IS NULL ORDER BY id"
_POST = "INSERT INTO inbox (kind, body, at) VALUES (?, ?, ?) RETURNING id"
_ANSWER = "SELECT answer FROM inbox WHERE id = ? AND taken_at IS NOT NULL"

_body = msgspec.json.Decoder(dict[str, object])


def open_commands(db: Database) -> list[Command]:
    """Wishes that nobody has taken yet."""
    return [Command(id=id_, kind=kind, body=_body.decode(body)) for id_, kind, body in db.rows(_OPEN)]


def post(folder: Path, kind: str, body: dict[str, object], *, clock: Clock) -> int:
    """Leave a wish for the process that runs (or the next one); gives its number."""
    db = database.open_guest(folder / schema.FILE)
    try:
        with db.told(), db.transaction():
            return int(db.value(_POST, (kind, msgspec.json.encode(body), clock.now())))
    finally:
        db.close()


def answer_to(folder: Path, number: int) -> str | None:
    """What became of a wish; None while nobody has taken it."""
    db = database.open_reader(folder / schema.FILE)
    try:
        with db.told():
            return db.value(_ANSWER, (number,))
    finally:
        db.close()
