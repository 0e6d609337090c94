"""Google's own SDK runs batches of the Developer API against the emulator: inline, by file, and through the faults."""

import asyncio
import io
import json
import warnings
from typing import Any

import aiohttp
import pytest

from tests.emulator.batch_support import DAY_S, emulator, ids
from trialrun.testing.emulator import Emulator

with warnings.catch_warnings():
    # Its own source has escapes that Python warns of when it compiles them.
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import errors, types

# Google's SDK derives from a class of aiohttp that asks not to be derived from.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class:DeprecationWarning",
    "ignore:Sending a large body:ResourceWarning",
    "ignore:.*is not a valid JobState",
)

MODEL = "gemini-2.0-flash"
PRICES = {"gemini/*": {"input": "10", "output": "100"}}


class Client:
    """The SDK, for the time of a test."""

    def __init__(self, server: Emulator, **options: Any) -> None:
        options_ = types.HttpOptions(base_url=server.base_url("gemini"), **options)
        self._client = genai.Client(api_key="sk-one", http_options=options_)

    async def __aenter__(self) -> Any:
        return self._client.aio

    async def __aexit__(self, *_: object) -> None:
        await self._client.aio.aclose()


def body(number: int) -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": f"Hello, number {number}."}]}]
    return {"contents": contents, "generationConfig": {"maxOutputTokens": 60}}


def inline(count: int) -> list[dict[str, Any]]:
    return [
        {
            "contents": [{"role": "user", "parts": [{"text": f"Hello, number {number}."}]}],
            "config": {"max_output_tokens": 60},
            "metadata": {"key": name},
        }
        for number, name in enumerate(ids(count))
    ]


def content(count: int) -> bytes:
    return b"".join(
        json.dumps({"key": name, "request": body(number)}).encode() + b"\n"
        for number, name in enumerate(ids(count))
    )


async def uploaded(client: Any, count: int, *, raw: bytes = b"") -> Any:
    config = types.UploadFileConfig(display_name="pack", mime_type="application/jsonl")
    return await client.files.upload(file=io.BytesIO(raw or content(count)), config=config)


async def begin(client: Any, count: int = 5, *, raw: bytes = b"") -> Any:
    file = await uploaded(client, count, raw=raw)
    return await client.batches.create(model=MODEL, src=file.name, config={"display_name": "mine"})


async def begin_inline(client: Any, count: int = 5) -> Any:
    return await client.batches.create(model=MODEL, src=inline(count), config={"display_name": "mine"})


async def lines(client: Any, job: Any) -> list[dict[str, Any]]:
    raw = await client.files.download(file=job.dest.file_name)
    return [json.loads(line) for line in raw.splitlines()]


async def got(server: Emulator, path: str) -> tuple[int, Any]:
    """What the API itself says, without the SDK."""
    async with (
        aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session,
        session.get(f"{server.url}/gemini/v1beta/{path}") as reply,
    ):
        return reply.status, await reply.json()


async def test_a_batch_from_a_file_goes_to_its_end():
    async with emulator() as server, Client(server) as client:
        job = await begin(client, 5)
        assert job.name.startswith("batches/")
        assert (job.state, job.display_name, job.model) == ("JOB_STATE_PENDING", "mine", f"models/{MODEL}")
        await server.wind(60)
        assert (await client.batches.get(name=job.name)).state == "JOB_STATE_RUNNING"
        await server.wind(100)
        done = await client.batches.get(name=job.name)
        assert done.state == "JOB_STATE_SUCCEEDED"
        assert (done.end_time - done.create_time).total_seconds() == pytest.approx(130)
        found = await lines(client, done)
        assert {line["key"] for line in found} == set(ids(5))
        for line in found:
            reply = types.GenerateContentResponse.model_validate(line["response"])
            assert reply.text
        assert {entry.call for entry in server.book} == set(ids(5))


async def test_an_inline_batch_has_its_answers_in_the_job_with_their_metadata():
    for version in ("v1", "v1beta"):
        async with emulator() as server, Client(server, api_version=version) as client:
            job = await begin_inline(client, 20)
            await server.wind(200)
            done = await client.batches.get(name=job.name)
            came = [each.metadata["key"] for each in done.dest.inlined_responses]
            assert came != ids(20)
            assert sorted(came) == sorted(ids(20))
            assert all(each.response.text for each in done.dest.inlined_responses)


async def test_the_same_request_has_the_same_answer_and_half_the_price():
    async with emulator(seed=2, prices=PRICES) as server:
        async with aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session:
            url = f"{server.url}/gemini/v1/models/{MODEL}:generateContent"
            async with session.post(url, data=json.dumps(body(0))) as reply:
                live = (await reply.json())["candidates"]
        cost = server.book.billed_usd
    async with emulator(seed=2, prices=PRICES) as server, Client(server) as client:
        job = await begin(client, 1)
        await server.wind(200)
        (line,) = await lines(client, await client.batches.get(name=job.name))
        assert line["response"]["candidates"] == live
        assert server.book.billed_usd == cost / 2 > 0


async def test_cached_tokens_keep_their_own_price():
    prices = {"gemini/*": {"input": "10", "output": "100", "cached_input": "1"}}
    long = {"contents": [{"role": "user", "parts": [{"text": "Follow the rules. " * 400}]}]}
    raw = b"".join(json.dumps({"key": name, "request": long}).encode() + b"\n" for name in ids(2))
    async with emulator(prices=prices) as server, Client(server) as client:
        await begin(client, raw=raw)
        await server.wind(200)
        used = server.book.entries[1].usage
        assert used
        assert used.tokens_cached > 1000
        fresh = used.tokens_in - used.tokens_cached
        expected = (fresh * 5 + used.tokens_cached * 1 + used.tokens_out * 50) / 1_000_000
        assert float(server.book.entries[1].cost_usd or 0) == pytest.approx(expected)


async def test_jobs_are_listed_cancelled_and_deleted():
    async with emulator() as server, Client(server) as client:
        names = [(await begin_inline(client, 4)).name for _ in range(3)]
        listed = [job async for job in await client.batches.list(config={"page_size": 2})]
        assert [job.name for job in listed] == names[::-1]
        assert {job.display_name for job in listed} == {"mine"}
        await server.wind(70)
        await client.batches.cancel(name=names[0])
        await server.wind(30)
        stopped = await client.batches.get(name=names[0])
        assert stopped.state == "JOB_STATE_CANCELLED"
        assert len(stopped.dest.inlined_responses) == 2
        with pytest.raises(errors.ClientError):
            await client.batches.delete(name=names[1])
        await server.wind(100)
        await client.batches.delete(name=names[1])
        with pytest.raises(errors.ClientError) as caught:
            await client.batches.get(name=names[1])
        assert caught.value.code == 404


async def test_files_are_brought_in_pieces_listed_and_deleted():
    async with emulator() as server, Client(server) as client:
        raw = content(100_000 // 40)
        while len(raw) < 9 * 1024 * 1024:
            raw += raw
        file = await uploaded(client, 0, raw=raw)
        assert (file.size_bytes, file.display_name, file.state) == (len(raw), "pack", "ACTIVE")
        assert [each.name async for each in await client.files.list()] == [file.name]
        assert (await client.files.get(name=file.name)).sha256_hash == file.sha256_hash
        status, _ = await got(server, f"{file.name}:download?alt=media")
        assert status == 403
        await client.files.delete(name=file.name)
        with pytest.raises(errors.ClientError) as caught:
            await client.files.get(name=file.name)
        assert caught.value.code == 403


async def test_files_that_are_brought_at_one_time_have_ids_of_their_own():
    raws = [content(1) * 10_000 * count for count in range(1, 5)]
    async with emulator() as server, Client(server) as client:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(uploaded(client, 0, raw=raw)) for raw in raws]
        files = [task.result() for task in tasks]
        assert len({file.name for file in files}) == len(raws)
        assert [file.size_bytes for file in files] == [len(raw) for raw in raws]


async def test_results_can_be_fetched_under_the_address_for_downloads_too():
    async with emulator() as server, Client(server) as client:
        job = await begin(client, 3)
        await server.wind(200)
        done = await client.batches.get(name=job.name)
        async with aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session:
            url = f"{server.url}/gemini/download/v1beta/{done.dest.file_name}:download?alt=media"
            async with session.get(url) as reply:
                assert len((await reply.text()).splitlines()) == 3
            async with session.get(f"{server.url}/gemini/v1beta/{job.name}") as reply:
                told = await reply.json()
        assert told["done"] is True
        assert told["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"
        assert told["metadata"]["batchStats"] == {"requestCount": "3", "successfulRequestCount": "3"}
        assert told["response"]["responsesFile"] == done.dest.file_name


async def test_both_spellings_of_names_are_read():
    async with emulator() as server, aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session:
        requests = {"requests": [{"request": body(0), "metadata": {"own_name": "a"}}]}
        batch = {"display_name": "snake", "input_config": {"requests": requests}}
        url = f"{server.url}/gemini/v1beta/models/{MODEL}:batchGenerateContent"
        async with session.post(url, json={"batch": batch}) as reply:
            made = await reply.json()
        await server.wind(200)
        async with session.get(f"{server.url}/gemini/v1beta/{made['name']}") as reply:
            (result,) = (await reply.json())["response"]["inlinedResponses"]["inlinedResponses"]
        assert result["metadata"] == {"own_name": "a"}
        assert result["response"]["candidates"]
        async with session.post(url, json={"batch": {"input_config": {"requests": requests}}}) as reply:
            assert reply.status == 400


async def test_a_file_that_is_no_input_fails_the_job():
    async with emulator() as server, Client(server) as client:
        job = await begin(client, raw=content(1) + b"{oops\n")
        await server.wind(11)
        failed = await client.batches.get(name=job.name)
        assert failed.state == "JOB_STATE_FAILED"
        assert len(server.book) == 0
        _, told = await got(server, job.name)
        assert "Line 2" in told["error"]["message"]
        with pytest.raises(errors.ClientError):
            await client.batches.create(model=MODEL, src="files/nobody")


async def test_a_line_that_is_refused_has_an_error_in_place_of_a_response():
    bad = {"contents": [{"role": "user", "parts": [{"text": "x"}]}], "generationConfig": {"temperature": 9}}
    raw = content(1) + json.dumps({"key": "bad", "request": bad}).encode() + b"\n"
    rule = {"at": "line", "fault": "overloaded", "text": "number 0"}
    async with emulator(rule) as server, Client(server) as client:
        job = await begin(client, raw=raw)
        await server.wind(200)
        done = await client.batches.get(name=job.name)
        found = {line["key"]: line["error"] for line in await lines(client, done)}
        assert (found["bad"]["code"], found["r0"]["code"]) == (3, 14)
        assert "temperature" in found["bad"]["message"]
        assert not any(entry.is_billed for entry in server.book)


@pytest.mark.parametrize(("keep", "count"), [(0.5, 5), (0, 0)])
async def test_a_job_may_expire_with_and_without_results(keep: float, count: int):
    async with emulator({"fault": "expired", "keep": keep}) as server, Client(server) as client:
        job = await begin(client, 10)
        await server.wind(200)
        done = await client.batches.get(name=job.name)
        assert done.state == "JOB_STATE_EXPIRED"
        assert (len(await lines(client, done)) if done.dest else 0) == count


async def test_a_job_that_is_stuck_expires_after_two_days():
    async with emulator({"fault": "stuck"}) as server, Client(server) as client:
        job = await begin(client, 2)
        await server.wind(2 * DAY_S - 1)
        assert (await client.batches.get(name=job.name)).state == "JOB_STATE_PENDING"
        await server.wind(2)
        assert (await client.batches.get(name=job.name)).state == "JOB_STATE_EXPIRED"


async def test_states_may_be_partial_paused_or_unknown():
    rules: list[dict[str, Any]] = [
        {"fault": "partly", "keep": 0.5, "batches": [1]},
        {"fault": "paused", "seconds": 1000, "batches": [2]},
        {"fault": "odd_state", "batches": [3]},
    ]
    async with emulator(*rules) as server, aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session:
        names: list[str] = []
        async with Client(server) as client:
            names += [(await begin(client, 20)).name for _ in rules]

        async def states() -> list[str]:
            found: list[str] = []
            for name in names:
                async with session.get(f"{server.url}/gemini/v1beta/{name}") as reply:
                    found.append((await reply.json())["metadata"]["state"].removeprefix("BATCH_STATE_"))
            return found

        await server.wind(100)
        assert await states() == ["RUNNING", "PAUSED", "REVIEWING"]
        await server.wind(100)
        assert await states() == ["PARTIALLY_SUCCEEDED", "PAUSED", "SUCCEEDED"]
        await server.wind(1000)
        assert (await states())[1] == "SUCCEEDED"


async def test_a_lost_create_is_found_by_its_name():
    # Not by the SDK: it sends a create whose reply was lost once more, and has two jobs then.
    async with (
        emulator({"at": "create", "fault": "dropped_after", "times": 1}) as server,
        Client(server) as client,
        aiohttp.ClientSession(headers={"x-goog-api-key": "k"}) as session,
    ):
        file = await uploaded(client, 3)
        batch = {"displayName": "pack-7", "inputConfig": {"fileName": file.name}}
        with pytest.raises(aiohttp.ClientError):
            await session.post(
                f"{server.url}/gemini/v1/models/{MODEL}:batchGenerateContent", json={"batch": batch}
            )
        (found,) = [job async for job in await client.batches.list() if job.display_name == "pack-7"]
        await server.wind(200)
        assert len(await lines(client, await client.batches.get(name=found.name))) == 3


async def test_what_waits_has_a_limit_that_refuses_the_next_job():
    async with emulator(batches={"enqueued_tokens": 15}) as server, Client(server) as client:
        await begin_inline(client, 1)
        with pytest.raises(errors.ClientError) as caught:
            await begin_inline(client, 1)
        assert caught.value.code == 429
        await server.wind(200)
        await begin_inline(client, 1)


async def test_results_may_be_gone_and_looking_may_be_throttled():
    rules = [{"fault": "gone", "seconds": 1}, {"at": "look", "fault": "throttled", "first": 1}]
    async with emulator(*rules) as server, Client(server) as client:
        job = await begin(client, 3)
        with pytest.raises(errors.ClientError):
            await client.batches.get(name=job.name)
        await server.wind(200)
        done = await client.batches.get(name=job.name)
        assert done.state == "JOB_STATE_SUCCEEDED"
        assert done.dest is None


async def test_lines_may_come_twice_be_missing_or_be_mixed_up():
    rules = [{"fault": fault, "nth": [1]} for fault in ("duplicate", "missing", "foreign", "swapped")]
    async with emulator(*rules) as server, Client(server) as client:
        job = await begin_inline(client, 9)
        await server.wind(200)
        done = await client.batches.get(name=job.name)
        came = [each.metadata["key"] for each in done.dest.inlined_responses]
        assert len(came) == 10
        assert len(set(came) - set(ids(9))) == 1
        assert len(set(came)) == 9
