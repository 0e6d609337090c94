"""Batch jobs of Vertex AI: what goes into the bucket, what may go there, and what every line of the results becomes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.oracles.table import CLOSED, LOOK, NESTED, REFERRING
from tests.providers.batch_far_end import KEY, BatchFarEnd, Seen, call, pack_of, results_of
from trialrun.core.batches import Phase
from trialrun.core.calls import Call, Message, Tool, ToolCall
from trialrun.core.errors import (
    AuthRefused,
    CallError,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
    UsageError,
)
from trialrun.providers.batches.vertex import VertexBatches
from trialrun.providers.vertex import StaticToken, Vertex

MODEL = "vertex/gemini-2.5-flash"
JOBS = "/v1/projects/p-1/locations/global/batchPredictionJobs"
NAME = "projects/p-1/locations/global/batchPredictionJobs/7"
OUT = "gs://bucket/studies/pack0123456789/results/prediction-model-2026-11-19"
JOB: dict[str, Any] = {
    "name": NAME,
    "displayName": "pack0123456789",
    "model": "publishers/google/models/gemini-2.5-flash",
    "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["gs://bucket/in"]}},
    "state": "JOB_STATE_PENDING",
    "createTime": "2026-11-19T02:00:00Z",
}
REPLY = (
    b'{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],  '
    b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1},"responseId":"r-1"}'
)


def of(number: int) -> Call:
    return call(number, model=MODEL)


def routed(url: str = "http://127.0.0.1:1", folder: str = "gs://bucket/studies/") -> VertexBatches:
    account = Vertex("vertex", base_url=f"{url}/v1", project="p-1", tokens=StaticToken(KEY))
    return VertexBatches(account, folder=folder, storage_url=url)


@asynccontextmanager
async def at(answers: dict[str, Any]) -> AsyncGenerator[tuple[VertexBatches, BatchFarEnd], None]:
    async with BatchFarEnd(answers).running() as far_end:
        route = routed(far_end.url)
        try:
            yield route, far_end
        finally:
            await route.provider.close()


def ended(state: str = "JOB_STATE_SUCCEEDED", done: str = "2", **changes: Any) -> dict[str, Any]:
    stats = {"successfulCount": done, "failedCount": "1", "incompleteCount": "0"}
    return {
        **JOB,
        "state": state,
        "outputInfo": {"gcsOutputDirectory": OUT},
        "completionStats": stats,
        **changes,
    }


SHARDS = [f"studies/pack0123456789/results/prediction-model-2026-11-19/{name}" for name in (
    "predictions_00002.jsonl", "predictions_00001.jsonl", "manifest.txt",
)]  # fmt: skip


def shelf(names: list[str]) -> dict[str, Any]:
    return {"GET /storage/v1/b/bucket/o": {"items": [{"name": name} for name in names]}}


async def test_a_pack_has_a_folder_of_its_own_and_its_bodies_are_those_of_the_live_lane(tmp_path: Path):
    answers = {"POST /upload/storage/v1/b/bucket/o": {"name": "x"}, f"POST {JOBS}": JOB}
    async with at(answers) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        handle = await route.upload(pack)
        assert handle == "gs://bucket/studies/pack0123456789/requests.jsonl"
        assert await route.create(pack, handle) == NAME
    upload, create = far_end.seen
    assert "name=studies/pack0123456789/requests.jsonl" in upload.path.replace("%2F", "/")
    assert "uploadType=media" in upload.path
    assert upload.body == pack.path.read_bytes()
    assert all(route.provider.prepare(of(n)) in upload.body for n in range(3))
    assert msgspec.json.decode(upload.body.splitlines()[1])["custom_id"] == "warm-abc-r1-c1-sabcde"
    assert create.json == {
        "displayName": "pack0123456789",
        "model": "publishers/google/models/gemini-2.5-flash",
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [handle]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": "gs://bucket/studies/pack0123456789/results"},
        },
    }
    assert {seen.headers["authorization"] for seen in far_end.seen} == {f"Bearer {KEY}"}


def test_a_place_that_is_none_is_a_mistake():
    for folder in ("bucket/prefix", "s3://bucket", "gs://"):
        with pytest.raises(UsageError, match="no place in Cloud Storage"):
            routed(folder=folder)


async def test_a_batch_is_found_by_its_display_name(tmp_path: Path):
    jobs = [{**JOB, "name": f"{NAME}{n}", "createTime": f"2026-11-19T02:00:0{n}Z"} for n in range(4)]
    jobs[1]["displayName"] = "pack0123456789x"

    def page(seen: Seen) -> Any:
        if "pageToken=next" in seen.path:
            return {"batchPredictionJobs": jobs[2:]}
        return {"batchPredictionJobs": jobs[:2], "nextPageToken": "next"}

    async with at({f"GET {JOBS}": page}) as (route, far_end):
        assert route.anchor == "name"
        assert await route.find(pack_of(route, tmp_path, make=of), "") == [f"{NAME}{n}" for n in (3, 2, 0)]
        assert "filter=displayName%3D%22pack0123456789%22" in far_end.seen[0].path
        listed = await route.listed(most=3)
    assert [one.name for one in listed] == ["pack0123456789", "pack0123456789x", "pack0123456789"]
    assert listed[0].input == "gs://bucket/in"


@pytest.mark.parametrize(
    ("job", "phase", "shards"),
    [
        (JOB, "queued", 0),
        ({**JOB, "state": "JOB_STATE_QUEUED"}, "queued", 0),
        ({**JOB, "state": "JOB_STATE_PAUSED"}, "running", 0),
        ({**JOB, "state": "JOB_STATE_UPDATING"}, "running", 0),
        ({**JOB, "state": "JOB_STATE_CANCELLING"}, "cancelling", 0),
        (ended(), "ended", 2),
        (ended("JOB_STATE_PARTIALLY_SUCCEEDED"), "ended", 2),
        (ended("JOB_STATE_CANCELLED"), "ended", 2),
        (ended("JOB_STATE_EXPIRED"), "ended", 2),
        (ended("JOB_STATE_FAILED"), "ended", 2),
        (ended("JOB_STATE_FAILED", done="0"), "failed", 0),
        ({**JOB, "state": "JOB_STATE_FAILED", "completionStats": None}, "failed", 0),
        (ended("JOB_STATE_CANCELLED", done="0", outputInfo=None), "ended", 0),
        (ended("JOB_STATE_EXPIRED", done="-1", outputInfo=None), "ended", 0),
        ({**JOB, "state": "JOB_STATE_MOONING"}, "unknown", 0),
    ],
)
async def test_every_state_has_its_phase(job: dict[str, Any], phase: Phase, shards: int):
    async with at({f"GET /v1/{NAME}": job, **shelf(SHARDS)}) as (route, _):
        look = await route.look(NAME)
    assert (look.phase, len(look.results)) == (phase, shards)
    assert look.word == job["state"]


async def test_a_look_says_what_is_known():
    async with at({f"GET /v1/{NAME}": ended(), **shelf(SHARDS)}) as (route, far_end):
        look = await route.look(NAME)
        assert (look.total, look.done, look.failed) == (3, 2, 1)
        assert look.results == (f"{OUT}/predictions_00001.jsonl", f"{OUT}/predictions_00002.jsonl")
        denied = {"code": 7, "message": "the service agent may not write to gs://bucket"}
        far_end.answers[f"GET /v1/{NAME}"] = ended("JOB_STATE_FAILED", done="-1", error=denied)
        look = await route.look(NAME)
        assert (look.phase, look.done, look.total) == ("failed", None, None)
        assert look.problems == (denied["message"],)


async def test_results_that_were_deleted_from_the_bucket_are_gone():
    async with at({f"GET /v1/{NAME}": ended(), **shelf([])}) as (route, _):
        assert (await route.look(NAME)).phase == "gone"
        with pytest.raises(RequestRefused) as caught:
            await route.look(f"{NAME}9")
        assert "account" in caught.value.fix


async def test_all_shards_are_read():
    def shard(id_: str) -> bytes:
        return b'{"custom_id":"%b","status":"","request":{"contents":[]},"response":%b}\n' % (
            id_.encode(),
            REPLY,
        )

    answers: dict[str, Any] = {f"GET /v1/{NAME}": ended(), **shelf(SHARDS)}
    for number, name in enumerate(SHARDS[:2]):
        answers[f"GET /storage/v1/b/bucket/o/{name}"] = shard(f"r{number}")
    async with at(answers) as (route, far_end):
        results = await results_of(route, NAME, await route.look(NAME))
        assert far_end.seen[-1].path.startswith("/storage/v1/b/bucket/o/studies%2Fpack")
    assert [result.id for result in results] == ["r1", "r0"]
    assert all(result.raw and result.raw.body == REPLY for result in results)
    assert results[0].raw
    assert results[0].raw.request_id == "r-1"
    assert route.provider.parse(results[0].raw, of(0).request).text == "Hi"


def failed(status: str) -> bytes:
    return msgspec.json.encode({"custom_id": "a", "status": status, "request": {}, "response": {}})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            'Bad Request: {"error": {"code": 400, "message": "it says why", "status": "INVALID_ARGUMENT"}}',
            RequestRefused,
        ),
        ('{"error": {"code": 429, "message": "it says why", "status": "RESOURCE_EXHAUSTED"}}', Throttled),
        ('Error: {"error": {"code": 13, "message": "it says why"}}', Unavailable),
        ('{"error": {"code": 403, "message": "it says why"}}', AuthRefused),
        ("RESOURCE_EXHAUSTED: it says why", Throttled),
        ("Bad Request: it says why", RequestRefused),
        ("it says why, and {is} cut", Unavailable),
    ],
)
def test_a_failed_line_has_its_class_and_costs_nothing(status: str, expected: type[TrialrunError]):
    result = routed().read(failed(status))
    assert result.id == "a"
    assert type(result.error) is expected
    assert "it says why" in str(result.error)
    if isinstance(result.error, CallError):
        assert result.error.billed == "no"


@pytest.mark.parametrize(
    "status", ['{"error": {"code": 1, "message": "stopped"}}', "CANCELLED: stopped", "EXPIRED: stopped"]
)
def test_a_line_that_was_not_reached_never_ran(status: str):
    result = routed().read(failed(status))
    assert (result.id, result.raw, result.error) == ("a", None, None)
    assert "stopped" in result.reason


def test_garbage_has_no_id_and_a_numeric_id_is_not_ours():
    for garbage in (b"", b"{", b"[]", b"{}", b'{"custom_id":"a"}', b'{"custom_id":0,"response":{}}', b"\xff"):
        assert routed().read(garbage).id == ""


@pytest.mark.parametrize("schema", [None, CLOSED, NESTED])
def test_ordinary_requests_can_be_imported(schema: dict[str, object] | None):
    route = routed()
    assert route.endpoint_of(call(model=MODEL, schema=schema)).startswith("generateContent")
    assert route.endpoint_of(call(model=MODEL, tools=(LOOK,)))


def deep(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"schema": REFERRING}, "`$defs`"),
        ({"schema": {"$schema": "x", "type": "object"}}, "`$schema`"),
        ({"schema": {"type": "object", "properties": {"two words": {"type": "string"}}}}, "`two words`"),
        ({"schema": {"type": "object", "properties": {}}}, "empty object at `properties`"),
        ({"schema": {"enum": ["yes", 1]}}, "both text and a number"),
        ({"schema": {"anyOf": [{"type": "string"}, {"type": ["string", "null"]}]}}, "both text and a list"),
        ({"schema": deep(7)}, "nested more than 15 deep"),
        ({"tools": (Tool(name="t", parameters={"x-y": {}}),)}, "tool `t`"),
        ({"params": {"labels": {"my label": "x"}}}, "`my label`"),
    ],
)
def test_what_the_importer_would_fail_the_whole_job_for_is_refused(settings: dict[str, Any], what: str):
    with pytest.raises(RequestRefused) as caught:
        routed().endpoint_of(call(model=MODEL, **settings))
    assert what in str(caught.value)
    assert "lane live" in caught.value.fix
    assert caught.value.where.startswith("warm-abc-r0")


def test_arguments_of_tools_are_looked_at_too():
    messages = (Message("user", "Hi"), Message("assistant", "", (ToolCall(id="1", name="look"),)))
    this = call(model=MODEL, tools=(LOOK,))
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, messages=messages))
    with pytest.raises(RequestRefused, match="empty object"):
        routed().endpoint_of(this)


def test_requests_with_other_schemas_travel_apart():
    route = routed()
    shapes = [call(model=MODEL, schema=schema) for schema in (None, CLOSED, NESTED)]
    assert len({route.endpoint_of(this) for this in shapes}) == 3
    assert route.endpoint_of(of(1)) == route.endpoint_of(of(2))
