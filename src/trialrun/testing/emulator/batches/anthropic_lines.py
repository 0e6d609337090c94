"""The lines of Anthropic's batches: one request, one result, in one file."""

from typing import cast

import msgspec

from trialrun.testing.emulator.anthropic import Anthropic
from trialrun.testing.emulator.batches.course import Ending
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.visit import LineReply


class AnthropicLines:
    """The form of message batches."""

    dialect: Dialect = Anthropic()
    splits = False
    can_fail = False

    def ask(self, raw: bytes) -> tuple[str, bytes, str]:
        line = _LINE.decode(raw)
        return line.custom_id, bytes(line.params), ""

    def dressed(self, content: Json) -> Json:
        if "usage" in content:
            cast("Json", content["usage"])["service_tier"] = "batch"
        return content

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        if reply.is_ok:
            return _encoded(id_, {"type": "succeeded", "message": reply.content})
        return _encoded(id_, {"type": "errored", "error": reply.content})

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        return _encoded(id_, {"type": "canceled" if ending == "cancelled" else "expired"})


class Line(msgspec.Struct):
    """A request of a batch."""

    custom_id: str
    params: msgspec.Raw


def _encoded(id_: str, result: Json) -> bytes:
    return msgspec.json.encode({"custom_id": id_, "result": result}) + b"\n"


_LINE = msgspec.json.Decoder(Line)
