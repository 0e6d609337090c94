"""xAI's batches: of an uploaded file, with a name; counters in place of a state, pages of results, money in ticks."""

from collections.abc import Callable
from decimal import Decimal
from typing import cast

import msgspec

from trialrun.testing.emulator.asked import Sent, refused
from trialrun.testing.emulator.batches.course import Ending, Standing
from trialrun.testing.emulator.batches.door import Caller, Door, missing, said_so
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Lines
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.openai import too_many_tokens
from trialrun.testing.emulator.batches.openai_lines import OpenAILines, problems_in
from trialrun.testing.emulator.batches.pages import paged
from trialrun.testing.emulator.dialect import Json, decoded
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.visit import LineReply

TICK_USD = Decimal("1e-10")
_PATH = "/v1/chat/completions"
_REFUSED, _AWAY = 3, 14
_CODES = {401: 16, 402: 8, 403: 7, 404: 5, 429: 8}
"""Of a line that failed, by the status that it would have had live."""
_SPENT = "Your team has either used all available credits or reached its monthly spending limit."
_MORE_TICKS = 10_000_000


class XaiLines(OpenAILines):
    """Requests as OpenAI has them, and results that are no lines of a file."""

    splits = False

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        result: Json = {"response": {"chat_get_completion": reply.content}}
        if not reply.is_ok:
            is_spent = reply.rule is not None and reply.rule.fault in ("quota", "spend_limit", "billing")
            code = _CODES.get(reply.status, _REFUSED if reply.status < 500 else _AWAY)
            message = _SPENT if is_spent else _message(reply.content)
            result = {"error": {"code": _CODES[429] if is_spent else code, "message": message}}
        return msgspec.json.encode({"batch_request_id": id_, "batch_result": result}) + b"\n"

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        return None


_FORM = XaiLines(OpenAIChat())


class XaiBatches:
    """`/xai/v1/batches` and what is below it."""

    def __init__(self, door: Door, *, is_known: Callable[[str], bool]) -> None:
        self._door = door
        self._is_known = is_known

    def subject(self, caller: Caller) -> Job | None:
        return self._door.queue.find(caller.provider, caller.owner, caller.at("batch"))

    async def create(self, caller: Caller) -> Sent:
        given = decoded(_CREATE, await caller.request.read())
        if not given.input_file_id:
            raise refused("A batch without a file is not emulated.", param="input_file_id")
        stored = self._door.files.find(caller.provider, caller.owner, given.input_file_id, caller.now)
        if stored is None:
            raise refused(f"No such file: {given.input_file_id}", param="input_file_id")
        lines, queue = Lines(stored.path), self._door.queue
        problems, model = problems_in(lines, _PATH, queue.offer(caller.provider), is_known=self._is_known)
        room = (
            0 if problems else queue.room(lines, _FORM, provider=caller.provider, key=caller.key, model=model)
        )
        if room is None:
            problems = (too_many_tokens(model, queue.script.batches.enqueued_tokens),)
        job = queue.create(
            provider=caller.provider,
            owner=caller.owner,
            key=caller.key,
            path=_PATH,
            model=model,
            form=_FORM,
            lines=lines,
            prefix="batch_",
            given=given.name,
            input_id=stored.id,
            problems=problems,
            tokens=room or 0,
        )
        return said_so(await self._told(job))

    async def look(self, caller: Caller) -> Sent:
        return said_so(await self._told(self._find(caller)))

    async def listed(self, caller: Caller) -> Sent:
        jobs = self._door.queue.of(caller.provider, caller.owner)
        shown, token = paged(jobs, caller, usual=20, size="limit", word="pagination_token")
        return said_so(
            {"batches": [await self._told(job) for job in shown], "pagination_token": token or None}
        )

    async def results(self, caller: Caller) -> Sent:
        job = self._find(caller)
        stands = await self._door.queue.settle(job)
        stored = job.output_file
        if stored is not None and not stored.is_there(caller.now):
            raise missing("The results of this batch have expired.")
        path = stored.path if stored else job.output
        lines = path.read_bytes().splitlines() if stands.ending != "rejected" and path.exists() else []
        shown, token = paged(lines, caller, usual=100, size="limit", word="pagination_token")
        if stored is not None and not token:
            stored.fetched += 1
        return said_so({"results": [msgspec.Raw(line) for line in shown], "pagination_token": token or None})

    async def cancel(self, caller: Caller) -> Sent:
        job = self._find(caller)
        await self._door.queue.cancel(job)
        return said_so(await self._told(job))

    def _find(self, caller: Caller) -> Job:
        job = self.subject(caller)
        if job is None:
            raise missing(f"Batch {caller.at('batch')} not found.")
        return job

    async def _told(self, job: Job) -> Json:
        stands = await self._door.queue.settle(job)
        is_rejected = stands.ending in ("rejected", "failed")
        cancelled_at = stands.ended_at if is_rejected else job.cancelled_at
        ticks = int(job.cost_usd / TICK_USD) + (_MORE_TICKS if job.fault == "other_totals" else 0)
        return {
            "batch_id": job.id,
            "name": job.given,
            "create_time": timestamp(job.course.created_at),
            "expire_time": timestamp(job.course.promised_at),
            "cancel_time": timestamp(cancelled_at),
            "cancel_by_xai_message": _why(job) if is_rejected else None,
            "input_file_id": job.input_id,
            "state": _state(job, stands),
            "cost_breakdown": {"total_cost_usd_ticks": ticks},
        }


def _state(job: Job, stands: Standing) -> Json:
    if stands.phase == "validating" or stands.ending == "rejected":
        return dict.fromkeys(("num_requests", "num_pending", "num_success", "num_error", "num_cancelled"), 0)
    success, errors = job.told_counts
    has_ended = stands.phase == "ended"
    if not has_ended and success + errors == len(job.lines):
        # It has no state between its last request and its end: the last one counts as done with the end.
        success, errors = (success - 1, errors) if success else (success, errors - 1)
    left = len(job.lines) - success - errors
    return {
        "num_requests": len(job.lines),
        "num_pending": 0 if has_ended else left,
        "num_success": success,
        "num_error": errors,
        "num_cancelled": left if has_ended else 0,
    }


def _why(job: Job) -> str:
    if job.problems:
        first = job.problems[0]
        return f"line {first.line}: {first.message}" if first.line else first.message
    if job.fault == "invalid" and job.rule and job.rule.errors:
        return job.message or "line 1: This line is not valid."
    return job.message or "The batch failed."


def _message(content: Json) -> str:
    return str(cast("Json", content["error"])["message"])


class _Create(msgspec.Struct):
    name: str
    input_file_id: str = ""


_CREATE = msgspec.json.Decoder(_Create)
