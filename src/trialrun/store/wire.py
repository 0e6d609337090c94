"""Facts as the bytes that are stored, and back. A checksum over the whole row tells a damaged one from a good one."""

import struct
from typing import get_args
from zlib import crc32

import msgspec

from trialrun.core.errors import StoreCorrupt
from trialrun.core.facts import Entry, Fact, Finished

encode = msgspec.json.Encoder().encode
_PLACE = struct.Struct("<qd").pack
decode = msgspec.json.Decoder[Fact](Fact).decode
_finished = msgspec.json.Decoder(Finished).decode

NO_CELLS = (TypeError, ValueError, AttributeError, struct.error)
"""What reading a row raises when a cell does not even have its type any more."""

KINDS: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Fact)}
"""The stored name of every kind of fact."""


def checksum(seq: int, trial: str, at: float, body: bytes) -> int:
    """Guards the fact, and which trial it belongs to, and when and in which place it happened."""
    return crc32(body, crc32(_PLACE(seq, at) + trial.encode()))


def verify(seq: int, trial: str, at: float, body: bytes, crc: int) -> None:
    """StoreCorrupt unless the row is as it was written."""
    try:
        is_good = checksum(seq, trial, at, body) == crc
    except NO_CELLS as error:
        raise damaged(seq, trial, str(error)) from error
    if not is_good:
        raise damaged(seq, trial, "its checksum does not match")


def entry_of(seq: int, trial: str, at: float, body: bytes, crc: int) -> Entry:
    """The entry that was stored as this row, or StoreCorrupt."""
    verify(seq, trial, at, body, crc)
    try:
        return Entry(seq, trial, at, decode(body))
    except msgspec.MsgspecError as error:
        raise damaged(seq, trial, f"it is not a fact that this version knows: {error}") from error


def read_back(fact: Finished) -> Finished:
    """The fact as it will be when it is read from the store: plain data."""
    return _finished(encode(fact))


def damaged(seq: int, trial: str, why: str) -> StoreCorrupt:
    """The error for a row of `fact` that does not read back."""
    belongs = f"trial {trial}" if trial else "the study itself"
    return StoreCorrupt(
        f"fact {seq} of {belongs} is damaged: {why}",
        where=f"study.db, table fact, seq {seq}",
        fix=f"`trialrun doctor --quarantine {seq}` sets it aside and runs the trial anew; nothing else is lost",
    )


def text_bytes(text: str | bytes) -> bytes:
    """A text as stored. Lone surrogates, which a model can produce through escapes, survive."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def text_of(body: bytes) -> str:
    """A stored text as a string; bytes that are no UTF-8 (an image) come as lone surrogates, none is lost."""
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("utf-8", "surrogateescape")
