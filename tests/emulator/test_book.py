"""The book adds up, is exact, knows no key, and is the same when the same requests come under the same seed."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.emulator.support import CHAT, HELLO, MESSAGES, ask, ask_many, key_header, send
from trialrun.core.errors import UsageError
from trialrun.testing.clock import ManualClock
from trialrun.testing.emulator import Emulator, read_book

STORM: dict[str, Any] = {
    "seed": 11,
    "faults": [
        {"fault": "broken", "share": 0.1},
        {"fault": "dropped_before", "share": 0.1},
        {"fault": "dropped_after", "share": 0.1},
        {"fault": "truncated", "share": 0.1},
        {"fault": "no_usage", "share": 0.1},
        {"fault": "throttled", "share": 0.1},
    ],
}
TENS = {"mine/*": {"input": "10", "output": "100", "cached_input": "1", "cache_write": "12.5"}}


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {**CHAT, "messages": [{**HELLO, "content": text}], **more}


async def test_the_book_adds_up_after_a_storm():
    async with Emulator(STORM) as server:
        replies = await ask_many(server, 120)
        book = server.book
        assert len(book) == book.arrived == 120
        assert book.open == 0
        assert book.billed_usd == sum((entry.cost_usd or Decimal(0) for entry in book), Decimal(0))
        assert sum(book.outcomes.values()) == 120
        assert len(book.outcomes) == 7
        whole = sum(reply is not None and len(reply.body) == reply.wanted for reply in replies)
        assert whole == sum(entry.reached for entry in book)
        for entry in book:
            assert entry.is_billed == (entry.outcome not in ("broken", "dropped_before", "throttled"))
            assert (entry.cost_usd != 0) == entry.is_billed
        assert book.total.billed_unreached == sum(
            entry.outcome in ("dropped_after", "truncated") for entry in book
        )
        assert {sums.requests for sums in book.by_key.values()} == {120}
        assert book.by_model["openai/gpt-4.1-mini"].cost_usd == book.billed_usd


async def test_what_the_client_read_in_the_bodies_is_what_the_book_says():
    async with Emulator() as server:
        replies = await ask_many(server, 20)
        read = sum(reply.json["usage"]["total_tokens"] for reply in replies if reply)
        assert read == server.book.total.tokens_in + server.book.total.tokens_out


async def test_costs_are_exact_and_an_unknown_price_is_unknown():
    async with Emulator({"prices": TENS}) as server:
        await ask(server, "mine", chat("How much?"))
        await ask(server, "nobody", chat("How much?"))
        known, unknown = server.book.entries
        assert known.usage
        expected = Decimal(known.usage.tokens_in * 10 + known.usage.tokens_out * 100) / 1_000_000
        assert known.cost_usd == expected
        assert unknown.cost_usd is None
        assert unknown.is_billed
        assert server.book.total.unpriced == 1
        assert server.book.billed_usd == expected


async def test_a_repeated_prefix_is_billed_as_a_cached_one():
    rules = "Follow the rules of the house. " * 200
    first = {"role": "system", "content": rules}
    async with Emulator({"prices": TENS}) as server:
        for question in ("One?", "Two?"):
            await ask(server, "mine", {**CHAT, "messages": [first, {"role": "user", "content": question}]})
        one, two = (entry.usage for entry in server.book)
        assert one
        assert two
        assert one.tokens_cached == 0
        assert 1024 <= two.tokens_cached < two.tokens_in
        assert two.tokens_cached % 128 == 0
        other = await ask(server, "mine", {**CHAT, "messages": [first, HELLO]}, key="sk-other")
        assert other
        assert other.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    async with Emulator({"cache": False}) as server:
        for _ in range(2):
            await ask(server, body={**CHAT, "messages": [first, HELLO]})
        assert [entry.usage and entry.usage.tokens_cached for entry in server.book] == [0, 0]


async def test_anthropic_writes_a_cache_where_it_is_marked_and_reads_it_for_five_minutes():
    clock = ManualClock()
    rules: dict[str, Any] = {"type": "text", "text": "Follow the rules of the house. " * 200}
    marked = {**MESSAGES, "system": [{**rules, "cache_control": {"type": "ephemeral"}}]}
    async with Emulator(clock=clock) as server:
        seen: list[tuple[int, int]] = []
        for body, wait_s in (
            ({**MESSAGES, "system": [rules]}, 0.0),
            (marked, 0.0),
            (marked, 200.0),
            (marked, 301.0),
            (marked, 0.0),
        ):
            await clock.advance(wait_s)
            reply = await ask(server, "anthropic", body)
            assert reply
            usage = reply.json["usage"]
            seen.append(
                (usage["cache_creation_input_tokens"] > 1024, usage["cache_read_input_tokens"] > 1024)
            )
            entry = server.book.entries[-1].usage
            assert entry
            total = (
                usage["input_tokens"]
                + usage["cache_creation_input_tokens"]
                + usage["cache_read_input_tokens"]
            )
            assert entry.tokens_in == total
        assert seen == [(False, False), (True, False), (False, True), (True, False), (False, True)]


async def test_the_book_is_read_over_http_and_as_a_file(tmp_path: Path):
    file = tmp_path / "book.jsonl"
    async with Emulator(STORM, book_file=file) as server:
        await ask_many(server, 30)
        headers = {"x-trialrun-call": "warm-abc-r0-c0-a2"}
        await ask(server, headers=headers)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server.url}/__book") as response:
                lines = (await response.read()).splitlines()
            async with session.get(f"{server.url}/__stats") as response:
                stats = await response.json()
            assert len(lines) == 31
            assert read_book(file) == server.book.entries
            assert msgspec.json.decode(lines[-1])["call"] == "warm-abc-r0-c0-a2"
            assert stats["total"]["requests"] == 31
            assert Decimal(stats["total"]["cost_usd"]) == server.book.billed_usd
            async with session.post(f"{server.url}/__reset") as response:
                assert response.status == 200
            assert len(server.book) == 0
            async with session.post(
                f"{server.url}/__script", json={"faults": [{"fault": "brokn"}]}
            ) as response:
                assert response.status == 400
            async with session.post(
                f"{server.url}/__script", json={"faults": [{"fault": "broken"}]}
            ) as response:
                assert response.status == 200
            reply = await ask(server)
            assert reply
            assert reply.status == 500


async def test_a_client_that_gives_up_is_billed_and_not_reached():
    async with Emulator({"latency_s": 0.3}) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(server)
        await server.book.quiet.wait()
        entry = server.book.entries[0]
        assert entry.is_billed
        assert not entry.reached


async def test_a_request_that_never_came_whole_is_in_the_book():
    async with Emulator() as server:
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /openai/v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(5):
            await server.book.quiet.wait()
        assert [(entry.outcome, entry.is_billed) for entry in server.book] == [("unread", False)]


# --- the same again -------------------------------------------------------------------------------------------------


async def test_two_runs_with_one_seed_are_equal_and_with_another_they_are_not():
    async def run(seed: int) -> tuple[list[Any], bytes]:
        async with Emulator({**STORM, "seed": seed}, clock=ManualClock()) as server:
            replies: list[Any] = []
            for number in range(25):
                reply = await ask(server, body=chat(f"Number {number % 20}"))
                replies.append(reply and (reply.status, reply.body, reply.headers.get("x-request-id")))
                replies.append(await ask(server, "anthropic"))
            return [(str(reply)) for reply in replies], server.book.lines()

    once, again, other = await run(1), await run(1), await run(2)
    assert without_date(once[0]) == without_date(again[0])
    assert once[1] == again[1]
    assert once[1] != other[1]


def without_date(replies: list[str]) -> list[str]:
    return [reply.partition("'date':")[0] + reply.partition("'server'")[2] for reply in replies]


async def test_the_same_question_is_another_sample_unless_it_has_a_seed():
    async with Emulator({"cache": False}) as server:
        texts: list[str] = []
        for body in (chat("Hello"), chat("Hello"), chat("Hello", seed=1), chat("Hello", seed=1)):
            reply = await ask(server, body=body)
            assert reply
            texts.append(reply.json["choices"][0]["message"]["content"])
        assert texts[0] != texts[1]
        assert texts[2] == texts[3]


# --- safety ---------------------------------------------------------------------------------------------------------


async def test_no_key_is_in_the_book_or_in_a_reply():
    key = "sk-canary-0123456789"
    async with Emulator({"keys": {"mine": "sk-mine"}}) as server:
        reply = await ask(server, key=key)
        assert reply
        assert reply.status == 401
        assert key not in reply.body.decode()
        assert key.encode() not in server.book.lines()
        for provider in ("openai", "anthropic", "gemini"):
            missing = await ask(server, provider, key="")
            assert missing
            assert missing.status in (400, 401)


async def test_a_body_over_the_bound_is_refused_and_in_the_book():
    async with Emulator(largest_body=10_000) as server:
        for provider in ("openai", "anthropic"):
            reply = await ask(server, provider, chat("x" * 20_000))
            assert reply
            assert reply.status == 413
            assert reply.json["error"]
        assert [entry.outcome for entry in server.book] == ["too_large"] * 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_the_network_does_not_come_in_unless_told(host: str):
    with pytest.raises(UsageError, match="not an address of this machine"):
        Emulator(host=host)


async def test_a_page_in_a_browser_neither_reads_the_book_nor_changes_the_script():
    async with Emulator() as server:
        for path, method in (
            ("/__book", "GET"),
            ("/__stats", "GET"),
            ("/__script", "POST"),
            ("/__reset", "POST"),
        ):
            reply = await send(server, path, b"{}", {"origin": "https://pages.example"}, method=method)
            assert reply
            assert reply.status == 403
        named = await send(server, "/__book", b"", {"host": "pages.example"}, method="GET")
        assert named
        assert named.status == 403
        good = await send(server, "/__book", b"", {}, method="GET")
        assert good
        assert good.status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b'{"model": 3}', b'{"messages": []}', b'{"contents": 3}', b"\xff", b"{" * 9000],
)
async def test_whatever_is_sent_is_refused_politely(body: bytes):
    async with Emulator() as server:
        for provider in ("openai", "anthropic", "gemini"):
            reply = await ask(server, provider, body)
            assert reply
            assert reply.status == 400, (provider, reply)
            assert reply.json["error"]["message"]
        reply = await send(server, "/openai/v1/responses", body, key_header("openai"))
        assert reply
        assert reply.status == 400


async def test_an_unknown_path_is_told_in_the_words_of_its_provider():
    async with Emulator() as server:
        for prefix in ("openai", "anthropic", "gemini", "vertex", "what"):
            reply = await send(server, f"/{prefix}/v9/nothing", b"", {}, method="GET")
            assert reply
            assert reply.status == 404
            assert reply.json["error"]
