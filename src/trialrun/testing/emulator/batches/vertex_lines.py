"""The lines of Vertex AI's batches: rows of a table, whose columns come back with the reply beside them."""

from typing import cast

import msgspec

from trialrun.providers.batches.importable import obstacle_in_row
from trialrun.testing.emulator.batches.course import Ending
from trialrun.testing.emulator.batches.lines import Lines
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.google import Google
from trialrun.testing.emulator.visit import LineReply

_ID = "custom_id"


class VertexLines:
    """A row has its request in one column; what is in the others comes back as it is, or nearly."""

    dialect: Dialect = Google(is_vertex=True)
    splits = False
    can_fail = True

    def ask(self, raw: bytes) -> tuple[str, bytes, str]:
        line = _LINE.decode(raw)
        return str(line.custom_id), bytes(line.request), ""

    def dressed(self, content: Json) -> Json:
        return content

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        row = cast("Json", msgspec.json.decode(raw))
        row |= {"status": "", "processed_time": None}
        if id_ or _ID in row:
            # The table takes a column of digits for numbers.
            row[_ID] = int(id_) if id_.isdecimal() else id_
        if reply.is_ok:
            row["response"] = reply.content
        else:
            row["status"] = f"{_word(reply)}: {msgspec.json.encode(reply.content).decode()}"
            row["response"] = {}
        return msgspec.json.encode(row) + b"\n"

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        return None


def check(lines: Lines, *, is_strict: bool) -> str:
    """Why a file cannot be imported; empty if it can. One row is enough."""
    if not len(lines):
        return "The input has no rows."
    types: dict[str, str] = {}
    for number, raw in enumerate(lines, 1):
        try:
            request = _LINE.decode(raw).request
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"Failed to import data: row {number} of the input is not a request: {error}"
        obstacle = obstacle_in_row(msgspec.json.decode(request), types) if is_strict else None
        if obstacle:
            return f"Failed to import data: row {number}: {obstacle}"
    return ""


def _word(reply: LineReply) -> str:
    error = cast("Json", reply.content["error"])
    return "Bad Request" if reply.status == 400 else str(error["status"])


class _Line(msgspec.Struct):
    request: msgspec.Raw
    custom_id: str | int = ""


_LINE = msgspec.json.Decoder(_Line)
