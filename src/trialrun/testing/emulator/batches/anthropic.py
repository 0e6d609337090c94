"""Anthropic's message batches: all requests in one body, and all results behind one address."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trialrun.testing.emulator.asked import Refusal, Sent, Trouble, refused
from trialrun.testing.emulator.batches.anthropic_lines import AnthropicLines, Line
from trialrun.testing.emulator.batches.course import Standing
from trialrun.testing.emulator.batches.door import Caller, Door, Download, conflict, missing, said_so
from trialrun.testing.emulator.batches.files import Files
from trialrun.testing.emulator.batches.intake import whole
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Lines
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.offers import Offer
from trialrun.testing.emulator.dialect import Json, decoded

_FORM = AnthropicLines()
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PATH = "/messages/batches"


class AnthropicBatches:
    """`/v1/messages/batches` and what is below it."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def subject(self, caller: Caller) -> Job | None:
        return self._door.queue.find(caller.provider, caller.owner, caller.at("batch"))

    async def create(self, caller: Caller) -> Sent:
        queue = self._door.queue
        offer = queue.offer(caller.provider)
        body = await whole(caller.request, self._door.files, most=offer.size_bytes)
        lines = _spooled(_checked(body, offer), self._door.files)
        model = _model(lines)
        tokens = queue.room(lines, _FORM, provider=caller.provider, key=caller.key, model=model)
        if tokens is None:
            raise _too_many(model)
        job = queue.create(
            provider=caller.provider,
            owner=caller.owner,
            key=caller.key,
            path="/v1/messages",
            model=model,
            form=_FORM,
            lines=lines,
            prefix="msgbatch_01",
            tokens=tokens,
        )
        if job.course.ending == "rejected":
            queue.remove(job)
            raise (
                _too_many(model) if job.fault == "enqueued" else refused(job.message or "requests: not valid")
            )
        return said_so(await self._told(job, caller))

    async def look(self, caller: Caller) -> Sent:
        return said_so(await self._told(self._find(caller), caller))

    async def listed(self, caller: Caller) -> Sent:
        jobs = self._door.queue.of(caller.provider, caller.owner)
        shown, has_more = _page(jobs, caller)
        return said_so(
            {
                "data": [await self._told(job, caller) for job in shown],
                "has_more": has_more,
                "first_id": shown[0].id if shown else None,
                "last_id": shown[-1].id if shown else None,
            }
        )

    async def results(self, caller: Caller) -> Sent | Download:
        job = self._find(caller)
        stands = await self._door.queue.settle(job)
        if stands.phase != "ended":
            raise conflict("The batch has no results before it has ended.")
        if job.output_file is None or not job.output_file.is_there(caller.now):
            raise missing("The results of this batch are not available any more.")
        return Download(stored=job.output_file, headers={"content-type": "application/x-jsonl"})

    async def cancel(self, caller: Caller) -> Sent:
        job = self._find(caller)
        stands = await self._door.queue.settle(job)
        if stands.phase == "ended":
            raise conflict("The batch has ended and cannot be canceled.")
        await self._door.queue.cancel(job)
        return said_so(await self._told(job, caller))

    async def delete(self, caller: Caller) -> Sent:
        job = self._find(caller)
        if (await self._door.queue.settle(job)).phase != "ended":
            raise conflict("The batch has not ended; cancel it before you delete it.")
        self._door.queue.remove(job)
        return said_so({"id": job.id, "type": "message_batch_deleted"})

    def _find(self, caller: Caller) -> Job:
        job = self.subject(caller)
        if job is None:
            raise missing(f"There is no message batch with the id {caller.at('batch')}.")
        return job

    async def _told(self, job: Job, caller: Caller) -> Json:
        stands = await self._door.queue.settle(job)
        results = job.output_file
        is_archived = results is not None and not results.is_there(caller.now)
        has_results = stands.phase == "ended" and results is not None and not is_archived
        prefix = caller.request.path.partition(_PATH)[0]
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": _word(job, stands),
            "request_counts": _counts(job, stands),
            "created_at": timestamp(job.course.created_at),
            "expires_at": timestamp(job.course.promised_at),
            "ended_at": timestamp(stands.ended_at) if stands.phase == "ended" else None,
            "cancel_initiated_at": timestamp(job.cancelled_at),
            "archived_at": timestamp(results.expires_at) if results and is_archived else None,
            "results_url": f"{caller.request.url.origin()}{prefix}{_PATH}/{job.id}/results"
            if has_results
            else None,
        }


def _word(job: Job, stands: Standing) -> str:
    if stands.phase in ("ended", "cancelling"):
        return "ended" if stands.phase == "ended" else "canceling"
    return job.odd_word(stands) or "in_progress"


def _counts(job: Job, stands: Standing) -> Json:
    """Everything is `processing` until the whole batch has ended."""
    total = len(job.lines)
    has_ended = stands.phase == "ended"
    never_ran = total - job.done
    return {
        "processing": 0 if has_ended else total,
        "succeeded": job.told_counts[0] if has_ended else 0,
        "errored": job.told_counts[1] if has_ended else 0,
        "canceled": never_ran if stands.ending == "cancelled" else 0,
        "expired": never_ran if stands.ending == "expired" else 0,
    }


def _checked(body: Path, offer: Offer) -> list[Line]:
    """The requests; what is inside of them is looked at when they run."""
    requests = decoded(_CREATE, body.read_bytes()).requests
    body.unlink()
    if not requests:
        raise refused("requests: at least one request is required", param="requests")
    if len(requests) > offer.requests:
        raise refused(f"requests: at most {offer.requests} requests are allowed", param="requests")
    seen: set[str] = set()
    for number, request in enumerate(requests):
        if not _ID.fullmatch(request.custom_id):
            raise refused(
                f"requests.{number}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )
        if request.custom_id in seen:
            raise refused(f"requests.{number}.custom_id: `{request.custom_id}` is used twice")
        seen.add(request.custom_id)
    return requests


def _spooled(requests: Sequence[Line], files: Files) -> Lines:
    """The requests as a file of lines. A line break can only stand between the parts of JSON, never inside of them."""
    path = files.place()
    with path.open("wb") as file:
        for request in requests:
            file.write(msgspec.json.encode(request).replace(b"\n", b" ") + b"\n")
    return Lines(path)


def _model(lines: Lines) -> str:
    """The model of the first request; each may have its own."""
    for raw in lines:
        body = _FORM.ask(raw)[1]
        try:
            return _MODEL.decode(body).model
        except msgspec.DecodeError:
            return ""
    return ""


def _too_many(model: str) -> Refusal:
    return Refusal(
        Trouble(kind="throttled", model=model, limit="tokens", message="Too many tokens are waiting.")
    )


def _page(jobs: list[Job], caller: Caller) -> tuple[list[Job], bool]:
    """The part of the list, newest first, that lies after one batch or before another, and whether there is more."""
    text = caller.asked("limit", "20")
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise refused("limit: Input should be between 1 and 1000", param="limit")
    limit = int(text)
    if before := caller.asked("before_id"):
        found = jobs[: _place(jobs, before, "before_id")]
        return found[-limit:], len(found) > limit
    if after := caller.asked("after_id"):
        jobs = jobs[_place(jobs, after, "after_id") + 1 :]
    return jobs[:limit], len(jobs) > limit


def _place(jobs: list[Job], id_: str, param: str) -> int:
    found = next((place for place, job in enumerate(jobs) if job.id == id_), None)
    if found is None:
        raise refused(f"{param}: there is no message batch with the id {id_}", param=param)
    return found


class _Create(msgspec.Struct):
    requests: list[Line]


class _Model(msgspec.Struct):
    model: str


_CREATE = msgspec.json.Decoder(_Create)
_MODEL = msgspec.json.Decoder(_Model)
