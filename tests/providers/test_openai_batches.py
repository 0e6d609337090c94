"""OpenAI's batches: what goes up, what is read of them, and what every line of the results becomes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.providers.batch_far_end import KEY, BatchFarEnd, Seen, call, lines_of, pack_of, results_of
from trialrun.core.batches import Phase
from trialrun.core.calls import Call
from trialrun.core.errors import (
    AuthRefused,
    CallError,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.providers.batches.openai import OpenAIBatches
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses

MODEL = "openai/gpt-4.1-mini"
JOB: dict[str, Any] = {
    "id": "batch_1",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "errors": None,
    "input_file_id": "file-1",
    "completion_window": "24h",
    "status": "validating",
    "output_file_id": None,
    "error_file_id": None,
    "created_at": 1_790_000_000,
    "expires_at": 1_790_086_400,
    "request_counts": {"total": 0, "completed": 0, "failed": 0},
    "metadata": {"trialrun_pack": "pack0123456789"},
}


def of(number: int) -> Call:
    return call(number, model=MODEL)


def routed(url: str = "http://127.0.0.1:1") -> OpenAIBatches:
    return OpenAIBatches(
        OpenAIChat(
            "openai", base_url=f"{url}/v1", key=[KEY, "sk-second"], key_name="OPENAI_API_KEY", dialect=OPENAI
        )
    )


@asynccontextmanager
async def at(answers: dict[str, Any]) -> AsyncGenerator[tuple[OpenAIBatches, BatchFarEnd], None]:
    async with BatchFarEnd(answers).running() as far_end:
        route = routed(far_end.url)
        try:
            yield route, far_end
        finally:
            await route.provider.close()


def test_a_line_holds_the_live_body_byte_for_byte():
    route, this = routed(), of(7)
    body = route.provider.prepare(this)
    line = route.line("warm-abc-r7-c1-sabcde", body, this)
    assert line == (
        b'{"custom_id":"warm-abc-r7-c1-sabcde","method":"POST","url":"/v1/chat/completions","body":'
        + body
        + b"}\n"
    )
    responses = OpenAIBatches(
        OpenAIResponses("openai-responses", base_url="http://h/v1"), path="/v1/responses"
    )
    assert b'"url":"/v1/responses"' in responses.line("a", responses.provider.prepare(this), this)
    assert responses.endpoint_of(this) == "/v1/responses"


def test_what_no_batch_takes_is_refused_before_it_is_packed():
    with pytest.raises(RequestRefused, match="`service_tier`") as caught:
        routed().endpoint_of(call(model=MODEL, params={"service_tier": "flex"}))
    assert "lane live" in caught.value.fix


async def test_a_pack_goes_up_as_a_file_and_becomes_a_batch_under_the_first_key(tmp_path: Path):
    answers = {"POST /v1/files": {"id": "file-1"}, "POST /v1/batches": JOB}
    async with at(answers) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.upload(pack) == "file-1"
        assert await route.create(pack, "file-1") == "batch_1"
    upload, create = far_end.seen
    assert pack.path.read_bytes() in upload.body
    assert b'name="purpose"\r\n\r\nbatch\r\n' in upload.body
    assert int(upload.headers["content-length"]) == len(upload.body)
    assert create.json == {
        "input_file_id": "file-1",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"trialrun_pack": "pack0123456789"},
    }
    assert {seen.headers["authorization"] for seen in far_end.seen} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("status", "error", "billed"),
    [
        (500, Unavailable, "unknown"),
        (502, Unavailable, "unknown"),
        (503, Unavailable, "no"),
        (400, RequestRefused, "no"),
    ],
)
async def test_a_failed_create_says_whether_there_may_be_a_batch(
    tmp_path: Path, status: int, error: type[CallError], billed: str
):
    async with at({"POST /v1/batches": status}) as (route, _):
        with pytest.raises(error) as caught:
            await route.create(pack_of(route, tmp_path, make=of), "file-1")
        assert caught.value.billed == billed


async def test_a_create_whose_reply_is_unreadable_is_in_doubt(tmp_path: Path):
    for answer in (b"<html>", {"object": "batch"}, b"[]"):
        async with at({"POST /v1/batches": answer}) as (route, _):
            with pytest.raises(CallError) as caught:
                await route.create(pack_of(route, tmp_path, make=of), "file-1")
            assert caught.value.billed == "unknown"


async def test_a_batch_is_found_again_by_its_input_or_its_name_over_all_pages(tmp_path: Path):
    jobs = [
        {**JOB, "id": f"batch_{n}", "input_file_id": f"file-{n}", "metadata": {"n": 3}} for n in range(250)
    ]
    jobs[230]["metadata"] = {"trialrun_pack": "pack0123456789"}

    def page(seen: Seen) -> Any:
        after = seen.path.partition("after=batch_")[2]
        start = int(after) + 1 if after else 0
        return {"data": jobs[start : start + 100], "has_more": start + 100 < len(jobs)}

    async with at({"GET /v1/batches": page}) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.find(pack, "file-120") == ["batch_120", "batch_230"]
        assert len(far_end.seen) == 3
        listed = await route.listed(most=130)
    assert [one.batch for one in listed] == [f"batch_{n}" for n in range(130)]
    assert listed[3].input == "file-3"
    assert listed[3].created_at == 1_790_000_000


@pytest.mark.parametrize(
    ("changes", "phase", "results"),
    [
        ({}, "queued", ()),
        ({"status": "in_progress"}, "running", ()),
        ({"status": "finalizing"}, "finishing", ()),
        ({"status": "cancelling"}, "cancelling", ()),
        ({"status": "completed", "output_file_id": "o", "error_file_id": "e"}, "ended", ("o", "e")),
        ({"status": "completed", "error_file_id": "e"}, "ended", ("e",)),
        ({"status": "expired", "output_file_id": "o", "error_file_id": "e"}, "ended", ("o", "e")),
        ({"status": "expired"}, "failed", ()),
        ({"status": "expired", "request_counts": None}, "ended", ()),
        ({"status": "cancelled", "error_file_id": "e"}, "ended", ("e",)),
        ({"status": "failed"}, "failed", ()),
        ({"status": "failed", "output_file_id": "o"}, "ended", ("o",)),
        ({"status": "COMPLETED", "output_file_id": "o"}, "ended", ("o",)),
        ({"status": "resting"}, "unknown", ()),
    ],
)
async def test_every_state_has_its_phase(changes: dict[str, Any], phase: Phase, results: tuple[str, ...]):
    async with at({"GET /v1/batches/batch_1": {**JOB, **changes}}) as (route, _):
        look = await route.look("batch_1")
    assert (look.phase, look.results) == (phase, results)
    assert look.word == changes.get("status", "validating")
    assert look.created_at == 1_790_000_000
    assert look.expires_at == 1_790_086_400


async def test_a_refused_file_says_which_lines_are_wrong():
    problems = [
        {"code": "invalid_json_line", "line": 3, "message": "not JSON", "param": None},
        {"code": "token_limit_exceeded", "message": "too many enqueued tokens"},
    ]
    job = {**JOB, "status": "failed", "errors": {"object": "list", "data": problems}, "request_counts": None}
    async with at({"GET /v1/batches/batch_1": job}) as (route, _):
        look = await route.look("batch_1")
    assert look.problems == ("line 3: not JSON", "too many enqueued tokens")
    assert look.total is None


async def test_a_batch_that_the_account_does_not_know_asks_about_the_key():
    async with at({"GET /v1/batches/batch_1": 401}) as (route, _):
        with pytest.raises(AuthRefused) as refused:
            await route.look("batch_1")
        assert "OPENAI_API_KEY" in refused.value.fix
        with pytest.raises(RequestRefused) as caught:
            await route.look("batch_9")
        assert caught.value.status == 404
        assert caught.value.where == "batch_9"
        assert "account" in caught.value.fix


async def test_polling_too_often_is_throttled():
    answer = web.json_response({"error": {"message": "slow"}}, status=429, headers={"retry-after": "7"})
    async with at({"GET /v1/batches/batch_1": answer}) as (route, _):
        with pytest.raises(Throttled) as caught:
            await route.look("batch_1")
    assert caught.value.retry_after_s == 7


REPLY = (
    b'{"id":"chatcmpl-1","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],'
    b'  "usage":{"prompt_tokens":3,"completion_tokens":1}}'
)
OK = (
    b'{"id":"batch_req_1","custom_id":"a-c1","response":{"status_code":200,"request_id":"req_1","body":'
    + REPLY
    + b'},"error":null}'
)


def test_a_line_of_the_output_is_the_reply_of_the_live_lane_byte_for_byte():
    route = routed()
    result = route.read(OK)
    assert result.id == "a-c1"
    assert result.raw is not None
    assert result.raw.body == REPLY
    assert result.raw.request_id == "req_1"
    assert route.provider.parse(result.raw, of(0).request).text == "Hi"
    usage = route.provider.meter(result.raw)
    assert usage is not None
    assert usage.tokens_in == 3
    quoted = OK.replace(REPLY, msgspec.json.encode(REPLY.decode()))
    assert route.read(quoted).raw == result.raw


def line(status: int, error: dict[str, Any]) -> bytes:
    response = {"status_code": status, "request_id": "r", "body": {"error": error}}
    return msgspec.json.encode({"custom_id": "a-c1", "response": response, "error": None})


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"message": "bad", "type": "invalid_request_error"}, RequestRefused),
        (429, {"message": "slow", "code": "rate_limit_exceeded"}, Throttled),
        (429, {"message": "no money", "code": "insufficient_quota"}, QuotaExhausted),
        (500, {"message": "oops"}, Unavailable),
        (503, {"message": "busy"}, Unavailable),
        (401, {"message": "who?"}, AuthRefused),
    ],
)
def test_an_error_in_a_line_is_what_it_would_be_live(
    status: int, error: dict[str, Any], expected: type[TrialrunError]
):
    result = routed().read(line(status, error))
    assert result.id == "a-c1"
    assert result.raw is None
    assert type(result.error) is expected
    assert error["message"] in str(result.error)


def test_a_prompt_that_was_declined_is_a_reply():
    result = routed().read(line(400, {"message": "no", "code": "content_policy_violation"}))
    assert result.error is None
    assert result.raw is not None
    assert routed().provider.parse(result.raw, of(0).request).finish == "refusal"


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_a_line_that_never_ran_is_neither_reply_nor_error(code: str):
    error = {"code": code, "message": "It was not reached in time."}
    result = routed().read(msgspec.json.encode({"custom_id": "a", "response": None, "error": error}))
    assert (result.id, result.raw, result.error) == ("a", None, None)
    assert result.reason == "It was not reached in time."


def test_a_line_without_a_response_is_judged_by_its_word():
    def read(code: str) -> object:
        error = {"code": code, "message": "m"}
        return routed().read(msgspec.json.encode({"custom_id": "a", "error": error})).error

    assert isinstance(read("invalid_request"), RequestRefused)
    assert isinstance(read("server_error"), Unavailable)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b"{}",
        b'{"custom_id":3}',
        OK[:80],
        b'{"custom_id":"a","response":7}',
        b"{" * 9000,
    ],
)
def test_a_line_that_makes_no_sense_has_no_id(garbage: bytes):
    result = routed().read(garbage)
    assert result.id == ""
    assert result.raw is None


async def test_results_come_whole_without_keys_and_break_off_audibly():
    content = b"".join(b'{"custom_id":"r%d","note":"%b"}\n' % (n, KEY.encode()) for n in range(5000))
    job = {**JOB, "status": "completed", "output_file_id": "o"}

    answers: dict[str, Any] = {"GET /v1/batches/batch_1": job, "GET /v1/files/o/content": content}
    async with at(answers) as (route, far_end):
        look = await route.look("batch_1")
        lines = await lines_of(route, "batch_1", look)
        assert len(lines) == 5000
        assert not any(KEY.encode() in line for line in lines)
        far_end.answers["GET /v1/files/o/content"] = 502
        with pytest.raises(Unavailable):
            await results_of(route, "batch_1", look)
        del far_end.answers["GET /v1/files/o/content"]
        with pytest.raises(RequestRefused) as caught:
            await results_of(route, "batch_1", look)
        assert caught.value.status == 404
