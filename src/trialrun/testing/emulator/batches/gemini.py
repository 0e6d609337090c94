"""Batches of the Gemini Developer API: an operation for each, with requests inline or in a file."""

import msgspec

from trialrun.testing.emulator.asked import Refusal, Sent, Trouble, refused
from trialrun.testing.emulator.batches.course import Standing
from trialrun.testing.emulator.batches.door import Caller, Door, conflict, missing, said_so
from trialrun.testing.emulator.batches.gemini_lines import (
    GeminiLines,
    Inlined,
    InlineLines,
    check,
    spooled,
    state_of,
)
from trialrun.testing.emulator.batches.intake import whole
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Form, Lines, Problem
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.pages import paged
from trialrun.testing.emulator.dialect import Json, decoded

_IN_FILE, _INLINE = GeminiLines(), InlineLines()
_MOST_INLINE = 20 * 1024 * 1024
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


class GeminiBatches:
    """`models/M:batchGenerateContent`, and `batches` with what is below it."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def subject(self, caller: Caller) -> Job | None:
        return self._door.queue.find(caller.provider, caller.owner, caller.at("batch"))

    async def create(self, caller: Caller) -> Sent:
        body = await whole(caller.request, self._door.files, most=_MOST_INLINE)
        given = decoded(_CREATE, body.read_bytes()).batch
        name = given.displayName or given.display_name
        if not name:
            raise refused("* BatchGenerateContentRequest.batch.display_name: display_name is required")
        form, lines, problem, input_id = self._input(given, caller)
        job = self._begun(caller, name=name, form=form, lines=lines, problem=problem, input_id=input_id)
        return said_so(await self._told(job))

    async def look(self, caller: Caller) -> Sent:
        return said_so(await self._told(self._find(caller)))

    async def listed(self, caller: Caller) -> Sent:
        jobs, more = paged(self._door.queue.of(caller.provider, caller.owner), caller, usual=50)
        told: Json = {"operations": [await self._told(job, is_listed=True) for job in jobs]}
        return said_so({**told, "nextPageToken": more} if more else told)

    async def cancel(self, caller: Caller) -> Sent:
        await self._door.queue.cancel(self._find(caller))
        return said_so({})

    async def delete(self, caller: Caller) -> Sent:
        job = self._find(caller)
        if (await self._door.queue.settle(job)).phase != "ended":
            raise conflict("The batch has not ended; cancel it first.")
        self._door.queue.remove(job)
        return said_so({})

    def _find(self, caller: Caller) -> Job:
        job = self.subject(caller)
        if job is None:
            raise missing(f"Requested entity was not found: batches/{caller.at('batch')}.")
        return job

    def _input(self, given: "_Batch", caller: Caller) -> tuple[Form, Lines, str, str]:
        """The requests, why they are none, and the file in which they came."""
        config = given.inputConfig or given.input_config or _Input()
        file = config.fileName or config.file_name
        if file:
            stored = self._door.files.find(
                caller.provider, caller.owner, file.removeprefix("files/"), caller.now
            )
            if stored is None:
                raise missing(f"File {file} is not there, or not for you.")
            lines = Lines(stored.path)
            return _IN_FILE, lines, check(lines), stored.id
        requests = config.requests.requests if config.requests else []
        path = self._door.files.place()
        path.write_bytes(spooled(requests))
        return _INLINE, Lines(path), "", ""

    def _begun(
        self, caller: Caller, *, name: str, form: Form, lines: Lines, problem: str, input_id: str
    ) -> Job:
        queue, model = self._door.queue, caller.at("model")
        tokens = 0
        if not problem:
            room = queue.room(lines, form, provider=caller.provider, key=caller.key, model=model)
            if room is None:
                raise _too_many(model)
            tokens = room
        if not problem and len(lines) > queue.offer(caller.provider).requests:
            problem = "The batch has too many requests."
        job = queue.create(
            provider=caller.provider,
            owner=caller.owner,
            key=caller.key,
            path=caller.request.path.replace(":batchGenerateContent", ":generateContent"),
            model=model,
            form=form,
            lines=lines,
            prefix="",
            given=name,
            input_id=input_id,
            problems=(Problem(code="INVALID_ARGUMENT", message=problem),) if problem else (),
            tokens=tokens,
        )
        if job.fault == "enqueued":
            queue.remove(job)
            raise _too_many(model)
        return job

    async def _told(self, job: Job, *, is_listed: bool = False) -> Json:
        stands = await self._door.queue.settle(job)
        has_ended = stands.phase == "ended"
        metadata: Json = {
            "@type": _TYPE,
            "model": f"models/{job.model}",
            "displayName": job.given,
            "name": f"batches/{job.id}",
            "createTime": timestamp(job.course.created_at),
            "updateTime": timestamp(min(stands.ended_at, self._door.now())),
            "batchStats": _stats(job, stands),
            "state": state_of(job, stands, "BATCH_STATE_"),
        }
        if has_ended:
            metadata["endTime"] = timestamp(stands.ended_at)
        told: Json = {"name": f"batches/{job.id}", "metadata": metadata}
        if has_ended:
            told["done"] = True
            output = _output(job, self._door.now())
            if stands.ending in ("failed", "rejected"):
                told["error"] = {"code": 3 if stands.ending == "rejected" else 13, "message": _why(job)}
            elif output is not None and not (is_listed and job.form is _INLINE):
                metadata["output"] = told["response"] = output
        return told


def _output(job: Job, now: float) -> Json | None:
    """Where the results are; None if there are none, or not any more."""
    stored = job.output_file
    if stored is None or not stored.is_there(now):
        return None
    if job.form is _INLINE:
        results = b",".join(stored.path.read_bytes().splitlines())
        return {"inlinedResponses": {"inlinedResponses": msgspec.Raw(b"[" + results + b"]")}}
    return {"responsesFile": f"files/{stored.id}"}


def _stats(job: Job, stands: Standing) -> Json | None:
    """Numbers are strings here, and a number that is 0 is left out."""
    if job.fault == "no_counts":
        return None
    pending = len(job.lines) - job.done if stands.phase != "ended" else 0
    counts = {
        "requestCount": len(job.lines),
        "successfulRequestCount": job.told_counts[0],
        "failedRequestCount": job.told_counts[1],
        "pendingRequestCount": pending,
    }
    return {name: str(count) for name, count in counts.items() if count}


def _why(job: Job) -> str:
    if job.problems:
        return job.problems[0].message
    if job.fault == "invalid" and job.rule and job.rule.errors:
        lines = ", ".join(str(number) for number in range(1, job.rule.errors + 1))
        return job.message or f"Requests that are not valid, by line: {lines}."
    return job.message or "The batch failed."


def _too_many(model: str) -> Refusal:
    return Refusal(
        Trouble(kind="throttled", model=model, limit="tokens", message="Too many tokens are waiting.")
    )


class _Requests(msgspec.Struct):
    requests: list[Inlined] = []


# The wire's own names, in both spellings that Google reads.
class _Input(msgspec.Struct):
    fileName: str = ""  # noqa: N815
    file_name: str = ""
    requests: _Requests | None = None


class _Batch(msgspec.Struct):
    displayName: str = ""  # noqa: N815
    display_name: str = ""
    inputConfig: _Input | None = None  # noqa: N815
    input_config: _Input | None = None


class _Create(msgspec.Struct):
    batch: _Batch


_CREATE = msgspec.json.Decoder(_Create)
