"""The lines of Gemini's batches, in a file or inline, and what both kinds of Google's batches share."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import msgspec

from trialrun.testing.emulator.asked import refused
from trialrun.testing.emulator.batches.course import Ending, Phase, Standing
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Lines
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.google import Google
from trialrun.testing.emulator.visit import LineReply

_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4, 529: 14}
"""The numbers that Google's own errors have, by their HTTP status."""
_WORDS: dict[Phase, str] = {
    "validating": "PENDING",
    "queued": "PENDING",
    "running": "RUNNING",
    "paused": "PAUSED",
    "finishing": "RUNNING",
    "cancelling": "RUNNING",
}
_ENDINGS: dict[Ending, str] = {
    "completed": "SUCCEEDED",
    "rejected": "FAILED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
}


class GeminiLines:
    """The form of requests in a file: each has a key."""

    dialect: Dialect = Google()
    splits = False
    can_fail = True

    def ask(self, raw: bytes) -> tuple[str, bytes, str]:
        line = _LINE.decode(raw)
        return line.key, bytes(line.request), ""

    def dressed(self, content: Json) -> Json:
        return content

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        return msgspec.json.encode({"key": id_, **result_of(reply)}) + b"\n"

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        return None


class InlineLines(GeminiLines):
    """The form of requests inside the body: each may have metadata that come back with its result."""

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        told = result_of(reply)
        line = _LINE.decode(raw)
        if line.metadata:
            known = line.key == id_
            told["metadata"] = line.metadata if known else {"key": id_}
        return msgspec.json.encode(told) + b"\n"


def result_of(reply: LineReply) -> Json:
    """A response, or Google's form of an error inside of a result."""
    if reply.is_ok:
        return {"response": reply.content}
    error = cast("Json", reply.content["error"])
    return {"error": {"code": _CODES.get(reply.status, 2), "message": error["message"]}}


def check(lines: Lines) -> str:
    """Why a file is no input; empty if it is one."""
    if not len(lines):
        return "The input file has no requests."
    for number, raw in enumerate(lines, 1):
        try:
            _LINE.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"Line {number} of the input file is not a request: {error}"
    return ""


def spooled(requests: "list[Inlined]") -> bytes:
    """Requests from a body as lines, each with a key to know it by."""
    if not requests:
        raise refused("* BatchGenerateContentRequest.batch.input_config.requests: requests is not specified")
    lines: list[bytes] = []
    for number, each in enumerate(requests):
        metadata = each.metadata or {}
        key = metadata.get("key") or next(iter(metadata.values()), "") or f"request-{number}"
        line = Line(request=each.request, key=key, metadata=metadata)
        lines.append(msgspec.json.encode(line).replace(b"\n", b" ") + b"\n")
    return b"".join(lines)


def state_of(
    job: Job, stands: Standing, prefix: str, words: Mapping[Phase, str] = MappingProxyType({})
) -> str:
    """Where a batch stands, in Google's words; those of `words` before the others."""
    if stands.ending is not None:
        is_partial = job.fault == "partly" and stands.ending == "completed" and job.failed
        return f"{prefix}{'PARTIALLY_SUCCEEDED' if is_partial else _ENDINGS[stands.ending]}"
    word = job.odd_word(stands) or words.get(stands.phase) or _WORDS[stands.phase]
    return word if "_STATE_" in word else f"{prefix}{word.upper()}"


class Inlined(msgspec.Struct):
    """A request inside the body of the creation."""

    request: msgspec.Raw
    metadata: dict[str, str] | None = None


class Line(msgspec.Struct, omit_defaults=True):
    """A request of a batch."""

    request: msgspec.Raw
    key: str = ""
    metadata: dict[str, str] | None = None


_LINE = msgspec.json.Decoder(Line)
