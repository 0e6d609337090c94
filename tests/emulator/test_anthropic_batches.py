"""Anthropic's own SDK runs its message batches against the emulator, to the last result and through the faults."""

from typing import Any

import anthropic
import httpx2
import pytest

from tests.emulator.batch_support import DAY_S, emulator, ids
from trialrun.testing.emulator import Emulator

PRICES = {"anthropic/*": {"input": "10", "output": "100", "cached_input": "1", "cache_write": "12.5"}}


def anthropic_at(server: Emulator, key: str = "sk-one") -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.base_url("anthropic"), api_key=key, max_retries=0)


def params(number: int, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Hello, number {number}."}]
    # In the order in which the SDK sends a live request: the same body is the same bytes.
    return {"max_tokens": 60, "messages": messages, "model": "claude-haiku-4-5", **more}


async def begin(
    client: anthropic.AsyncAnthropic, count: int = 5, *, custom: list[str] | None = None, **more: Any
) -> Any:
    requests: Any = [
        {"custom_id": name, "params": params(number, **more)}
        for number, name in enumerate(custom or ids(count))
    ]
    return await client.messages.batches.create(requests=requests)


async def results(client: anthropic.AsyncAnthropic, batch: str) -> list[Any]:
    return [line async for line in await client.messages.batches.results(batch)]


def kinds(lines: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        found[line.result.type] = found.get(line.result.type, 0) + 1
    return found


async def test_a_batch_goes_to_its_end_and_counts_nothing_before():
    async with emulator() as server, anthropic_at(server) as client:
        batch = await begin(client, 5)
        assert (batch.processing_status, batch.results_url, batch.ended_at) == ("in_progress", None, None)
        assert (batch.expires_at - batch.created_at).total_seconds() == DAY_S
        await server.wind(100)
        running = await client.messages.batches.retrieve(batch.id)
        assert (running.request_counts.processing, running.request_counts.succeeded) == (5, 0)
        with pytest.raises(anthropic.AnthropicError, match="results_url"):
            await results(client, batch.id)
        await server.wind(50)
        done = await client.messages.batches.retrieve(batch.id)
        assert done.processing_status == "ended"
        assert (done.request_counts.processing, done.request_counts.succeeded) == (0, 5)
        assert done.ended_at
        assert (done.ended_at - done.created_at).total_seconds() == pytest.approx(130)
        lines = await results(client, batch.id)
        assert {line.custom_id for line in lines} == set(ids(5))
        for line in lines:
            assert line.result.type == "succeeded"
            assert line.result.message.content[0].text
            assert line.result.message.usage.service_tier == "batch"


async def test_results_come_out_of_order():
    async with emulator() as server, anthropic_at(server) as client:
        batch = await begin(client, 20)
        await server.wind(200)
        came = [line.custom_id for line in await results(client, batch.id)]
        assert came != ids(20)
        assert sorted(came) == sorted(ids(20))


async def test_a_line_is_answered_like_a_live_message_and_billed_at_half_the_price():
    async with emulator(seed=5, prices=PRICES) as server, anthropic_at(server) as client:
        live = [await client.messages.create(**params(number)) for number in range(3)]
        live_cost = server.book.billed_usd
    async with emulator(seed=5, prices=PRICES) as server, anthropic_at(server) as client:
        batch = await begin(client, 3)
        await server.wind(200)
        for line in await results(client, batch.id):
            assert line.result.message.content == live[int(line.custom_id[1:])].content
        assert server.book.billed_usd == live_cost / 2 > 0
        assert {entry.lane for entry in server.book} == {"batch"}


async def test_cached_tokens_are_half_of_the_cached_price():
    system = [{"type": "text", "text": "Follow the rules. " * 400, "cache_control": {"type": "ephemeral"}}]
    async with emulator(prices=PRICES) as server, anthropic_at(server) as client:
        await begin(client, 3, system=system)
        await server.wind(200)
        first, *others = server.book
        assert first.usage
        assert first.usage.tokens_cache_write > 1000
        for entry in others:
            used = entry.usage
            assert used
            assert used.tokens_cached > 1000
            fresh = used.tokens_in - used.tokens_cached
            expected = (fresh * 10 + used.tokens_cached + used.tokens_out * 100) / 2 / 1_000_000
            assert float(entry.cost_usd or 0) == pytest.approx(expected)


async def test_what_is_wrong_in_a_request_is_known_only_at_the_end():
    async with emulator() as server, anthropic_at(server) as client:
        requests: Any = [
            {"custom_id": "good", "params": params(0)},
            {"custom_id": "hot", "params": params(1, temperature=1.7)},
            {"custom_id": "streamed", "params": params(2, stream=True)},
            {"custom_id": "empty", "params": {}},
        ]
        batch = await client.messages.batches.create(requests=requests)
        await server.wind(200)
        done = await client.messages.batches.retrieve(batch.id)
        assert (done.request_counts.succeeded, done.request_counts.errored) == (1, 3)
        for line in await results(client, batch.id):
            if line.custom_id != "good":
                assert line.result.type == "errored"
                assert line.result.error.error.type == "invalid_request_error"
                assert line.result.error.request_id
        assert server.book.total.billed == 1


@pytest.mark.parametrize("custom", [["has space"], ["x" * 65], [""], ["twice", "twice"], ["a.b"]])
async def test_ids_have_rules_of_their_own(custom: list[str]):
    async with emulator() as server, anthropic_at(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="custom_id"):
            await begin(client, custom=custom)


async def test_a_batch_has_a_limit_of_requests_and_of_bytes():
    async with (
        emulator(batches={"most_requests": 3, "most_bytes": 1000}) as server,
        anthropic_at(server) as client,
    ):
        with pytest.raises(anthropic.BadRequestError, match="at most 3"):
            await begin(client, 4)
        with pytest.raises(anthropic.APIStatusError) as caught:
            await begin(client, 3, system="x" * 2000)
        assert caught.value.status_code == 413
        with pytest.raises(anthropic.BadRequestError, match="at least one"):
            await client.messages.batches.create(requests=[])


async def test_a_canceled_batch_keeps_what_is_done():
    async with emulator() as server, anthropic_at(server) as client:
        batch = await begin(client, 10)
        await server.wind(60)
        stopping = await client.messages.batches.cancel(batch.id)
        assert stopping.processing_status == "canceling"
        assert stopping.cancel_initiated_at
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.batches.delete(batch.id)
        await server.wind(30)
        done = await client.messages.batches.retrieve(batch.id)
        assert (done.processing_status, done.request_counts.canceled) == ("ended", 6)
        assert kinds(await results(client, batch.id)) == {"succeeded": 4, "canceled": 6}
        assert server.book.total.billed == len(server.book) == 4
        assert (await client.messages.batches.delete(batch.id)).type == "message_batch_deleted"
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.batches.retrieve(batch.id)


async def test_batches_are_listed_newest_first_in_pages_both_ways():
    async with emulator() as server, anthropic_at(server) as client:
        made = [(await begin(client, 1)).id for _ in range(5)][::-1]
        assert [batch.id async for batch in client.messages.batches.list(limit=2)] == made
        page = await client.messages.batches.list(after_id=made[1], limit=2)
        assert ([batch.id for batch in page.data], page.has_more) == (made[2:4], True)
        page = await client.messages.batches.list(before_id=made[3], limit=2)
        assert ([batch.id for batch in page.data], page.has_more) == (made[1:3], True)
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.batches.list(limit=2000)


async def test_results_are_archived_after_a_while():
    async with emulator(batches={"kept_s": 500}) as server, anthropic_at(server) as client:
        batch = await begin(client, 1)
        await server.wind(600)
        kept = await client.messages.batches.retrieve(batch.id)
        assert kept.results_url
        assert kept.archived_at is None
        await server.wind(100)
        archived = await client.messages.batches.retrieve(batch.id)
        assert archived.archived_at
        assert archived.results_url is None
        assert archived.request_counts.succeeded == 1
        with pytest.raises(anthropic.AnthropicError):
            await results(client, batch.id)


async def test_a_batch_may_expire_with_and_without_results():
    for keep, succeeded in ((0.3, 3), (0, 0)):
        async with emulator({"fault": "expired", "keep": keep}) as server, anthropic_at(server) as client:
            batch = await begin(client, 10)
            await server.wind(200)
            done = await client.messages.batches.retrieve(batch.id)
            assert (done.request_counts.succeeded, done.request_counts.expired) == (succeeded, 10 - succeeded)
            found = kinds(await results(client, batch.id))
            assert (found.get("succeeded", 0), found["expired"]) == (succeeded, 10 - succeeded)


async def test_an_accepted_create_whose_reply_is_lost_runs_though_nobody_knows_its_id():
    async with (
        emulator({"at": "create", "fault": "dropped_after", "times": 1}) as server,
        anthropic_at(server) as client,
    ):
        with pytest.raises(anthropic.APIConnectionError):
            await begin(client, 4)
        await server.wind(200)
        (found,) = [batch async for batch in client.messages.batches.list()]
        assert {line.custom_id for line in await results(client, found.id)} == set(ids(4))
        assert server.book.total.billed == 4


async def test_an_organization_on_hold_and_a_spend_limit_stop_the_account():
    from anthropic.types.shared import OrganizationOnHoldError

    async with emulator({"at": "create", "fault": "on_hold"}) as server, anthropic_at(server) as client:
        with pytest.raises(OrganizationOnHoldError):
            await begin(client, 1)
    for fault, error in (("spend_limit", anthropic.BadRequestError), ("billing", anthropic.APIStatusError)):
        async with emulator({"at": "create", "fault": fault}) as server, anthropic_at(server) as client:
            with pytest.raises(error):
                await begin(client, 1)


async def test_each_class_of_error_is_in_the_line_and_costs_nothing():
    types = {
        "refused": "invalid_request_error",
        "throttled": "rate_limit_error",
        "overloaded": "overloaded_error",
        "broken": "api_error",
        "billing": "billing_error",
        "forbidden": "permission_error",
    }
    rules = [{"at": "line", "fault": fault, "nth": [1]} for fault in types]
    async with emulator(*rules) as server, anthropic_at(server) as client:
        batch = await begin(client, 8)
        await server.wind(200)
        lines = await results(client, batch.id)
        errored = [line.result.error.error.type for line in lines if line.result.type == "errored"]
        assert sorted(errored) == sorted(types.values())
        assert server.book.total.billed == 2


async def test_lines_may_come_twice_be_missing_or_be_a_stranger_s():
    rules = [{"fault": fault, "nth": [1]} for fault in ("duplicate", "missing", "foreign")]
    async with emulator(*rules) as server, anthropic_at(server) as client:
        batch = await begin(client, 8)
        await server.wind(200)
        came = [line.custom_id for line in await results(client, batch.id)]
        assert (len(came), len(set(came)), len(set(came) - set(ids(8)))) == (9, 8, 1)
        assert (await client.messages.batches.retrieve(batch.id)).request_counts.succeeded == 8


async def test_a_batch_may_fail_by_errors_in_all_lines_and_be_refused_for_what_waits():
    async with emulator({"fault": "failed"}) as server, anthropic_at(server) as client:
        batch = await begin(client, 4)
        await server.wind(200)
        assert kinds(await results(client, batch.id)) == {"errored": 4}
    async with emulator({"fault": "enqueued", "nth": [1]}) as server, anthropic_at(server) as client:
        with pytest.raises(anthropic.RateLimitError):
            await begin(client, 1)
        assert [batch async for batch in client.messages.batches.list()] == []
        assert (await begin(client, 1)).id
    async with emulator(batches={"enqueued_tokens": 5}) as server, anthropic_at(server) as client:
        with pytest.raises(anthropic.RateLimitError):
            await begin(client, 4)


async def test_a_download_may_break_in_the_middle_and_go_well_later():
    async with (
        emulator({"at": "download", "fault": "truncated", "first": 1}) as server,
        anthropic_at(server) as client,
    ):
        batch = await begin(client, 30)
        await server.wind(200)
        with pytest.raises((anthropic.APIError, httpx2.HTTPError)):
            await results(client, batch.id)
        assert len(await results(client, batch.id)) == 30


async def test_a_state_may_be_a_word_that_nobody_knows():
    async with (
        emulator({"fault": "odd_state", "state": "pondering"}) as server,
        anthropic_at(server) as client,
    ):
        batch = await begin(client, 1)
        await server.wind(60)
        assert (await client.messages.batches.retrieve(batch.id)).processing_status == "pondering"
