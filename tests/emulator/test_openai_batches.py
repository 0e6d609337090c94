"""OpenAI's own SDK runs its batches against the emulator, from the upload to the last result."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.emulator.batch_support import (
    DAY_S,
    chat,
    emulator,
    ids,
    lines_of,
    look,
    openai_at,
    openai_batch,
    openai_file,
)
from trialrun.testing.emulator import Emulator

PRICES = {"openai/*": {"input": "10", "output": "100"}}


async def test_a_batch_goes_from_upload_to_results_and_each_state_has_its_time():
    async with emulator() as server, openai_at(server) as client:
        batch = await openai_batch(client, 5, metadata={"pack": "p1"})
        assert (batch.status, batch.in_progress_at, batch.output_file_id) == ("validating", None, None)
        began = batch.created_at
        await server.wind(15)
        queued = await look(client, batch.id)
        assert (queued.status, queued.request_counts.completed) == ("in_progress", 0)
        await server.wind(55)
        running = await look(client, batch.id)
        assert (running.status, running.request_counts.total, running.request_counts.completed) == (
            "in_progress",
            5,
            2,
        )
        await server.wind(52)
        assert (await look(client, batch.id)).status == "finalizing"
        await server.wind(10)
        done = await look(client, batch.id)
        assert done.status == "completed"
        assert [done.in_progress_at, done.finalizing_at, done.completed_at] == [
            began + 10,
            began + 120,
            began + 130,
        ]
        assert done.expires_at == began + DAY_S
        assert done.metadata == {"pack": "p1"}
        assert (done.request_counts.completed, done.request_counts.failed) == (5, 0)
        assert done.error_file_id is None
        results = await lines_of(client, done.output_file_id)
        assert {line["custom_id"] for line in results} == set(ids(5))
        used = 0
        for line in results:
            assert line["error"] is None
            assert line["response"]["status_code"] == 200
            reply = ChatCompletion.model_validate(line["response"]["body"])
            assert reply.usage
            used += reply.usage.total_tokens
        assert done.usage
        assert done.usage.total_tokens == used


async def test_results_come_out_of_order_unless_the_script_wants_them_in_order():
    for in_order in (False, True):
        async with emulator(batches={"in_order": in_order}) as server, openai_at(server) as client:
            batch = await openai_batch(client, 20)
            await server.wind(200)
            results = await lines_of(client, (await look(client, batch.id)).output_file_id)
            assert sorted(line["custom_id"] for line in results) == sorted(ids(20))
            assert ([line["custom_id"] for line in results] == ids(20)) == in_order


async def test_the_responses_endpoint_has_batches_too():
    async with emulator() as server, openai_at(server) as client:
        bodies = [{"model": "gpt-5-mini", "input": f"Hello {n}.", "max_output_tokens": 900} for n in range(3)]
        content = openai_file(bodies, url="/v1/responses")
        batch = await openai_batch(client, input_=content, endpoint="/v1/responses")
        await server.wind(200)
        for line in await lines_of(client, (await look(client, batch.id)).output_file_id):
            assert Response.model_validate(line["response"]["body"]).output_text


async def test_a_line_is_answered_like_a_live_request_and_billed_at_half_the_price():
    bodies = [chat(number) for number in range(3)]
    async with emulator(seed=5, prices=PRICES) as server, openai_at(server) as client:
        live = {n: await client.chat.completions.create(**body) for n, body in enumerate(bodies)}
        live_cost = server.book.billed_usd
    async with emulator(seed=5, prices=PRICES) as server, openai_at(server) as client:
        batch = await openai_batch(client, input_=openai_file(bodies))
        await server.wind(200)
        results = await lines_of(client, (await look(client, batch.id)).output_file_id)
        for line in results:
            reply = live[int(line["custom_id"][1:])]
            body = ChatCompletion.model_validate(line["response"]["body"])
            assert body.choices[0].message.content == reply.choices[0].message.content
            assert body.usage == reply.usage
        assert server.book.billed_usd == live_cost / 2 > 0
        entries = list(server.book)
        assert {(entry.lane, entry.batch, entry.outcome) for entry in entries} == {
            ("batch", batch.id, "answered")
        }
        assert {entry.call for entry in entries} == set(ids(3))
        assert server.book.total.batched == 3
        assert server.book.total.billed_unreached == 0


async def test_lines_are_billed_when_their_turn_has_come_though_nobody_looks():
    async with emulator(prices=PRICES) as server, openai_at(server) as client:
        await openai_batch(client, 10)
        await server.wind(70)
        assert len(server.book) == 5
        await server.wind(100)
        assert [entry.is_billed for entry in server.book] == [True] * 10
        times = [entry.at for entry in server.book]
        assert [later - times[0] for later in times] == [10.0 * n for n in range(10)]
        await client.chat.completions.create(**chat(99))
        assert server.book.entries[-1].lane == "live"


async def test_who_looks_and_how_often_changes_nothing():
    books: list[list[tuple[str, Decimal | None, float]]] = []
    for looks in (1, 40):
        async with emulator(seed=3) as server, openai_at(server) as client:
            batch = await openai_batch(client, 12)
            for _ in range(looks):
                await server.wind(200 / looks)
                await look(client, batch.id)
            began = server.book.entries[0].at
            books.append([(entry.call, entry.cost_usd, round(entry.at - began, 6)) for entry in server.book])
    assert books[0] == books[1]


async def test_what_a_model_refuses_is_in_the_error_file_and_costs_nothing():
    bodies = [chat(0), {**chat(1), "model": "gpt-4.1-mini", "response_format": loose()}]
    async with emulator() as server, openai_at(server) as client:
        batch = await openai_batch(client, input_=openai_file(bodies))
        await server.wind(200)
        done = await look(client, batch.id)
        assert (done.request_counts.completed, done.request_counts.failed) == (1, 1)
        (failed,) = await lines_of(client, done.error_file_id)
        assert failed["custom_id"] == "r1"
        assert failed["response"]["status_code"] == 400
        assert "additionalProperties" in failed["response"]["body"]["error"]["message"]
        assert [entry.is_billed for entry in server.book if entry.call == "r1"] == [False]


def loose() -> dict[str, Any]:
    schema = {"name": "reply", "strict": True, "schema": {"type": "object", "properties": {}}}
    return {"type": "json_schema", "json_schema": schema}


BROKEN_FILES: dict[str, tuple[bytes, str]] = {
    "not JSON": (openai_file([chat(0)]) + b"{oops\n", "invalid_json_line"),
    "an id twice": (openai_file([chat(0), chat(1)], custom=["a", "a"]), "duplicate_custom_id"),
    "two models": (openai_file([chat(0), chat(1, model="gpt-5")]), "mismatched_model"),
    "another url": (
        openai_file([chat(0)]) + openai_file([chat(1)], url="/v1/responses", custom=["b"]),
        "invalid_url",
    ),
    "no model": (
        openai_file([chat(0)]) + openai_file([{"messages": []}], custom=["b"]),
        "missing_required_parameter",
    ),
    "no body": (
        openai_file([chat(0)]) + b'{"custom_id":"b","method":"POST"}\n',
        "missing_required_parameter",
    ),
}


@pytest.mark.parametrize("what", BROKEN_FILES)
async def test_a_file_that_is_not_right_fails_as_a_whole_and_names_the_line(what: str):
    content, code = BROKEN_FILES[what]
    async with emulator() as server, openai_at(server) as client:
        batch = await openai_batch(client, input_=content)
        assert batch.status == "validating"
        await server.wind(11)
        failed = await look(client, batch.id)
        assert failed.status == "failed"
        assert failed.failed_at == batch.created_at + 10
        assert failed.errors
        assert [(error.code, error.line) for error in failed.errors.data] == [(code, 2)]
        await server.wind(DAY_S)
        assert not len(server.book)


async def test_more_requests_than_the_limit_fail_as_a_whole():
    async with emulator(batches={"most_requests": 3}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 4)
        await server.wind(11)
        failed = await look(client, batch.id)
        assert failed.errors.data[0].code == "too_many_tasks"
        assert (await openai_batch(client, 3)).status == "validating"


async def test_a_file_that_is_too_large_is_refused_at_the_upload():
    async with emulator(batches={"most_bytes": 1000}) as server, openai_at(server) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await openai_batch(client, 50)
        assert caught.value.status_code == 413


async def test_tokens_that_wait_have_a_limit_and_give_their_room_back():
    async with emulator(batches={"enqueued_tokens": 60}) as server, openai_at(server) as client:
        first, second = await openai_batch(client, 2), await openai_batch(client, 2)
        await server.wind(11)
        assert (await look(client, first.id)).status == "in_progress"
        failed = await look(client, second.id)
        assert failed.status == "failed"
        assert failed.errors.data[0].code == "token_limit_exceeded"
        assert failed.errors.data[0].line is None
        await server.wind(200)
        again = await openai_batch(client, 2)
        await server.wind(200)
        assert (await look(client, again.id)).status == "completed"


async def test_a_cancelled_batch_keeps_what_is_done_and_names_the_rest():
    async with emulator() as server, openai_at(server) as client:
        batch = await openai_batch(client, 10)
        await server.wind(60)
        stopping = await client.batches.cancel(batch.id)
        assert (stopping.status, stopping.cancelling_at) == ("cancelling", batch.created_at + 60)
        await server.wind(25)
        stopped = await look(client, batch.id)
        assert (stopped.status, stopped.cancelled_at) == ("cancelled", batch.created_at + 80)
        done = await lines_of(client, stopped.output_file_id)
        never = await lines_of(client, stopped.error_file_id)
        assert (len(done), len(never)) == (4, 6)
        assert {line["custom_id"] for line in done + never} == set(ids(10))
        assert {line["error"]["code"] for line in never} == {"batch_cancelled"}
        assert len(server.book) == 4
        with pytest.raises(openai.ConflictError):
            await client.batches.cancel(batch.id)


async def test_batches_and_files_are_listed_in_pages():
    async with emulator() as server, openai_at(server) as client:
        made = [(await openai_batch(client, 1)).id for _ in range(5)]
        assert [batch.id async for batch in client.batches.list(limit=2)] == made[::-1]
        first = await client.batches.list(limit=2)
        assert (len(first.data), first.has_more) == (2, True)
        assert len([file async for file in client.files.list(purpose="batch")]) == 5
        with pytest.raises(openai.BadRequestError):
            await client.batches.list(after="batch_nobody")


async def test_files_that_are_uploaded_at_one_time_have_ids_of_their_own():
    contents = [openai_file([chat(number)] * 50) for number in range(12)]
    async with emulator() as server, openai_at(server) as client:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(client.files.create(file=(f"{n}.jsonl", content), purpose="batch"))
                for n, content in enumerate(contents)
            ]
        files = [task.result() for task in tasks]
        assert len({file.id for file in files}) == len(contents)
        for file, content in zip(files, contents, strict=True):
            assert (await client.files.content(file.id)).content == content


async def test_files_can_be_read_and_deleted_and_expire():
    async with emulator() as server, openai_at(server) as client:
        content = openai_file([chat(0)])
        short: Any = {"anchor": "created_at", "seconds": 3600}
        file = await client.files.create(file=("a.jsonl", content), purpose="batch", expires_after=short)
        other = await client.files.create(file=("b.jsonl", content), purpose="batch")
        assert (file.bytes, file.filename, file.expires_at) == (
            len(content),
            "a.jsonl",
            file.created_at + 3600,
        )
        assert (await client.files.content(file.id)).content == content
        await server.wind(3601)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)
        assert (await client.files.delete(other.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.content(other.id)
        with pytest.raises(openai.BadRequestError, match="purpose"):
            await client.files.create(file=("c.jsonl", content), purpose="wrong")  # pyright: ignore[reportArgumentType]


async def test_results_are_gone_after_a_month_or_when_the_script_says_so():
    ways: list[tuple[dict[str, Any], dict[str, Any], float]] = [
        ({}, {}, 30 * DAY_S),
        ({"kept_s": 50}, {}, 50),
        ({}, {"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, 3600),
    ]
    for batches, more, kept_s in ways:
        async with emulator(batches=batches) as server, openai_at(server) as client:
            batch = await openai_batch(client, 1, **more)
            await server.wind(129 + kept_s)
            done = await look(client, batch.id)
            assert len(await lines_of(client, done.output_file_id)) == 1
            await server.wind(2)
            with pytest.raises(openai.NotFoundError):
                await lines_of(client, done.output_file_id)


async def test_what_cannot_be_created_is_refused():
    async with emulator() as server, openai_at(server) as client:
        refused: list[dict[str, Any]] = [
            {"completion_window": "1h"},
            {"endpoint": "/v1/nothing"},
            {"metadata": {str(n): "x" for n in range(17)}},
            {"metadata": {"x": "y" * 513}},
        ]
        for more in refused:
            with pytest.raises(openai.BadRequestError):
                await openai_batch(client, 1, **more)
        with pytest.raises(openai.BadRequestError):
            await client.batches.create(
                input_file_id="file-no", endpoint="/v1/responses", completion_window="24h"
            )
        with pytest.raises(openai.NotFoundError):
            await look(client, "batch_nobody")


async def test_accounts_do_not_see_each_other_s_batches():
    async with emulator(keys={"one": "sk-one", "two": "sk-two"}) as server:
        async with openai_at(server) as one, openai_at(server, key="sk-two") as two:
            batch = await openai_batch(one, 1)
            assert [each.id async for each in one.batches.list()] == [batch.id]
            assert [each.id async for each in two.batches.list()] == []
            with pytest.raises(openai.NotFoundError):
                await two.batches.retrieve(batch.id)
        async with openai_at(server, key="sk-nobody") as nobody:
            with pytest.raises(openai.AuthenticationError):
                await nobody.batches.list()


async def test_a_provider_with_the_same_shape_has_its_own_windows():
    async with emulator() as server, openai_at(server, "groq") as client:
        batch = await openai_batch(client, 1, completion_window="7d")
        await server.wind(200)
        done = await look(client, batch.id)
        assert done.status == "completed"
        assert [entry.provider for entry in server.book] == ["groq"]


async def test_with_real_time_a_batch_is_done_within_a_second_or_so():
    async with Emulator() as server, openai_at(server) as client:
        batch = await openai_batch(client, 3)
        for _ in range(40):
            if (batch := await look(client, batch.id)).status == "completed":
                break
            await asyncio.sleep(0.05)
        assert batch.status == "completed"


async def test_time_can_be_wound_from_outside_and_everything_is_seen_at_one_look():
    import aiohttp

    async with Emulator({"batches": {"queued_s": 5000}}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 3)
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{server.url}/__clock", json={"advance_s": 6000}) as reply:
                assert reply.status == 200
            assert (await look(client, batch.id)).status == "completed"
            async with session.get(f"{server.url}/__batches") as reply:
                seen: Any = json.loads(await reply.read())
            async with session.post(f"{server.url}/__clock", json={"advance_s": -1}) as reply:
                assert reply.status == 400
        (job,) = seen["batches"]
        assert (job["id"], job["ending"], job["requests"], job["done"]) == (batch.id, "completed", 3, 3)
        assert seen["asked"] == {"openai create": 1, "openai look": 1, "openai upload": 1}
        server.reset()
        with pytest.raises(openai.NotFoundError):
            await look(client, batch.id)
