"""Mistral, Together and xAI: OpenAI's batches but for their shape."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.providers.batch_far_end import KEY, BatchFarEnd, Seen, call, pack_of, results_of
from trialrun.core.batches import Phase
from trialrun.core.calls import Call
from trialrun.core.errors import RequestRefused, Throttled, Unavailable
from trialrun.providers.batches.mistral import MistralBatches, hours_of
from trialrun.providers.batches.openai import OpenAIBatches
from trialrun.providers.batches.together import TogetherBatches
from trialrun.providers.batches.xai import XaiBatches
from trialrun.providers.openai_chat import Dialect, OpenAIChat

MISTRAL: dict[str, Any] = {
    "id": "b-1",
    "object": "batch",
    "input_files": ["file-1"],
    "endpoint": "/v1/chat/completions",
    "errors": [],
    "status": "QUEUED",
    "created_at": 1_790_000_000,
    "total_requests": 3,
    "completed_requests": 0,
    "succeeded_requests": 0,
    "failed_requests": 0,
    "output_file": None,
    "error_file": None,
    "metadata": {"trialrun_pack": "pack0123456789"},
}
TOGETHER: dict[str, Any] = {
    "id": "t-1",
    "status": "VALIDATING",
    "endpoint": "/v1/chat/completions",
    "input_file_id": "file-t",
    "created_at": "2026-11-19T02:00:00Z",
    "progress": 0.0,
}


def of(number: int) -> Call:
    return call(number, model="x/some-model")


@asynccontextmanager
async def at(
    kind: type[OpenAIBatches], answers: dict[str, Any]
) -> AsyncGenerator[tuple[OpenAIBatches, BatchFarEnd], None]:
    async with BatchFarEnd(answers).running() as far_end:
        dialect = Dialect(bill="ticks") if kind is XaiBatches else None
        route = kind(OpenAIChat("x", base_url=f"{far_end.url}/v1", key=KEY, dialect=dialect))
        try:
            yield route, far_end
        finally:
            await route.provider.close()


async def test_mistral_makes_a_job_of_a_file_and_counts_its_hours(tmp_path: Path):
    answers = {"POST /v1/files": {"id": "file-1"}, "POST /v1/batch/jobs": MISTRAL}
    async with at(MistralBatches, answers) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.create(replace_window(pack, "7d"), await route.upload(pack)) == "b-1"
    upload, create = far_end.seen
    assert pack.path.read_bytes() in upload.body
    assert b'"method"' not in upload.body
    assert create.json == {
        "endpoint": "/v1/chat/completions",
        "input_files": ["file-1"],
        "model": "some-model",
        "metadata": {"trialrun_pack": "pack0123456789"},
        "timeout_hours": 168,
    }
    assert (hours_of("24h"), hours_of("36h"), hours_of("soon")) == (24, 36, 24)


def replace_window(pack: Any, window: str) -> Any:
    return msgspec.structs.replace(pack, window=window)


@pytest.mark.parametrize(
    ("changes", "phase", "results"),
    [
        ({}, "queued", ()),
        ({"status": "RUNNING"}, "running", ()),
        ({"status": "CANCELLATION_REQUESTED"}, "cancelling", ()),
        ({"status": "SUCCESS", "output_file": "o", "error_file": "e"}, "ended", ("o", "e")),
        ({"status": "SUCCESS", "error_file": "e"}, "ended", ("e",)),
        ({"status": "CANCELLED", "output_file": "o"}, "ended", ("o",)),
        ({"status": "CANCELLED"}, "failed", ()),
        ({"status": "TIMEOUT_EXCEEDED"}, "failed", ()),
        ({"status": "TIMEOUT_EXCEEDED", "succeeded_requests": 2}, "ended", ()),
        ({"status": "FAILED", "errors": [{"message": "line 2: no schema", "count": 1}]}, "failed", ()),
        ({"status": "NAPPING"}, "unknown", ()),
    ],
)
async def test_every_state_of_mistral_has_its_phase(
    changes: dict[str, Any], phase: Phase, results: tuple[str, ...]
):
    async with at(MistralBatches, {"GET /v1/batch/jobs/b-1": {**MISTRAL, **changes}}) as (route, _):
        look = await route.look("b-1")
    assert (look.phase, look.results) == (phase, results)
    assert look.total == 3
    assert look.problems == tuple(each["message"] for each in changes.get("errors", []))


async def test_mistral_is_asked_page_by_page_and_refuses_in_strings(tmp_path: Path):
    jobs = [{**MISTRAL, "id": f"b-{n}", "input_files": [f"file-{n}"], "metadata": None} for n in range(150)]

    def page(seen: Seen) -> Any:
        number = int(seen.path.partition("page=")[2].partition("&")[0])
        return {"data": jobs[number * 100 : number * 100 + 100], "total": 150, "object": "list"}

    refused = msgspec.json.encode({"error": {"message": "it says why", "type": "invalid_request"}}).decode()
    line = {"custom_id": "a", "response": {"status_code": 422, "body": refused}, "error": None}
    answers = {
        "GET /v1/batch/jobs": page,
        "GET /v1/batch/jobs/b-1": {**MISTRAL, "status": "SUCCESS", "error_file": "e"},
        "GET /v1/files/e/content": msgspec.json.encode(line) + b"\n",
        "POST /v1/batch/jobs/b-1/cancel": MISTRAL,
    }
    async with at(MistralBatches, answers) as (route, far_end):
        assert await route.find(pack_of(route, tmp_path, make=of), "file-120") == ["b-120"]
        assert [one.batch for one in await route.listed(most=120)][-1] == "b-119"
        (result,) = await results_of(route, "b-1", await route.look("b-1"))
        await route.cancel("b-1")
        assert far_end.seen[-1].method == "POST"
    assert isinstance(result.error, RequestRefused)
    assert "it says why" in str(result.error)


async def test_together_takes_a_file_at_another_address_without_the_key(tmp_path: Path):
    def begin(seen: Seen) -> web.Response:
        return web.Response(
            status=302, headers={"Location": f"{far_end.url}/store/1?sig=x", "X-Together-File-Id": "file-t"}
        )

    answers = {
        "POST /v1/files": begin,
        "PUT /store/1": b"",
        "POST /v1/files/file-t/preprocess": {"id": "file-t"},
        "POST /v1/batches": {"job": TOGETHER, "warning": ""},
    }
    async with at(TogetherBatches, answers) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.upload(pack) == "file-t"
        assert await route.create(pack, "file-t") == "t-1"
    begun, put, told, create = far_end.seen
    assert hashlib.sha256(pack.path.read_bytes()).hexdigest().encode() in begun.body
    assert b'name="purpose"\r\n\r\nbatch-api\r\n' in begun.body
    assert put.body == pack.path.read_bytes()
    assert "authorization" not in put.headers
    assert told.headers["authorization"] == f"Bearer {KEY}"
    assert "metadata" not in create.json


async def test_together_is_not_sent_a_file_that_it_has(tmp_path: Path):
    known = web.json_response({"file_id": "file-old"}, status=409)
    async with at(TogetherBatches, {"POST /v1/files": known}) as (route, far_end):
        assert await route.upload(pack_of(route, tmp_path, make=of)) == "file-old"
        assert len(far_end.seen) == 1
        far_end.answers["POST /v1/files"] = {"id": "?"}
        with pytest.raises(Unavailable, match="no address"):
            await route.upload(pack_of(route, tmp_path, make=of))


async def test_a_create_of_together_without_a_job_is_in_doubt(tmp_path: Path):
    async with at(TogetherBatches, {"POST /v1/batches": {"job": None, "warning": "?"}}) as (route, _):
        with pytest.raises(Unavailable) as caught:
            await route.create(pack_of(route, tmp_path, make=of), "file-t")
        assert caught.value.billed == "unknown"


@pytest.mark.parametrize(
    ("changes", "phase", "results"),
    [
        ({}, "queued", ()),
        ({"status": "IN_PROGRESS"}, "running", ()),
        ({"status": "COMPLETED", "output_file_id": "o", "error_file_id": "e"}, "ended", ("o", "e")),
        ({"status": "EXPIRED", "output_file_id": "o"}, "ended", ("o",)),
        ({"status": "CANCELLED"}, "ended", ()),
        ({"status": "FAILED", "error": "no such model"}, "failed", ()),
        ({"status": "MUSING"}, "unknown", ()),
    ],
)
async def test_every_state_of_together_has_its_phase(
    changes: dict[str, Any], phase: Phase, results: tuple[str, ...]
):
    async with at(TogetherBatches, {"GET /v1/batches/t-1": {**TOGETHER, **changes}}) as (route, _):
        look = await route.look("t-1")
    assert (look.phase, look.results) == (phase, results)
    assert look.problems == ((changes["error"],) if "error" in changes else ())
    assert look.created_at == 1_795_053_600


async def test_together_lists_everything_at_once(tmp_path: Path):
    jobs = [{**TOGETHER, "id": f"t-{n}", "created_at": f"2026-11-19T02:00:0{n}Z"} for n in range(4)]
    jobs[2]["input_file_id"] = None
    async with at(TogetherBatches, {"GET /v1/batches": jobs}) as (route, far_end):
        assert await route.find(pack_of(route, tmp_path, make=of), "file-t") == ["t-3", "t-1", "t-0"]
        assert [one.batch for one in await route.listed(most=2)] == ["t-3", "t-2"]
        assert len(far_end.seen) == 2


XAI: dict[str, Any] = {
    "batch_id": "batch_x",
    "name": "pack0123456789",
    "create_time": "2026-11-19T02:00:00Z",
    "expire_time": "2026-12-19",
    "cancel_time": None,
    "input_file_id": "file-x",
    "state": {"num_requests": 3, "num_pending": 3, "num_success": 0, "num_error": 0, "num_cancelled": 0},
    "cost_breakdown": {"total_cost_usd_ticks": 37_756_000},
}


def counters(
    pending: int, success: int, error: int = 0, cancelled: int = 0, *, of: int = 3
) -> dict[str, Any]:
    state = {"num_pending": pending, "num_success": success, "num_error": error, "num_cancelled": cancelled}
    return {"state": {"num_requests": of, **state}}


CANCELLED = {"cancel_time": "2026-11-19T03:00:00Z"}
WORDS = {"state": None, "id": "batch_x", "batch_id": ""}


async def test_xai_makes_a_named_batch_of_a_file(tmp_path: Path):
    answers = {"POST /v1/files": {"id": "file-x"}, "POST /v1/batches": XAI}
    async with at(XaiBatches, answers) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.create(pack, await route.upload(pack)) == "batch_x"
    assert far_end.seen[1].json == {"name": "pack0123456789", "input_file_id": "file-x"}


@pytest.mark.parametrize(
    ("changes", "phase", "results"),
    [
        (counters(0, 0, of=0), "queued", ()),
        ({}, "queued", ()),
        (counters(2, 1), "running", ("results",)),
        (counters(0, 2), "finishing", ("results",)),  # nothing is pending, and they do not add up
        (counters(0, 3), "ended", ("results",)),
        (counters(0, 1, 1, 1), "ended", ("results",)),
        (counters(0, 0, 3), "ended", ("results",)),
        ({**counters(1, 2), **CANCELLED}, "cancelling", ("results",)),
        ({**counters(0, 2, 0, 1), **CANCELLED}, "ended", ("results",)),
        ({**counters(0, 0, of=0), **CANCELLED, "cancel_by_xai_message": "line 2: no model"}, "failed", ()),
        ({**WORDS, "status": "in_progress"}, "running", ()),
        ({**WORDS, "status": "completed", "output_file_id": "o"}, "ended", ("o",)),
        ({**WORDS, "status": "musing"}, "unknown", ()),
    ],
)
async def test_xai_is_read_by_its_counters_and_by_words_where_it_has_them(
    changes: dict[str, Any], phase: Phase, results: tuple[str, ...]
):
    async with at(XaiBatches, {"GET /v1/batches/batch_x": {**XAI, **changes}}) as (route, _):
        look = await route.look("batch_x")
    assert (look.phase, look.results) == (phase, results)
    assert look.problems == (("line 2: no model",) if "cancel_by_xai_message" in changes else ())
    were_cancelled = bool((changes.get("state") or {}).get("num_cancelled"))
    assert look.is_stopped == (phase == "ended" and were_cancelled)
    if phase == "ended":
        assert look.totals is not None
        assert look.totals.cost_usd == Decimal("0.0037756")


async def test_xai_hands_out_results_page_by_page_and_tells_what_each_costs():
    def result(id_: str, found: dict[str, Any]) -> dict[str, Any]:
        return {"batch_request_id": id_, "batch_result": found}

    body = {
        "id": "c",
        "object": "chat.completion",
        "model": "grok",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "cost_in_usd_ticks": 12_000_000,
        },
    }
    pages = {
        "": {
            "results": [result("a", {"response": {"chat_get_completion": body}})],
            "pagination_token": "n/2",
        },
        "n/2": {
            "results": [
                result("b", {"error": {"code": 3, "message": "it says why"}}),
                result("c", {"error": {"code": 8, "message": "too many"}}),
                result("d", {"error": {"code": "cancelled", "message": ""}}),
                {**result("e", {}), "error_message": "it broke"},
                result("f", {}),
            ],
            "pagination_token": None,
        },
    }

    def page(seen: Seen) -> Any:
        return pages[seen.path.partition("pagination_token=")[2]]

    answers = {"GET /v1/batches/batch_x": {**XAI, **counters(0, 3)}, "GET /v1/batches/batch_x/results": page}
    async with at(XaiBatches, answers) as (route, _):
        results = await results_of(route, "batch_x", await route.look("batch_x"))
        first, refused, busy, never, broken, senseless = results
        assert first.raw is not None
        usage = route.provider.meter(first.raw)
    assert usage is not None
    assert usage.billed_usd == Decimal("0.0012")
    assert isinstance(refused.error, RequestRefused)
    assert "it says why" in str(refused.error)
    assert isinstance(busy.error, Throttled)
    assert (never.id, never.error, never.reason) == ("d", None, "cancelled")
    assert isinstance(broken.error, Unavailable)
    assert senseless.id == ""


async def test_xai_that_gives_one_page_for_ever_is_not_followed_for_ever():
    page = {"results": [], "pagination_token": "again"}
    answers = {"GET /v1/batches/batch_x": {**XAI, **counters(0, 3)}, "GET /v1/batches/batch_x/results": page}
    async with at(XaiBatches, answers) as (route, _):
        with pytest.raises(Unavailable, match="for ever"):
            await results_of(route, "batch_x", await route.look("batch_x"))


async def test_xai_finds_its_batches_again_by_file_or_name_over_all_pages(tmp_path: Path):
    batches = [
        {**XAI, "batch_id": f"x-{n}", "name": f"n-{n}", "input_file_id": f"file-{n}"} for n in range(150)
    ]
    batches[140]["name"] = "pack0123456789"

    def page(seen: Seen) -> Any:
        begin = int(seen.path.partition("pagination_token=")[2] or 0)
        more = str(begin + 100) if begin + 100 < len(batches) else None
        return {"batches": batches[begin : begin + 100], "pagination_token": more}

    answers = {"GET /v1/batches": page, "POST /v1/batches/x-9:cancel": XAI}
    async with at(XaiBatches, answers) as (route, far_end):
        assert await route.find(pack_of(route, tmp_path, make=of), "file-120") == ["x-120", "x-140"]
        assert [one.batch for one in await route.listed(most=3)] == ["x-0", "x-1", "x-2"]
        await route.cancel("x-9")
        assert far_end.seen[-1].path.endswith("x-9:cancel")
