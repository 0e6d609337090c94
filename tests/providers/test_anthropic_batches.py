"""Anthropic's message batches: one request with all of them, and what every result becomes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.batch_far_end import KEY, BatchFarEnd, Seen, call, pack_of, results_of
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
from trialrun.providers.anthropic import VERSION, VERSION_WITH_SAMPLING, Anthropic
from trialrun.providers.batches.anthropic import AnthropicBatches

MODEL = "anthropic/claude-haiku-4-5"
JOB: dict[str, Any] = {
    "id": "msgbatch_1",
    "type": "message_batch",
    "processing_status": "in_progress",
    "request_counts": {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    "created_at": "2026-11-19T02:00:00.5Z",
    "expires_at": "2026-11-20T02:00:00Z",
    "ended_at": None,
    "archived_at": None,
    "cancel_initiated_at": None,
    "results_url": None,
}
ENDED = {
    **JOB,
    "processing_status": "ended",
    "request_counts": {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 0},
    "results_url": "https://elsewhere.example/v1/messages/batches/msgbatch_1/results",
}


def of(number: int) -> Call:
    return call(number, model=MODEL)


def routed(url: str = "http://127.0.0.1:1") -> AnthropicBatches:
    return AnthropicBatches(
        Anthropic("anthropic", base_url=f"{url}/v1", key=KEY, key_name="ANTHROPIC_API_KEY")
    )


@asynccontextmanager
async def at(answers: dict[str, Any]) -> AsyncGenerator[tuple[AnthropicBatches, BatchFarEnd], None]:
    async with BatchFarEnd(answers).running() as far_end:
        route = routed(far_end.url)
        try:
            yield route, far_end
        finally:
            await route.provider.close()


async def test_one_request_holds_the_bodies_of_the_live_lane_in_order(tmp_path: Path):
    async with at({"POST /v1/messages/batches": JOB}) as (route, far_end):
        pack = pack_of(route, tmp_path, make=of)
        assert await route.upload(pack) == ""
        assert await route.create(pack, "") == "msgbatch_1"
    (sent,) = far_end.seen
    bodies = [route.provider.prepare(of(n)) for n in range(3)]
    assert [one["params"] for one in sent.json["requests"]] == [msgspec.json.decode(body) for body in bodies]
    assert all(body in sent.body for body in bodies)
    assert [one["custom_id"] for one in sent.json["requests"]] == [
        f"warm-abc-r{n}-c1-sabcde" for n in range(3)
    ]
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == VERSION


async def test_calls_that_sample_and_calls_that_do_not_travel_apart(tmp_path: Path):
    def sampling(number: int) -> Call:
        return call(number, model=MODEL, temperature=0.7)

    async with at({"POST /v1/messages/batches": JOB}) as (route, far_end):
        assert route.endpoint_of(sampling(0)) != route.endpoint_of(of(0))
        await route.create(pack_of(route, tmp_path, make=sampling), "")
    assert far_end.seen[0].headers["anthropic-version"] == VERSION_WITH_SAMPLING


@pytest.mark.parametrize(
    ("status", "expected", "billed"),
    [
        (500, Unavailable, "unknown"),
        (529, Unavailable, "no"),
        (429, Throttled, "no"),
        (413, RequestRefused, "no"),
    ],
)
async def test_a_failed_create_is_in_doubt_only_if_a_batch_may_have_been_made(
    tmp_path: Path, status: int, expected: type[CallError], billed: str
):
    async with at({"POST /v1/messages/batches": status}) as (route, _):
        with pytest.raises(expected) as caught:
            await route.create(pack_of(route, tmp_path, make=of), "")
    assert caught.value.billed == billed


async def test_batches_of_the_same_size_may_be_a_pack_whose_creation_is_in_doubt(tmp_path: Path):
    def sized(number: int) -> dict[str, Any]:
        counts = {"processing": 3 if number % 2 else 5, "succeeded": 0}
        return {**JOB, "id": f"msgbatch_{number}", "request_counts": counts}

    jobs = [sized(number) for number in range(9)]

    def page(seen: Seen) -> Any:
        after = seen.path.partition("after_id=msgbatch_")[2]
        start = int(after) + 1 if after else 0
        return {"data": jobs[start : start + 5], "has_more": start + 5 < len(jobs)}

    async with at({"GET /v1/messages/batches": page}) as (route, _):
        assert route.anchor == "none"
        found = await route.find(pack_of(route, tmp_path, make=of), "")
        listed = await route.listed(most=6)
    assert found == [f"msgbatch_{n}" for n in (1, 3, 5, 7)]
    assert [one.requests for one in listed] == [5, 3, 5, 3, 5, 3]
    assert listed[0].created_at == 1_795_053_600.5


@pytest.mark.parametrize(
    ("job", "phase", "results"),
    [
        (JOB, "running", ()),
        ({**JOB, "processing_status": "canceling"}, "cancelling", ()),
        (ENDED, "ended", ("results",)),
        ({**ENDED, "results_url": None}, "finishing", ()),
        ({**ENDED, "archived_at": "2026-12-19T02:00:00Z"}, "gone", ()),
        ({**JOB, "processing_status": "pondering"}, "unknown", ()),
    ],
)
async def test_every_state_has_its_phase(job: dict[str, Any], phase: Phase, results: tuple[str, ...]):
    async with at({"GET /v1/messages/batches/msgbatch_1": job}) as (route, _):
        look = await route.look("msgbatch_1")
    assert (look.phase, look.results, look.word) == (phase, results, job["processing_status"])
    assert look.total == 3
    assert look.created_at == 1_795_053_600.5


async def test_counts_that_stay_zero_until_the_end_are_not_said_before_it():
    async with at({"GET /v1/messages/batches/msgbatch_1": JOB}) as (route, far_end):
        before = await route.look("msgbatch_1")
        far_end.answers["GET /v1/messages/batches/msgbatch_1"] = ENDED
        after = await route.look("msgbatch_1")
    assert (before.done, before.failed) == (None, None)
    assert (after.done, after.failed) == (2, 1)


MESSAGE = (
    b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text",'
    b'"text":"Hi"}],"stop_reason":"end_turn",  "usage":{"input_tokens":3,"output_tokens":1,"service_tier":"batch"}}'
)


async def test_results_are_read_from_the_address_of_the_study():
    content = b'{"custom_id":"a","result":{"type":"succeeded","message":%b}}\n' % MESSAGE
    answers = {
        "GET /v1/messages/batches/msgbatch_1": ENDED,
        "GET /v1/messages/batches/msgbatch_1/results": content,
    }
    async with at(answers) as (route, _):
        (result,) = await results_of(route, "msgbatch_1", await route.look("msgbatch_1"))
    assert result.id == "a"
    assert result.raw is not None
    assert result.raw.body == MESSAGE
    assert route.provider.parse(result.raw, of(0).request).text == "Hi"
    usage = route.provider.meter(result.raw)
    assert usage is not None
    assert (usage.tokens_in, usage.tokens_out) == (3, 1)


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("invalid_request_error", RequestRefused),
        ("not_found_error", RequestRefused),
        ("authentication_error", AuthRefused),
        ("permission_error", AuthRefused),
        ("billing_error", QuotaExhausted),
        ("rate_limit_error", Throttled),
        ("timeout_error", Unavailable),
        ("api_error", Unavailable),
        ("overloaded_error", Unavailable),
        ("some_new_error", Unavailable),
    ],
)
def test_an_error_in_a_line_has_its_class_and_costs_nothing(type_: str, expected: type[TrialrunError]):
    error = {"type": "error", "error": {"type": type_, "message": "it says why"}, "request_id": "req_1"}
    result = routed().read(
        msgspec.json.encode({"custom_id": "a", "result": {"type": "errored", "error": error}})
    )
    assert type(result.error) is expected
    assert "it says why" in str(result.error)
    if isinstance(result.error, CallError):
        assert result.error.billed == "no"


@pytest.mark.parametrize("type_", ["canceled", "expired"])
def test_a_line_that_never_ran_is_neither_reply_nor_error(type_: str):
    result = routed().read(msgspec.json.encode({"custom_id": "a", "result": {"type": type_}}))
    assert (result.id, result.raw, result.error, result.reason) == ("a", None, None, type_)


def test_a_result_of_a_new_kind_is_in_doubt_and_garbage_has_no_id():
    result = routed().read(b'{"custom_id":"a","result":{"type":"postponed"}}')
    assert isinstance(result.error, Unavailable)
    assert result.error.billed == "unknown"
    for garbage in (b"", b"{", b"[]", b'{"custom_id":"a"}', b'{"custom_id":"a","result":{}}', b"\xff"):
        assert routed().read(garbage).id == ""


async def test_a_batch_of_another_account_asks_about_the_key():
    async with at({}) as (route, _):
        for asked in (route.look("msgbatch_9"), route.cancel("msgbatch_9")):
            with pytest.raises(RequestRefused) as caught:
                await asked
            assert "account" in caught.value.fix
