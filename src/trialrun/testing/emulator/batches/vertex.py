"""Batch prediction jobs of Vertex AI: their requests and their results are objects in buckets."""

import re
from datetime import UTC, datetime

import msgspec

from trialrun.testing.emulator.asked import Refusal, Sent, Trouble, refused
from trialrun.testing.emulator.batches.course import Phase, Standing
from trialrun.testing.emulator.batches.door import Caller, Door, conflict, missing, said_so
from trialrun.testing.emulator.batches.gemini_lines import state_of
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Lines, Problem
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.pages import paged
from trialrun.testing.emulator.batches.storage import Buckets, parts_of
from trialrun.testing.emulator.batches.vertex_lines import VertexLines, check
from trialrun.testing.emulator.dialect import Json, decoded

_FORM = VertexLines()
_PREFIX = "JOB_STATE_"
_WORDS: dict[Phase, str] = {"validating": "QUEUED", "cancelling": "CANCELLING"}
"""Beside those that both kinds of Google's batches have."""
_MODEL = re.compile(r"(?:.*/)?publishers/(?P<publisher>[^/]+)/models/(?P<model>[^/]+)")
_FILTER = re.compile(r'(?P<field>display_?[nN]ame|state)\s*[=:]\s*"(?P<value>[^"]*)"')


class VertexBatches:
    """`projects/P/locations/L/batchPredictionJobs` and what is below it."""

    def __init__(self, door: Door, buckets: Buckets) -> None:
        self._door = door
        self._buckets = buckets

    def subject(self, caller: Caller) -> Job | None:
        found = self._door.queue.find(caller.provider, caller.owner, caller.at("batch"))
        return found if found is not None and _given(found).place == _place(caller) else None

    async def create(self, caller: Caller) -> Sent:
        given = decoded(_CREATE, await caller.request.read())
        given.place = _place(caller)
        if not given.displayName:
            raise refused("display_name is required")
        named = _MODEL.fullmatch(given.model)
        if named is None:
            raise refused(f"The model is not supported: {given.model}")
        if given.inputConfig.instancesFormat != "jsonl" or given.outputConfig.predictionsFormat != "jsonl":
            raise refused("Only the format jsonl is supported here.")
        prefix = given.prefix
        if not parts_of(prefix)[0]:
            raise refused("output_config.gcs_destination.output_uri_prefix must begin with gs://")
        return said_so(await self._told(self._begun(given, named["model"], named["publisher"], caller)))

    async def look(self, caller: Caller) -> Sent:
        return said_so(await self._told(self._find(caller)))

    async def listed(self, caller: Caller) -> Sent:
        wanted = _wanted(caller.asked("filter"))
        told = [
            await self._told(job)
            for job in self._door.queue.of(caller.provider, caller.owner)
            if _given(job).place == _place(caller)
        ]
        fitting = [each for each in told if all(each[name] == value for name, value in wanted)]
        shown, more = paged(fitting, caller, usual=100)
        listed: Json = {"batchPredictionJobs": shown}
        return said_so({**listed, "nextPageToken": more} if more else listed)

    async def cancel(self, caller: Caller) -> Sent:
        job = self._find(caller)
        stands = await self._door.queue.settle(job)
        if stands.phase == "ended":
            raise conflict("The BatchPredictionJob is in a final state and cannot be cancelled.")
        await self._door.queue.cancel(job)
        return said_so({})

    async def delete(self, caller: Caller) -> Sent:
        job = self._find(caller)
        if (await self._door.queue.settle(job)).phase != "ended":
            raise conflict("The BatchPredictionJob has not ended; cancel it first.")
        self._door.queue.remove(job)
        return said_so({"name": f"{_place(caller)}/operations/{job.number}", "done": True, "response": {}})

    def _find(self, caller: Caller) -> Job:
        job = self.subject(caller)
        if job is None:
            raise missing(f"The BatchPredictionJob does not exist: {caller.at('batch')}.")
        return job

    def _begun(self, given: "_Create", model: str, publisher: str, caller: Caller) -> Job:
        """What is wrong with the input is found out later: a creation only looks at its own words."""
        queue = self._door.queue
        if not self._door.knows(model):
            raise Refusal(Trouble(kind="unknown_model", model=model))
        lines, problem = self._input(given.inputConfig.gcsSource.uris, caller)
        offer = queue.offer(caller.provider)
        if not problem and (len(lines) > offer.requests or lines.size_bytes > offer.size_bytes):
            problem = f"The input is too large: {len(lines)} rows, {lines.size_bytes} bytes."
        tokens = 0
        if not problem:
            room = queue.room(lines, _FORM, provider=caller.provider, key=caller.key, model=model)
            if room is None:
                raise Refusal(Trouble(kind="throttled", model=model, limit="tokens"))
            tokens = room
        job = queue.create(
            provider=caller.provider,
            owner=caller.owner,
            key=caller.key,
            path=f"/v1/{given.place}/publishers/{publisher}/models/{model}:generateContent",
            model=model,
            form=_FORM,
            lines=lines,
            prefix="",
            given=given,
            input_id=next(iter(given.inputConfig.gcsSource.uris), ""),
            problems=(Problem(code="INVALID_ARGUMENT", message=problem),) if problem else (),
            tokens=tokens,
            keep=self._keep,
            has_number=True,
        )
        if job.fault == "enqueued":
            queue.remove(job)
            raise Refusal(Trouble(kind="throttled", model=model, limit="tokens"))
        return job

    def _input(self, uris: list[str], caller: Caller) -> tuple[Lines, str]:
        """All rows of all objects, and why they cannot be used."""
        path = self._door.files.place()
        problem = "" if uris else "The job has no input."
        with path.open("wb") as file:
            for uri in uris:
                stored = self._buckets.find(uri, caller.owner, caller.now)
                if stored is None:
                    problem = (
                        f"Cannot read the input: {uri} does not exist, or the service agent may not read it."
                    )
                    continue
                file.write(stored.path.read_bytes())
        lines = Lines(path)
        return lines, problem or check(lines, is_strict=self._door.queue.script.strict)

    def _keep(self, job: Job, stands: Standing, expires_at: float | None) -> None:
        """Write the results as objects under the prefix, divided into shards."""
        rows = job.output.read_bytes().splitlines(keepends=True)
        if not rows:
            return
        shards = min(self._door.queue.script.batches.shards, len(rows))
        size = -(-len(rows) // shards)
        for number in range(shards):
            name = "predictions.jsonl" if shards == 1 else f"predictions_{number + 1:05d}.jsonl"
            path = self._door.files.place()
            path.write_bytes(b"".join(rows[number * size : (number + 1) * size]))
            self._buckets.put(
                f"{_directory(job)}/{name}",
                path,
                owner=job.owner,
                at=stands.ended_at,
                expires_at=expires_at,
                batch=job.number,
                model=job.model,
            )
        _given(job).has_output = True

    async def _told(self, job: Job) -> Json:
        stands = await self._door.queue.settle(job)
        given, has_ended = _given(job), stands.phase == "ended"
        told: Json = {
            "name": f"{given.place}/batchPredictionJobs/{job.id}",
            "displayName": given.displayName,
            "model": given.model,
            "inputConfig": given.inputConfig,
            "outputConfig": given.outputConfig,
            "state": state_of(job, stands, _PREFIX, _WORDS),
            "createTime": timestamp(job.course.created_at),
            "updateTime": timestamp(min(stands.ended_at, self._door.now())),
            "modelVersionId": "1",
        }
        if job.course.started_at <= min(stands.ended_at, self._door.now()):
            told["startTime"] = timestamp(job.course.started_at)
        if stands.phase not in ("validating", "queued") and stands.ending != "rejected":
            told["completionStats"] = _stats(job)
        if has_ended:
            told["endTime"] = timestamp(stands.ended_at)
            if given.has_output:
                told["outputInfo"] = {"gcsOutputDirectory": _directory(job)}
            if stands.ending in ("failed", "rejected"):
                told["error"] = {"code": 3 if stands.ending == "rejected" else 7, "message": _why(job)}
        return told


def _given(job: Job) -> "_Create":
    assert isinstance(job.given, _Create)
    return job.given


def _place(caller: Caller) -> str:
    return f"projects/{caller.at('project')}/locations/{caller.at('location')}"


def _directory(job: Job) -> str:
    """Named by the moment of creation alone: two jobs of one moment with one prefix write to one place."""
    moment = datetime.fromtimestamp(job.course.created_at, tz=UTC).isoformat(timespec="microseconds")
    return f"{_given(job).prefix.rstrip('/')}/prediction-model-{moment.replace('+00:00', 'Z')}"


def _stats(job: Job) -> Json:
    """Numbers are strings; -1 stands for one that nobody knows."""
    if job.fault == "no_counts":
        return {"successfulCount": "-1", "failedCount": "-1", "incompleteCount": "-1"}
    return {
        "successfulCount": str(job.told_counts[0]),
        "failedCount": str(job.told_counts[1]),
        "incompleteCount": str(len(job.lines) - job.done),
    }


def _why(job: Job) -> str:
    if job.problems:
        return job.problems[0].message
    if job.fault == "forbidden_output":
        return job.message or (
            "The service agent does not have storage.objects.create access to the output bucket."
        )
    if job.fault == "invalid" and job.rule and job.rule.errors:
        rows = ", ".join(f"row {number}" for number in range(1, job.rule.errors + 1))
        return job.message or f"Failed to import data: {rows} not valid."
    return job.message or "The job failed."


def _wanted(filter_: str) -> list[tuple[str, str]]:
    """The parts of a filter: fields that have to have a value."""
    wanted: list[tuple[str, str]] = []
    for part in re.split(r"\s+AND\s+", filter_) if filter_ else []:
        found = _FILTER.fullmatch(part.strip())
        if found is None:
            raise refused(f"Invalid filter: {part}")
        wanted.append(("state" if found["field"] == "state" else "displayName", found["value"]))
    return wanted


# The wire's own names.
class _Source(msgspec.Struct):
    uris: list[str] = msgspec.field(default_factory=list[str])


class _Input(msgspec.Struct):
    instancesFormat: str = ""  # noqa: N815
    gcsSource: _Source = msgspec.field(default_factory=_Source)  # noqa: N815


class _Destination(msgspec.Struct):
    outputUriPrefix: str = ""  # noqa: N815


class _Output(msgspec.Struct):
    predictionsFormat: str = ""  # noqa: N815
    gcsDestination: _Destination = msgspec.field(default_factory=_Destination)  # noqa: N815


class _Create(msgspec.Struct):
    displayName: str = ""  # noqa: N815
    model: str = ""
    inputConfig: _Input = msgspec.field(default_factory=_Input)  # noqa: N815
    outputConfig: _Output = msgspec.field(default_factory=_Output)  # noqa: N815
    place: str = ""
    has_output: bool = False

    @property
    def prefix(self) -> str:
        return self.outputConfig.gcsDestination.outputUriPrefix


_CREATE = msgspec.json.Decoder(_Create)
