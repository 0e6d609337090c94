"""What goes wrong with batches of OpenAI, on demand: each fault as its SDK and its files show it."""

from decimal import Decimal
from typing import Any

import httpx2
import openai
import pytest

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
from trialrun.core.errors import UsageError
from trialrun.testing.emulator import Emulator, script_from

PRICES = {"openai/*": {"input": "10", "output": "100"}}


async def ended(
    server: Emulator, client: openai.AsyncOpenAI, count: int = 10
) -> tuple[Any, list[Any], list[Any]]:
    """A batch that was left alone until its end, with its output and its errors."""
    batch = await openai_batch(client, count)
    await server.wind(200)
    done = await look(client, batch.id)
    return done, await lines_of(client, done.output_file_id), await lines_of(client, done.error_file_id)


def names(lines: list[Any]) -> list[str]:
    return [line["custom_id"] for line in lines]


# --- requests that get lost ------------------------------------------------------------------------------------------


async def test_an_accepted_create_whose_reply_is_lost_is_found_by_its_file():
    async with (
        emulator({"at": "create", "fault": "dropped_after", "times": 1}) as server,
        openai_at(server) as client,
    ):
        content = openai_file([chat(0)])
        file = await client.files.create(file=("p.jsonl", content), purpose="batch")
        with pytest.raises(openai.APIConnectionError):
            await client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
        (found,) = [batch async for batch in client.batches.list() if batch.input_file_id == file.id]
        await server.wind(200)
        assert (await look(client, found.id)).status == "completed"
        assert len(server.book) == 1


async def test_a_create_that_was_lost_on_its_way_left_nothing():
    async with (
        emulator({"at": "create", "fault": "dropped_before", "times": 1}) as server,
        openai_at(server) as client,
    ):
        with pytest.raises(openai.APIConnectionError):
            await openai_batch(client, 1)
        assert [batch async for batch in client.batches.list()] == []
        assert (await openai_batch(client, 1)).status == "validating"


async def test_an_upload_whose_reply_is_lost_left_a_file():
    async with (
        emulator({"at": "upload", "fault": "dropped_after", "times": 1}) as server,
        openai_at(server) as client,
    ):
        with pytest.raises(openai.APIConnectionError):
            await openai_batch(client, 1)
        assert [file.filename async for file in client.files.list(purpose="batch")] == ["pack.jsonl"]
        assert server.overview()["batches"] == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("spend_limit", openai.BadRequestError),
        ("on_hold", openai.PermissionDeniedError),
        ("quota", openai.RateLimitError),
        ("bad_gateway", openai.InternalServerError),
        ("revoked", openai.AuthenticationError),
    ],
)
async def test_an_account_may_be_stopped_when_a_batch_is_created(fault: str, error: type[Exception]):
    async with emulator({"at": "create", "fault": fault, "after": 1}) as server, openai_at(server) as client:
        first = await openai_batch(client, 1)
        with pytest.raises(error):
            await openai_batch(client, 1)
        await server.wind(200)
        assert (await look(client, first.id)).status == "completed"


async def test_looking_too_often_is_throttled_and_a_key_may_be_revoked_meanwhile():
    throttled = {"at": "look", "fault": "throttled", "first": 2, "wait_s": 7}
    async with emulator(throttled, {"at": "list", "fault": "revoked"}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 1)
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as caught:
                await look(client, batch.id)
            assert caught.value.response.headers["retry-after"] == "7"
        assert (await look(client, batch.id)).id == batch.id
        with pytest.raises(openai.AuthenticationError):
            await client.batches.list()


@pytest.mark.parametrize("fault", ["bad_gateway", "truncated", "dropped_after"])
async def test_a_download_that_breaks_can_be_tried_again(fault: str):
    rule = {"at": "download", "fault": fault, "first": 1, "keep": 0.4}
    async with emulator(rule) as server, openai_at(server) as client:
        batch = await openai_batch(client, 30)
        await server.wind(200)
        done = await look(client, batch.id)
        with pytest.raises((openai.APIError, httpx2.HTTPError)):
            await lines_of(client, done.output_file_id)
        assert len(await lines_of(client, done.output_file_id)) == 30
        (output,) = [file for file in server.batches.files if file.purpose == "batch_output"]
        assert output.fetched == 1


async def test_a_download_may_be_cut_though_it_seems_whole():
    rule = {"at": "download", "fault": "malformed", "keep": 0.5}
    async with emulator(rule) as server, openai_at(server) as client:
        batch = await openai_batch(client, 30)
        await server.wind(200)
        done = await look(client, batch.id)
        content = (await client.files.content(done.output_file_id)).text
        assert 0 < content.count("\n") < 30


# --- lines that are not what they should be --------------------------------------------------------------------------


async def test_a_line_may_come_twice_and_be_billed_once_or_twice():
    for billed, entries in ((None, 10), (True, 12)):
        rule: dict[str, Any] = {"fault": "duplicate", "nth": [2, 5]}
        if billed is not None:
            rule["billed"] = billed
        async with emulator(rule, prices=PRICES) as server, openai_at(server) as client:
            _, output, _ = await ended(server, client)
            assert len(output) == 12
            assert set(names(output)) == set(ids(10))
            assert server.book.total.billed == len(server.book) == entries
            twice = [line for line in output if names(output).count(line["custom_id"]) == 2]
            contents = {line["response"]["body"]["choices"][0]["message"]["content"] for line in twice}
            assert len(contents) == (4 if billed else 2)


async def test_a_line_may_be_missing_and_was_billed():
    async with (
        emulator({"fault": "missing", "nth": [3]}, prices=PRICES) as server,
        openai_at(server) as client,
    ):
        done, output, errors = await ended(server, client)
        assert (len(output), errors, done.request_counts.completed) == (9, [], 10)
        assert server.book.total.billed == 10
        (lost,) = [entry for entry in server.book if entry.outcome == "missing"]
        assert lost.call == (set(ids(10)) - set(names(output))).pop()
        assert lost.cost_usd
        assert lost.cost_usd > 0


async def test_a_line_may_be_a_stranger_s():
    async with emulator({"fault": "foreign", "nth": [1]}) as server, openai_at(server) as client:
        _, output, _ = await ended(server, client)
        assert len(output) == 11
        assert len(set(names(output)) - set(ids(10))) == 1
        assert len(server.book) == 10


async def test_two_lines_may_carry_each_other_s_answer():
    async with emulator({"fault": "swapped", "nth": [4]}) as server, openai_at(server) as client:
        _, output, _ = await ended(server, client)
    async with emulator() as server, openai_at(server) as client:
        _, straight, _ = await ended(server, client)

    def by_id(lines: list[Any]) -> dict[str, str]:
        return {line["custom_id"]: line["response"]["body"]["id"] for line in lines}

    crossed = [name for name in ids(10) if by_id(output)[name] != by_id(straight)[name]]
    assert len(crossed) == 2
    assert by_id(output)[crossed[0]] == by_id(straight)[crossed[1]]


async def test_a_line_may_be_unreadable():
    async with emulator({"fault": "unreadable", "nth": [1]}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 3)
        await server.wind(200)
        content = await client.files.content((await look(client, batch.id)).output_file_id)
        lines = content.text.splitlines()
        assert len(lines) == 3
        assert sum(line.endswith("}") for line in lines) == 2


async def test_lines_fail_in_the_provider_s_words_and_cost_nothing():
    said = {"throttled": 429, "broken": 500, "overloaded": 529, "refused": 400, "too_long": 400}
    rules = [{"at": "line", "fault": fault, "nth": [1]} for fault in said]
    async with emulator(*rules) as server, openai_at(server) as client:
        done, output, errors = await ended(server, client)
        assert (len(output), len(errors)) == (5, 5)
        assert (done.request_counts.completed, done.request_counts.failed) == (5, 5)
        assert sorted(line["response"]["status_code"] for line in errors) == sorted(said.values())
        assert all(line["response"]["body"]["error"]["message"] for line in errors)
        assert {e.outcome: e.is_billed for e in server.book} == {
            **dict.fromkeys(said, False),
            "answered": True,
        }


async def test_a_model_may_decline_or_be_cut_in_a_line():
    rules = [
        {"at": "line", "fault": fault, "nth": [1]} for fault in ("refusal", "length", "no_usage", "empty")
    ]
    async with emulator(*rules) as server, openai_at(server) as client:
        long = [chat(number, max_completion_tokens=900) for number in range(10)]
        batch = await openai_batch(client, input_=openai_file(long))
        await server.wind(200)
        output = await lines_of(client, (await look(client, batch.id)).output_file_id)
        bodies = [line["response"]["body"] for line in output]
        choices = [choice for body in bodies for choice in body["choices"]]
        assert sum(choice["message"]["refusal"] is not None for choice in choices) == 1
        assert sum(choice["finish_reason"] == "length" for choice in choices) == 1
        assert sum("usage" not in body for body in bodies) == 1
        assert sum(not body["choices"] for body in bodies) == 1


async def test_a_batch_in_which_every_line_fails_has_only_an_error_file():
    async with (
        emulator({"at": "line", "fault": "refused", "batches": [2]}) as server,
        openai_at(server) as client,
    ):
        first, _, _ = await ended(server, client)
        done, output, errors = await ended(server, client)
        assert (done.status, done.output_file_id, output, len(errors)) == ("completed", None, [], 10)
        assert first.error_file_id is None


# --- batches that go another way -------------------------------------------------------------------------------------


@pytest.mark.parametrize("errors", [0, 3])
async def test_a_whole_batch_may_be_invalid_with_and_without_a_reason(errors: int):
    async with emulator({"fault": "invalid", "errors": errors}) as server, openai_at(server) as client:
        failed, output, lines = await ended(server, client)
        assert (failed.status, output, lines, len(server.book)) == ("failed", [], [], 0)
        assert (failed.request_counts.total, failed.in_progress_at) == (0, None)
        assert [error.line for error in (failed.errors.data if failed.errors else [])] == list(
            range(1, errors + 1)
        )


async def test_a_whole_batch_may_fail_by_the_limit_of_waiting_tokens():
    async with emulator({"fault": "enqueued", "nth": [1]}) as server, openai_at(server) as client:
        failed, _, _ = await ended(server, client)
        assert failed.errors.data[0].code == "token_limit_exceeded"
        assert (await ended(server, client))[0].status == "completed"


async def test_a_batch_may_expire_with_a_part_of_its_output():
    async with (
        emulator({"fault": "expired", "keep": 0.3}, prices=PRICES) as server,
        openai_at(server) as client,
    ):
        done, output, errors = await ended(server, client)
        assert (done.status, done.expired_at) == ("expired", done.created_at + 50)
        assert (len(output), len(errors)) == (3, 7)
        assert {line["error"]["code"] for line in errors} == {"batch_expired"}
        assert set(names(output + errors)) == set(ids(10))
        assert server.book.total.billed == 3


async def test_a_batch_may_expire_in_the_queue():
    async with emulator({"fault": "expired", "keep": 0}) as server, openai_at(server) as client:
        done, output, errors = await ended(server, client)
        assert (done.status, output, len(errors), len(server.book)) == ("expired", [], 10, 0)


async def test_a_batch_may_be_stuck_until_its_day_is_over():
    for fault, finished in (({"fault": "stuck"}, 0), ({"fault": "stalled", "keep": 0.5}, 5)):
        async with emulator(fault) as server, openai_at(server) as client:
            batch = await openai_batch(client, 10)
            await server.wind(DAY_S - 1)
            waiting = await look(client, batch.id)
            assert (waiting.status, waiting.request_counts.completed) == ("in_progress", finished)
            await server.wind(2)
            done = await look(client, batch.id)
            assert done.status == "expired"
            assert len(await lines_of(client, done.output_file_id)) == finished


async def test_a_stuck_batch_can_be_cancelled():
    async with emulator({"fault": "stuck"}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 4)
        await server.wind(5000)
        await client.batches.cancel(batch.id)
        await server.wind(30)
        done = await look(client, batch.id)
        assert (done.status, done.output_file_id) == ("cancelled", None)
        assert len(await lines_of(client, done.error_file_id)) == 4


async def test_a_batch_may_wait_longer_in_the_queue():
    async with (
        emulator({"fault": "slow", "seconds": 5000, "batches": [1]}) as server,
        openai_at(server) as client,
    ):
        slow, quick = await openai_batch(client, 1), await openai_batch(client, 1)
        await server.wind(200)
        assert (await look(client, quick.id)).status == "completed"
        assert (await look(client, slow.id)).status == "in_progress"
        await server.wind(5000)
        assert (await look(client, slow.id)).status == "completed"


async def test_a_cancel_may_come_too_late():
    async with emulator({"fault": "late_cancel"}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 6)
        await server.wind(60)
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        await server.wind(100)
        done = await look(client, batch.id)
        assert (done.status, done.request_counts.completed) == ("completed", 6)


async def test_a_batch_may_fail_after_it_ran():
    async with emulator({"fault": "failed", "message": "It broke."}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 4)
        await server.wind(200)
        done = await look(client, batch.id)
        assert done.status == "failed"
        assert done.errors.data[0].message == "It broke."
        assert [entry.is_billed for entry in server.book] == [False] * 4


async def test_a_part_of_a_batch_may_fail():
    async with emulator({"fault": "partly", "keep": 0.5}) as server, openai_at(server) as client:
        _, output, errors = await ended(server, client, 40)
        assert len(output) + len(errors) == 40
        assert 8 < len(errors) < 32
        assert server.book.total.billed == len(output)


async def test_a_state_may_be_a_new_word_and_counts_may_be_absent():
    async with (
        emulator({"fault": "odd_state", "state": "pondering", "nth": [1]}, {"fault": "no_counts"}) as server,
        openai_at(server) as client,
    ):
        odd, uncounted = await openai_batch(client, 1), await openai_batch(client, 1)
        await server.wind(60)
        assert (await look(client, odd.id)).status == "pondering"
        assert (await look(client, uncounted.id)).request_counts is None
        await server.wind(100)
        assert (await look(client, odd.id)).status == "completed"


async def test_results_may_be_gone_before_anybody_came():
    async with emulator({"fault": "gone", "seconds": 3}) as server, openai_at(server) as client:
        batch = await openai_batch(client, 1)
        await server.wind(200)
        done = await look(client, batch.id)
        with pytest.raises(openai.NotFoundError):
            await client.files.content(done.output_file_id)
        assert server.book.total.billed == 1


# --- the script ------------------------------------------------------------------------------------------------------


async def test_the_same_packs_meet_the_same_faults_whenever_they_come():
    rules = [{"fault": "expired", "share": 0.5}, {"at": "line", "fault": "broken", "share": 0.3}]
    seen: list[dict[int, tuple[str, Decimal]]] = []
    for order in (range(6), reversed(range(6))):
        async with emulator(*rules, seed=4, prices=PRICES) as server, openai_at(server) as client:
            batches: dict[int, Any] = {}
            for number in order:
                bodies = [chat(100 * number + n) for n in range(5)]
                batches[number] = await openai_batch(client, input_=openai_file(bodies))
            await server.wind(200)
            found: dict[int, tuple[str, Decimal]] = {}
            for number, batch in batches.items():
                costs = [entry.cost_usd or Decimal(0) for entry in server.book if entry.batch == batch.id]
                found[number] = ((await look(client, batch.id)).status, sum(costs, Decimal(0)))
            seen.append(found)
    assert seen[0] == seen[1]
    assert {status for status, _ in seen[0].values()} == {"completed", "expired"}


@pytest.mark.parametrize(
    "rule",
    [
        {"at": "line", "fault": "stuck"},
        {"at": "batch", "fault": "throttled"},
        {"at": "look", "fault": "refusal"},
        {"at": "reply", "fault": "missing"},
        {"at": "line", "fault": "bad_gateway"},
    ],
)
def test_a_fault_that_cannot_happen_there_is_no_script(rule: dict[str, Any]):
    with pytest.raises(UsageError, match="cannot happen"):
        script_from({"faults": [rule]})
