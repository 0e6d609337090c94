"""OpenAI's batches, and those of everybody who copied their shape."""

from collections.abc import Callable
from typing import cast

import msgspec

from trialrun.testing.emulator.asked import Sent, refused
from trialrun.testing.emulator.batches.course import Phase, Standing
from trialrun.testing.emulator.batches.door import Caller, Door, conflict, missing, said_so
from trialrun.testing.emulator.batches.files import Stored
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Form, Lines, Problem
from trialrun.testing.emulator.batches.openai_files import page
from trialrun.testing.emulator.batches.openai_lines import FORMS, problems_in
from trialrun.testing.emulator.dialect import Json, decoded

_WINDOWS = {"groq": ("24h", "48h", "72h", "7d")}
_WORDS: dict[Phase, str] = {
    "validating": "validating",
    "queued": "in_progress",
    "running": "in_progress",
    "paused": "in_progress",
    "finishing": "finalizing",
    "cancelling": "cancelling",
}
_MORE_TOKENS = 1000
"""So many more than its lines a batch counts whose totals are to be others."""
_ENDINGS = {"rejected": "failed"}


class OpenAIBatches:
    """`/v1/batches` and what is below it."""

    def __init__(self, door: Door, *, is_known: Callable[[str], bool]) -> None:
        self._door = door
        self._is_known = is_known

    def subject(self, caller: Caller) -> Job | None:
        return self._door.queue.find(caller.provider, caller.owner, caller.at("batch"))

    async def create(self, caller: Caller) -> Sent:
        return said_so(await self.told(await self.created(caller)))

    async def created(self, caller: Caller) -> Job:
        """The batch that the request asks for."""
        given = decoded(_CREATE, await caller.request.read())
        form = _form(given.endpoint)
        self._check(given, caller)
        stored = self._door.files.find(caller.provider, caller.owner, given.input_file_id, caller.now)
        if stored is None:
            raise refused(f"No such File object: {given.input_file_id}", param="input_file_id")
        if stored.purpose != "batch":
            raise refused("The file's purpose must be 'batch'.", param="input_file_id")
        lines, queue = Lines(stored.path), self._door.queue
        offer = queue.offer(caller.provider)
        problems, model = problems_in(lines, given.endpoint, offer, is_known=self._is_known)
        tokens = (
            0 if problems else queue.room(lines, form, provider=caller.provider, key=caller.key, model=model)
        )
        if tokens is None:
            problems = (too_many_tokens(model, queue.script.batches.enqueued_tokens),)
        return queue.create(
            provider=caller.provider,
            owner=caller.owner,
            key=caller.key,
            path=given.endpoint,
            model=model,
            form=form,
            lines=lines,
            prefix="batch_",
            given=given,
            input_id=stored.id,
            problems=problems,
            tokens=tokens or 0,
            kept_s=given.output_expires_after.seconds if given.output_expires_after else None,
        )

    async def look(self, caller: Caller) -> Sent:
        return said_so(await self.told(self.find(caller)))

    async def listed(self, caller: Caller) -> Sent:
        jobs = self._door.queue.of(caller.provider, caller.owner)
        shown = page([{"id": job.id} for job in jobs], caller)
        by_id = {job.id: job for job in jobs}
        shown["data"] = [
            await self.told(by_id[str(each["id"])]) for each in cast("list[Json]", shown["data"])
        ]
        return said_so(shown)

    async def cancel(self, caller: Caller) -> Sent:
        job = self.find(caller)
        stands = await self._door.queue.settle(job)
        if stands.phase == "ended":
            raise conflict(f"Cannot cancel a batch with status '{_word(job, stands)}'.")
        await self._door.queue.cancel(job)
        return said_so(await self.told(job))

    def find(self, caller: Caller) -> Job:
        job = self.subject(caller)
        if job is None:
            raise missing(f"No batch found with id '{caller.at('batch')}'.")
        return job

    async def told(self, job: Job) -> Json:
        """A batch as the provider describes it now."""
        stands = await self._door.queue.settle(job)
        given = cast("_Create", job.given)
        counts: Json | None = {
            "total": 0 if stands.phase == "validating" or stands.ending == "rejected" else len(job.lines),
            "completed": job.told_counts[0],
            "failed": job.told_counts[1],
        }
        if job.fault == "no_counts":
            counts = None
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": given.endpoint,
            "model": job.model or None,
            "errors": _errors(job, stands),
            "input_file_id": job.input_id,
            "completion_window": given.completion_window,
            "status": _word(job, stands),
            "output_file_id": _id(job.output_file),
            "error_file_id": _id(job.error_file),
            **_times(job, stands),
            "request_counts": counts,
            "usage": _usage(job),
            "metadata": given.metadata,
        }

    def _check(self, given: "_Create", caller: Caller) -> None:
        windows = _WINDOWS.get(caller.provider, ("24h",))
        if given.completion_window not in windows:
            raise refused(
                f"The completion window must be one of {', '.join(windows)}.", param="completion_window"
            )
        metadata = given.metadata or {}
        if len(metadata) > 16:
            raise refused("At most 16 pairs of metadata are allowed.", param="metadata")
        for name, value in metadata.items():
            if len(name) > 64 or len(value) > 512:
                raise refused("Names of metadata have 64 characters at most, values 512.", param="metadata")


def too_many_tokens(model: str, limit: int | None) -> Problem:
    """The limit of what may wait at one time is reached."""
    most = "" if limit is None else f" Limit: {limit:,} enqueued tokens."
    message = f"Enqueued token limit reached for {model}.{most} Try again once other batches have ended."
    return Problem(code="token_limit_exceeded", message=message)


def _form(endpoint: str) -> Form:
    form = FORMS.get(endpoint)
    if form is None:
        raise refused(f"The endpoint must be one of {', '.join(FORMS)}.", param="endpoint")
    return form


def _word(job: Job, stands: Standing) -> str:
    if stands.ending is not None:
        return _ENDINGS.get(stands.ending, stands.ending)
    if stands.phase == "cancelling":
        return "cancelling"
    return job.odd_word(stands) or _WORDS[stands.phase]


def _errors(job: Job, stands: Standing) -> Json | None:
    if stands.ending not in ("rejected", "failed"):
        return None
    problems = [*job.problems]
    rule = job.rule
    if rule is not None and not problems:
        match rule.fault:
            case "invalid":
                problems = [_made_up(number, rule.message) for number in range(1, rule.errors + 1)]
            case "enqueued":
                problems = [too_many_tokens(job.model, None)]
            case "failed":
                problems = [Problem(code="server_error", message=rule.message or "The batch failed.")]
            case _:
                pass
    return {"object": "list", "data": problems} if problems else None


def _made_up(line: int, message: str) -> Problem:
    return Problem(code="invalid_json_line", message=message or "This line is not valid.", line=line)


def _times(job: Job, stands: Standing) -> Json:
    """When it came to each of its states; null for those to which it did not."""
    course, ended_at = job.course, stands.ended_at
    until = min(ended_at, job.cancelled_at or ended_at)
    is_over = stands.ending is not None
    runs = stands.phase != "validating" and stands.ending != "rejected" and course.validated_at <= until
    finishes = stands.phase == "finishing" or stands.ending == "completed"
    return {
        "created_at": int(course.created_at),
        "in_progress_at": int(course.validated_at) if runs else None,
        "expires_at": int(course.promised_at),
        "finalizing_at": int(course.worked_at) if finishes else None,
        "completed_at": int(ended_at) if stands.ending == "completed" else None,
        "failed_at": int(ended_at) if stands.ending in ("rejected", "failed") else None,
        "expired_at": int(ended_at) if stands.ending == "expired" else None,
        "cancelling_at": None if job.cancelled_at is None else int(job.cancelled_at),
        "cancelled_at": int(ended_at) if is_over and stands.ending == "cancelled" else None,
    }


def _usage(job: Job) -> Json:
    used = job.usage.get
    more = _MORE_TOKENS if job.fault == "other_totals" else 0
    return {
        "input_tokens": used("tokens_in", 0) + more,
        "input_tokens_details": {"cached_tokens": used("tokens_cached", 0)},
        "output_tokens": used("tokens_out", 0),
        "output_tokens_details": {"reasoning_tokens": used("tokens_reasoning", 0)},
        "total_tokens": used("tokens_in", 0) + more + used("tokens_out", 0),
    }


def _id(stored: Stored | None) -> str | None:
    return stored.id if stored else None


class _After(msgspec.Struct):
    seconds: int
    anchor: str


class _Create(msgspec.Struct):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: _After | None = None


_CREATE = msgspec.json.Decoder(_Create)
