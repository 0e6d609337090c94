"""The lines of OpenAI's batches: how requests are read and checked, and how results are written."""

import hashlib
from collections.abc import Callable

import msgspec

from trialrun.testing.emulator.batches.course import Ending
from trialrun.testing.emulator.batches.lines import Lines, Problem
from trialrun.testing.emulator.batches.offers import Offer
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.openai_responses import OpenAIResponses
from trialrun.testing.emulator.visit import LineReply

_MOST_PROBLEMS = 100
_NEVER = {
    "expired": ("batch_expired", "The batch's time was over before this request was begun."),
    "cancelled": ("batch_cancelled", "The batch was cancelled before this request was begun."),
    "failed": ("batch_failed", "The batch failed before this request was begun."),
}


class OpenAILines:
    """The form of one endpoint."""

    splits = True
    can_fail = True

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def ask(self, raw: bytes) -> tuple[str, bytes, str]:
        line = _LINE.decode(raw)
        return line.custom_id, bytes(line.body), ""

    def dressed(self, content: Json) -> Json:
        return content

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        response = {
            "status_code": reply.status,
            "request_id": f"req_{reply.stamp.id}",
            "body": reply.content,
        }
        return _encoded(
            {"id": f"batch_req_{reply.stamp.id}", "custom_id": id_, "response": response, "error": None}
        )

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        code, message = _NEVER.get(ending, _NEVER["failed"])
        error = {"code": code, "message": message}
        return _encoded(
            {"id": f"batch_req_{_short(raw)}", "custom_id": id_, "response": None, "error": error}
        )


FORMS = {
    "/v1/chat/completions": OpenAILines(OpenAIChat()),
    "/v1/responses": OpenAILines(OpenAIResponses()),
}
"""By endpoint."""


def problems_in(
    lines: Lines, endpoint: str, offer: Offer, *, is_known: Callable[[str], bool]
) -> tuple[tuple[Problem, ...], str]:
    """Why a file is no input for a batch, and the model that its first request names."""
    if not len(lines):
        return (_problem("empty_file", "The input file has no requests."),), ""
    if len(lines) > offer.requests:
        message = f"The input file has {len(lines)} requests; at most {offer.requests} are allowed."
        return (_problem("too_many_tasks", message),), ""
    if lines.size_bytes > offer.size_bytes:
        message = f"The input file has {lines.size_bytes} bytes; at most {offer.size_bytes} are allowed."
        return (_problem("file_too_large", message),), ""
    found: list[Problem] = []
    seen: set[str] = set()
    first = ""
    for number, raw in enumerate(lines, 1):
        problem, model = _problem_in(raw, number, endpoint, seen)
        first = first or model
        if problem is None and model != first:
            problem = _problem(
                "mismatched_model", f"Every request must be for `{first}`.", number, "body.model"
            )
        if problem is None and model and not is_known(model):
            message = f"The model `{model}` is not there for batches, or not for you."
            problem = _problem("model_not_found", message, number, "body.model")
        if problem is not None:
            found.append(problem)
            if len(found) >= _MOST_PROBLEMS:
                break
    return tuple(found), first


def _problem_in(raw: bytes, number: int, endpoint: str, seen: set[str]) -> tuple[Problem | None, str]:
    """What is wrong with one line, and its model."""
    try:
        line = _LINE.decode(raw)
        model = _BODY.decode(line.body).model
    except msgspec.ValidationError as error:
        name = str(error).partition("field `")[2].rstrip("`")
        return _problem("missing_required_parameter", f"{error}.", number, name or None), ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _problem("invalid_json_line", "This line is not a JSON object.", number), ""
    if not line.custom_id:
        return _problem("missing_required_parameter", "`custom_id` is empty.", number, "custom_id"), model
    if line.custom_id in seen:
        message = f"The custom id `{line.custom_id}` is used twice."
        return _problem("duplicate_custom_id", message, number, "custom_id"), model
    seen.add(line.custom_id)
    if line.method != "POST":
        return _problem("invalid_method", "The method must be POST.", number, "method"), model
    if line.url != endpoint:
        return _problem(
            "invalid_url", f"The url must be the batch's endpoint, {endpoint}.", number, "url"
        ), model
    return None, model


def _problem(code: str, message: str, line: int | None = None, param: str | None = None) -> Problem:
    return Problem(code=code, message=message, line=line, param=param)


def _short(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class _Line(msgspec.Struct):
    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class _Body(msgspec.Struct):
    model: str


_LINE = msgspec.json.Decoder(_Line)
_BODY = msgspec.json.Decoder(_Body)
