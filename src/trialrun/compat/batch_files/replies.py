"""Answers out of result files, whichever provider wrote them, and wherever they were downloaded.

R1. A line is read by the adapter that reads it in a study: the same text, the same tokens, the same errors.
R2. A file says by its lines whose it is; a name only decides where lines could be of two providers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trialrun.compat.batch_files.accounts import Routes
from trialrun.compat.batch_files.files import filled_lines
from trialrun.core.batches import BatchRoute, Result
from trialrun.core.calls import Finish, Request, Usage
from trialrun.core.errors import ReplyUnreadable, UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came for one request. `text` is None where there is no answer to read; `problem` says why."""

    id: str
    text: str | None
    finish: Finish = "other"
    model: str = ""
    usage: Usage | None = None
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it can be judged, and answered."""
        return bool(self.text and self.text.strip()) and self.finish != "length"


def answers_in(files: Iterable[Path], *, routes: Routes, service: str = "") -> dict[str, Answer]:
    """The answers by id. An answer goes before an error with the same id, and the first before later ones."""
    found: dict[str, Answer] = {}
    for path in files:
        for answer in _answers(path, routes=routes, service=service):
            known = found.get(answer.id)
            if known is None or (known.text is None and answer.text is not None):
                found[answer.id] = answer
    return found


def result_in(route: BatchRoute, line: bytes) -> Result:
    """The line as the adapter reads it; one whose id stands under `key` at a provider that calls it otherwise, too."""
    result = route.read(line)
    if result.id:
        return result
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return result
    return route.read(msgspec.json.encode(row | {"custom_id": row["key"]})) if row.get("key") else result


def service_in(line: bytes, *, where: str) -> str:
    """Whose line it is."""
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        row = {}
    if "batch_request_id" in row:
        return "xai"
    if "result" in row:
        return "claude"
    if "request" in row or "processed_time" in row:
        return "vertex"
    response = row.get("response")
    if (isinstance(response, dict) and "status_code" in response) or "custom_id" in row:
        return "openai"
    if "key" in row or "metadata" in row:
        return "gemini"
    raise UsageError(
        "these are no results of a batch",
        where=where,
        fix="name a file that `trialrun batch download` wrote, or say `--provider`",
    )


def _answers(path: Path, *, routes: Routes, service: str) -> Iterator[Answer]:
    if not path.is_file():
        raise UsageError(
            f"there is no file `{path}`", where=str(path), fix="bring it with `trialrun batch download`"
        )
    for number, line in filled_lines(path):
        # One provider has two: Gemini's own lines, and those of Vertex AI.
        own = service_in(line, where=f"{path}:{number}")
        is_google = {own, service or own} <= {"gemini", "vertex", "google"}
        route = routes(own if is_google or not service else service, "")
        answer = _answer(route, result_in(route, line))
        if answer.id:
            yield answer


def _answer(route: BatchRoute, result: Result) -> Answer:
    if result.raw is None:
        return Answer(id=result.id, text=None, problem=str(result.error or result.reason or "it never ran"))
    usage = route.provider.meter(result.raw)
    try:
        parsed = route.provider.parse(result.raw, Request(model="", messages=(), max_tokens=1))
    except ReplyUnreadable as error:
        return Answer(id=result.id, text=None, usage=usage, problem=error.what)
    problem = {"length": "the answer was cut", "refusal": "the model refused"}.get(parsed.finish, "")
    return Answer(
        id=result.id,
        text=parsed.text,
        finish=parsed.finish,
        model=parsed.model,
        usage=usage,
        problem=problem,
    )
