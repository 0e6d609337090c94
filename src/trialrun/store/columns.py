"""Everything that was said, as columns: what a data frame is made of, read in one go.

Row by row it takes three times as long. Only for studies at rest whose trials never began anew and have no forks, as
those are read generation by generation; the caller falls back to `Archive.messages` for the others.
"""

from typing import NamedTuple

import msgspec

from trialrun.core import facts as f
from trialrun.core.errors import StoreCorrupt
from trialrun.store import wire
from trialrun.store.database import Database

# Trials whose facts do not simply all count.
_SPECIAL = "SELECT 1 FROM trial WHERE lags OR generation > 0 OR forked_from <> '' LIMIT 1"

# Each utterance with its text, in planned order.
_SAID = """
SELECT trial.id, fact.seq, fact.at, fact.body, fact.crc, text.body
FROM trial
JOIN fact ON fact.trial = trial.id AND fact.kind = 'said'
LEFT JOIN text ON text.hash = unhex(json_extract(fact.body, '$.text'))
ORDER BY trial.planned, trial.id, fact.seq
"""

_all_said = msgspec.json.Decoder(list[f.Said])


class MessageColumns(NamedTuple):
    """One list per column of `tables.Message`, all of the same length."""

    trial: list[str]
    number: list[int]
    turn: list[int]
    party: list[str]
    text: list[str]
    audience: list[tuple[str, ...]]
    call: list[str]
    said_at: list[float]


def messages(db: Database) -> MessageColumns | None:
    """Everything that was said; None if it cannot be read in one go."""
    if db.value(_SPECIAL):
        return None
    trials: list[str] = []
    numbers: list[int] = []
    texts: list[str] = []
    times: list[float] = []
    bodies: list[bytes] = []
    number, last = 0, ""
    for trial, seq, at, body, crc, text in db.each(_SAID):
        wire.verify(seq, trial, at, body, crc)
        number = number + 1 if trial == last else 0
        last = trial
        trials.append(trial)
        numbers.append(number)
        times.append(at)
        bodies.append(body)
        texts.append("" if text is None else wire.text_of(text))
    try:
        said = _all_said.decode(b"[" + b",".join(bodies) + b"]")
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            f"an utterance is not a fact that this version knows: {error}",
            where=str(db.path),
            fix="`trialrun doctor` tells which one",
        ) from error
    return MessageColumns(
        trial=trials,
        number=numbers,
        turn=[one.turn for one in said],
        party=[one.party for one in said],
        text=texts,
        audience=[one.audience for one in said],
        call=[one.call for one in said],
        said_at=times,
    )
