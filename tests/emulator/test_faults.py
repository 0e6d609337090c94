"""Each fault does on the wire what it says, and the book says whether it is billed."""

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
import pytest

from tests.emulator.support import CHAT, HELLO, ask, ask_many
from trialrun.core.errors import UsageError
from trialrun.testing.clock import ManualClock
from trialrun.testing.emulator import Emulator, Rule, Script, key_name


def script(fault: str, **more: Any) -> dict[str, object]:
    return {"faults": [{"fault": fault, **more}]}


async def test_a_connection_dropped_before_the_reply_was_produced_costs_nothing():
    async with Emulator(script("dropped_before")) as server:
        assert await ask(server) is None
        entry = server.book.entries[0]
        assert (entry.outcome, entry.status, entry.is_billed, entry.cost_usd) == (
            "dropped_before",
            None,
            False,
            0,
        )


async def test_a_connection_dropped_after_the_reply_was_produced_is_billed_and_not_reached():
    async with Emulator(script("dropped_after")) as server:
        assert await ask(server) is None
        entry = server.book.entries[0]
        assert entry.is_billed
        assert not entry.reached
        assert entry.cost_usd
        assert entry.usage
        assert server.book.total.billed_unreached == 1


async def test_a_truncated_body_is_shorter_than_its_headers_say():
    async with Emulator(script("truncated", keep=0.3)) as server:
        reply = await ask(server)
        assert reply
        assert reply.status == 200
        assert len(reply.body) == int(reply.wanted * 0.3)
        assert server.book.entries[0].is_billed
        assert not server.book.entries[0].reached


async def test_malformed_json_arrives_whole_and_cannot_be_read():
    async with Emulator(script("malformed")) as server:
        reply = await ask(server)
        assert reply
        assert len(reply.body) == reply.wanted
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(reply.body)
        assert server.book.entries[0].is_billed


async def test_a_slow_body_comes_in_pieces_and_arrives():
    async with Emulator(script("slow_body", seconds=0.4)) as server:
        began = asyncio.get_running_loop().time()
        reply = await ask(server)
        assert reply
        assert asyncio.get_running_loop().time() - began >= 0.39
        assert len(reply.body) == reply.wanted
        assert reply.json["choices"]
        assert server.book.entries[0].reached


async def test_silence_ends_without_a_word_and_is_billed_unless_the_script_says_otherwise():
    async with Emulator(script("silence", seconds=0.05)) as server:
        assert await ask(server) is None
        assert server.book.entries[0].is_billed
    async with Emulator(script("silence", seconds=0.05, billed=False)) as server:
        assert await ask(server) is None
        assert not server.book.entries[0].is_billed


async def test_a_wrong_content_type_is_a_page_of_somebody_else():
    async with Emulator(script("wrong_type")) as server:
        reply = await ask(server)
        assert reply
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/html"


async def test_an_empty_reply_and_one_without_usage_are_billed():
    for provider in ("openai", "anthropic", "gemini"):
        async with Emulator(script("empty")) as server:
            reply = await ask(server, provider)
            assert reply
            assert [] in reply.json.values()
        async with Emulator(script("no_usage")) as server:
            reply = await ask(server, provider)
            assert reply
            assert not {"usage", "usageMetadata"} & set(reply.json)
            assert server.book.entries[0].is_billed


async def test_a_429_says_how_long_to_wait_in_the_way_that_the_script_wants():
    clock = ManualClock(auto=True)
    waits: dict[str, Any] = {}
    for way in ("seconds", "date", "milliseconds", "header", "none"):
        async with Emulator(script("throttled", wait_s=7.2, wait_as=way), clock=clock) as server:
            reply = await ask(server)
            assert reply
            assert reply.status == 429
            waits[way] = {
                name: value for name, value in reply.headers.items() if name.startswith("retry-after")
            }
    then = parsedate_to_datetime(waits.pop("date")["retry-after"])
    assert then == datetime.fromtimestamp(int(clock.now() + 7.2), tz=UTC)
    assert waits == {
        "seconds": {"retry-after": "8"},
        "milliseconds": {"retry-after-ms": "7200"},
        "header": {"retry-after": "8", "retry-after-ms": "7200"},
        "none": {},
    }


async def test_google_says_it_in_the_body():
    async with Emulator(script("throttled", wait_s=7)) as server:
        reply = await ask(server, "gemini")
        assert reply
        assert not [name for name in reply.headers if name.startswith("retry-after")]
        kinds = {detail["@type"].rpartition(".")[2]: detail for detail in reply.json["error"]["details"]}
        assert kinds["RetryInfo"]["retryDelay"] == "7s"


# --- which requests ------------------------------------------------------------------------------------------------


async def outcomes(server: Emulator, count: int = 6, **more: Any) -> str:
    """One letter for each request in turn: `.` answered, `x` not."""
    replies = [await ask(server, **more) for _ in range(count)]
    return "".join("." if reply is not None and reply.status == 200 else "x" for reply in replies)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"nth": [2, 5]}, ".x..x."),
        ({"every": 3}, "..x..x"),
        ({"first": 2}, "xx...."),
        ({"after": 4}, "....xx"),
        ({"times": 1}, "x....."),
        ({"after": 1, "every": 2, "times": 2}, ".x.x.."),
        ({"attempts": 2}, "xx...."),
        ({"share": 0}, "......"),
        ({"model": "gpt-5*"}, "......"),
        ({"provider": "openai"}, "xxxxxx"),
        ({"text": "wedding"}, "xxxxxx"),
        ({"text": "funeral"}, "......"),
        ({"key": key_name("sk-one")}, "xxxxxx"),
        ({"key": "somebody"}, "......"),
    ],
)
async def test_a_rule_chooses_its_requests(rule: dict[str, Any], expected: str):
    async with Emulator(script("broken", **rule)) as server:
        assert await outcomes(server) == expected


async def test_a_rule_holds_between_its_times():
    clock = ManualClock()
    async with Emulator(script("unavailable", from_s=10, until_s=20), clock=clock) as server:
        seen = ""
        for _ in range(5):
            seen += await outcomes(server, 1)
            await clock.advance(6)
        assert seen == "..xx."


async def test_a_share_is_kept_and_does_not_depend_on_the_order_of_arrival():
    async def failed(*, backwards: bool) -> set[str]:
        async with Emulator({"seed": 4, **script("broken", share=0.3)}) as server:
            numbers = sorted(range(150), reverse=backwards)
            for number in numbers:
                await ask(server, body={**CHAT, "messages": [{**HELLO, "content": f"Number {number}"}]})
            return {entry.request for entry in server.book if entry.outcome == "broken"}

    one, other = await failed(backwards=False), await failed(backwards=True)
    assert one == other
    assert 25 <= len(one) <= 65


async def test_the_first_rule_that_applies_is_taken_and_named_in_the_book():
    rules = (Rule(fault="overloaded", name="noon", nth=(1,)), Rule(fault="broken"))
    async with Emulator(Script(faults=rules)) as server:
        await outcomes(server, 2)
        assert [(entry.outcome, entry.rule) for entry in server.book] == [
            ("overloaded", "noon"),
            ("broken", "broken"),
        ]


async def test_a_key_is_revoked_in_the_middle():
    keys = {"alice": "sk-alice", "bob": "sk-bob"}
    async with Emulator({"keys": keys, **script("revoked", key="alice", after=2)}) as server:
        assert await outcomes(server, 4, key="sk-alice") == "..xx"
        assert await outcomes(server, 2, key="sk-bob") == ".."
        stranger = await ask(server, key="sk-carol")
        assert stranger
        assert stranger.status == 401
        assert {entry.key for entry in server.book} == {"alice", "bob", key_name("sk-carol")}


async def test_a_script_can_be_changed_while_the_server_runs():
    async with Emulator() as server:
        assert await outcomes(server, 1) == "."
        server.follow(script("broken"))
        assert await outcomes(server, 1) == "x"
        assert len(server.book) == 2


async def test_requests_side_by_side_wait_side_by_side():
    async with Emulator({"latency_s": 0.2, "jitter_s": 0.05}) as server:
        began = asyncio.get_running_loop().time()
        replies = await ask_many(server, 40)
        assert all(reply and reply.status == 200 for reply in replies)
        assert 0.15 <= asyncio.get_running_loop().time() - began < 2
        assert server.book.most_open > 20


@pytest.mark.parametrize(
    ("wrong", "what", "fix"),
    [
        ({"fautls": []}, "unknown field `fautls`", "faults"),
        ({"faults": [{"fault": "brokn"}]}, "brokn", "broken"),
        ({"faults": [{"fault": "broken", "share": 2}]}, "<= 1", "docs"),
        ({"limits": [{"requests_per_min": 3}]}, "requests_per_min", "requests_per_minute"),
        ({"latency_s": "soon"}, "Expected `float`", "docs"),
    ],
)
def test_a_wrong_script_says_where_and_what_was_meant(wrong: dict[str, object], what: str, fix: str):
    with pytest.raises(UsageError) as caught:
        Emulator(wrong)
    assert what in caught.value.what
    assert fix in caught.value.fix
