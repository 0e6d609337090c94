"""Batches of the Gemini Developer API: inside the request or as a file, and what every reply becomes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.providers.batch_far_end import KEY, BatchFarEnd, Seen, call, pack_of, results_of
from trialrun.core.batches import Phase
from trialrun.core.calls import Call
from trialrun.core.errors import (
    AuthRefused,
    CallError,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.providers.batches.gemini import GeminiBatches
from trialrun.providers.gemini import Gemini

MODEL = "google/gemini-2.5-flash"
JOB: dict[str, Any] = {
    "name": "batches/b1",
    "metadata": {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1.GenerateContentBatch",
        "model": "models/gemini-2.5-flash",
        "displayName": "pack0123456789",
        "state": "BATCH_STATE_PENDING",
        "createTime": "2026-11-19T02:00:00.123456789Z",
        "batchStats": {"requestCount": "3", "pendingRequestCount": "3"},
    },
}
REPLY = (
    b'{"candidates":[{"content":{"parts":[{"text":"Hi\\nyou"}]},"finishReason":"STOP"}],  '
    b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1},"responseId":"r-1"}'
)


def of(number: int) -> Call:
    return call(number, model=MODEL)


def routed(url: str = "http://127.0.0.1:1", **settings: int) -> GeminiBatches:
    account = Gemini("google", base_url=f"{url}/v1beta", key=KEY, key_name="GEMINI_API_KEY")
    return GeminiBatches(account, **settings)


def job(state: str, **changes: Any) -> dict[str, Any]:
    return {**JOB, "metadata": {**JOB["metadata"], "state": state, **changes}}


@asynccontextmanager
async def at(
    answers: dict[str, Any], **settings: int
) -> AsyncGenerator[tuple[GeminiBatches, BatchFarEnd], None]:
    async with BatchFarEnd(answers).running() as far_end:
        route = routed(far_end.url, **settings)
        try:
            yield route, far_end
        finally:
            await route.provider.close()


CREATE = "POST /v1beta/models/gemini-2.5-flash:batchGenerateContent"


async def test_a_small_pack_travels_inside_the_request_with_the_bodies_of_the_live_lane(tmp_path: Path):
    async with at({CREATE: JOB}) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.upload(pack) == ""
        assert await route.create(pack, "") == "batches/b1"
    (sent,) = far_end.seen
    batch = sent.json["batch"]
    assert batch["displayName"] == pack.id
    requests = batch["inputConfig"]["requests"]["requests"]
    assert [one["metadata"] for one in requests] == [{"key": f"warm-abc-r{n}-c1-sabcde"} for n in range(3)]
    assert all(route.provider.prepare(of(n)) in sent.body for n in range(3))
    assert sent.headers["x-goog-api-key"] == KEY


async def test_a_large_pack_goes_up_as_a_file_to_the_address_it_is_given(tmp_path: Path):
    def begin(seen: Seen) -> web.Response:
        return web.json_response({}, headers={"X-Goog-Upload-URL": f"{far_end.url}/up/1?upload_id=x"})

    def finish(seen: Seen) -> web.Response:
        return web.json_response({"file": {"name": "files/f1"}}, headers={"x-goog-upload-status": "final"})

    answers = {"POST /upload/v1beta/files": begin, "POST /up/1": finish, CREATE: JOB}
    async with at(answers, inline_bytes=100) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.upload(pack) == "files/f1"
        assert await route.create(pack, "files/f1") == "batches/b1"
    began, sent, created = far_end.seen
    assert began.headers["x-goog-upload-header-content-length"] == str(pack.size_bytes)
    assert began.headers["x-goog-upload-command"] == "start"
    assert sent.body == pack.path.read_bytes()
    assert sent.headers["x-goog-upload-command"] == "upload, finalize"
    assert "x-goog-api-key" not in sent.headers
    assert created.json["batch"]["inputConfig"] == {"fileName": "files/f1"}
    first = msgspec.json.decode(sent.body.splitlines()[0])
    assert first["key"] == "warm-abc-r0-c1-sabcde"
    assert first["request"] == msgspec.json.decode(route.provider.prepare(of(0)))


async def test_an_upload_that_was_not_taken_whole_is_unavailable(tmp_path: Path):
    def begin(seen: Seen) -> web.Response:
        return web.json_response({}, headers={"X-Goog-Upload-URL": f"{far_end.url}/up/1"})

    answers: dict[str, Any] = {"POST /upload/v1beta/files": {}}
    async with at(answers, inline_bytes=100) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        with pytest.raises(Unavailable, match="no address"):
            await route.upload(pack)
        answers["POST /upload/v1beta/files"] = begin
        answers["POST /up/1"] = {"file": {"name": "files/f1"}}
        with pytest.raises(Unavailable, match="whole"):
            await route.upload(pack)


async def test_a_batch_is_found_by_its_display_name_newest_first(tmp_path: Path):
    jobs: list[dict[str, Any]] = [
        {**job("BATCH_STATE_PENDING", displayName=f"pack{n % 3}"), "name": f"batches/b{n}"} for n in range(6)
    ]
    for number, one in enumerate(jobs):
        one["metadata"]["createTime"] = f"2026-11-19T02:00:0{number}Z"
    jobs[5]["metadata"]["displayName"] = jobs[2]["metadata"]["displayName"] = "pack0123456789"

    def page(seen: Seen) -> Any:
        if "pageToken=next" in seen.path:
            return {"operations": jobs[4:]}
        return {"operations": jobs[:4], "nextPageToken": "next"}

    async with at({"GET /v1beta/batches": page}) as (route, _):
        assert route.anchor == "name"
        assert await route.find(pack_of(route, tmp_path, make=of), "") == ["batches/b5", "batches/b2"]
        listed = await route.listed(most=5)
    assert [one.batch for one in listed] == [f"batches/b{n}" for n in range(5)]
    assert listed[0].requests == 3
    async with at({"GET /v1beta/batches": {}}) as (route, _):
        assert await route.find(pack_of(route, tmp_path, make=of), "") == []


FILE = {"output": {"responsesFile": "files/out"}}
NONE_RAN = {"requestCount": "3", "failedRequestCount": "3"}
SOME_RAN = {"requestCount": "3", "successfulRequestCount": "1"}


@pytest.mark.parametrize(
    ("described", "phase", "results"),
    [
        (JOB, "queued", ()),
        (job("JOB_STATE_PENDING"), "queued", ()),
        (job("BATCH_STATE_RUNNING"), "running", ()),
        (job("JOB_STATE_PAUSED"), "running", ()),
        (job("BATCH_STATE_CANCELLING"), "cancelling", ()),
        (job("BATCH_STATE_SUCCEEDED", **FILE), "ended", ("files/out",)),
        (job("JOB_STATE_PARTIALLY_SUCCEEDED", **FILE), "ended", ("files/out",)),
        ({**job("BATCH_STATE_SUCCEEDED"), "response": {"responsesFile": "files/o"}}, "ended", ("files/o",)),
        (job("BATCH_STATE_CANCELLED", **FILE), "ended", ("files/out",)),
        (job("BATCH_STATE_EXPIRED"), "ended", ()),
        (job("BATCH_STATE_CANCELLED", batchStats=NONE_RAN), "ended", ()),
        (job("BATCH_STATE_CANCELLED", batchStats=SOME_RAN), "ended", ()),
        (job("BATCH_STATE_EXPIRED", batchStats=None), "ended", ()),
        (job("BATCH_STATE_FAILED"), "failed", ()),
        (job("BATCH_STATE_FAILED", **FILE), "ended", ("files/out",)),
        (job("BATCH_STATE_DREAMING"), "unknown", ()),
        ({"name": "batches/b1"}, "unknown", ()),
    ],
)
async def test_every_state_has_its_phase(described: dict[str, Any], phase: Phase, results: tuple[str, ...]):
    async with at({"GET /v1beta/batches/b1": described}) as (route, _):
        look = await route.look("batches/b1")
    assert (look.phase, look.results) == (phase, results)


async def test_a_look_says_what_is_known_and_an_unknown_batch_is_refused():
    failed = {**job("BATCH_STATE_FAILED"), "error": {"code": 3, "message": "line 7 is no request"}}
    async with at({"GET /v1beta/batches/b1": failed}) as (route, far_end):
        look = await route.look("batches/b1")
        assert (look.total, look.done, look.failed) == (3, 0, 0)
        assert look.problems == ("line 7 is no request",)
        assert look.created_at == pytest.approx(1_795_053_600.123456)
        with pytest.raises(RequestRefused) as caught:
            await route.look("batches/b9")
        assert caught.value.status == 404
        assert "key" in caught.value.fix
        far_end.answers["GET /v1beta/batches/b1"] = 403
        with pytest.raises(AuthRefused):
            await route.look("batches/b1")


async def test_inline_replies_come_back_in_any_order_under_their_own_ids():
    pretty = b'{\n  "response": ' + REPLY.replace(b",  ", b",\n  ") + b',\n  "metadata": {"key": "b"}\n}'
    error = b'{"error": {"code": 8, "message": "busy"}, "metadata": {"key": "a"}}'
    inline = b'{"inlinedResponses": {"inlinedResponses": [%b, %b]}}' % (pretty, error)
    body = b'{"name":"batches/b1","metadata":{"state":"BATCH_STATE_SUCCEEDED","output":%b}}' % inline
    async with at({"GET /v1beta/batches/b1": body}) as (route, _):
        look = await route.look("batches/b1")
        assert look.results == ("inline",)
        ok, busy = await results_of(route, "batches/b1", look)
    assert (ok.id, busy.id) == ("b", "a")
    assert isinstance(busy.error, Throttled)
    assert ok.raw is not None
    assert route.provider.parse(ok.raw, of(0).request).text == "Hi\nyou"


async def test_replies_in_a_file_are_those_of_the_live_lane_byte_for_byte():
    content = b'{"key":"a","response":%b}\n' % REPLY
    answers = {
        "GET /v1beta/batches/b1": job("BATCH_STATE_SUCCEEDED", **FILE),
        "GET /v1beta/files/out:download": content,
    }
    async with at(answers) as (route, far_end):
        (result,) = await results_of(route, "batches/b1", await route.look("batches/b1"))
    assert far_end.seen[-1].path.endswith("?alt=media")
    assert result.id == "a"
    assert result.raw is not None
    assert result.raw.body == REPLY
    assert result.raw.request_id == "r-1"
    usage = route.provider.meter(result.raw)
    assert usage is not None
    assert (usage.tokens_in, usage.tokens_out) == (3, 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, RequestRefused),
        (5, RequestRefused),
        (7, AuthRefused),
        (8, Throttled),
        (13, Unavailable),
        (14, Unavailable),
        (4, Unavailable),
        (400, RequestRefused),
        (429, Throttled),
        (503, Unavailable),
        (99, Unavailable),
    ],
)
def test_an_error_in_a_line_has_its_class_and_costs_nothing(code: int, expected: type[TrialrunError]):
    result = routed().read(
        msgspec.json.encode({"key": "a", "error": {"code": code, "message": "it says why"}})
    )
    assert result.id == "a"
    assert type(result.error) is expected
    assert "it says why" in str(result.error)
    if isinstance(result.error, CallError):
        assert result.error.billed == "no"


def test_a_line_that_was_cancelled_never_ran_and_garbage_has_no_id():
    result = routed().read(b'{"key":"a","error":{"code":1,"message":"cancelled by the user"}}')
    assert (result.id, result.raw, result.error, result.reason) == ("a", None, None, "cancelled by the user")
    for garbage in (b"", b"{", b"[]", b"{}", b'{"key":"a"}', b'{"key":3,"response":{}}', b"\xff"):
        assert routed().read(garbage).id == ""


async def test_a_create_that_may_have_been_taken_is_in_doubt(tmp_path: Path):
    for status, billed in ((500, "unknown"), (503, "no"), (400, "no"), (429, "no")):
        async with at({CREATE: status}) as (route, _):
            with pytest.raises(CallError) as caught:
                await route.create(pack_of(route, tmp_path, make=of), "")
            assert caught.value.billed == billed
