"""Rate limits are enforced: never more than the burst and what flows in, in any stretch of time."""

from itertools import pairwise
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from tests.emulator.support import CHAT, HELLO, ask, ask_many
from trialrun.core.errors import UsageError
from trialrun.testing.clock import ManualClock
from trialrun.testing.emulator import Cut, Emulator, Limit
from trialrun.testing.emulator.limits import Limiter


@given(
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=120),
    rate=st.floats(0.5, 50),
    burst=st.integers(1, 20),
    cut=st.none() | st.tuples(st.floats(0, 20), st.floats(0, 40), st.floats(0.05, 1)),
)
def test_l1_never_more_than_the_burst_and_what_flows_in(
    gaps: list[float], rate: float, burst: int, cut: tuple[float, float, float] | None
):
    cuts = (Cut(from_s=cut[0], until_s=cut[0] + cut[1], factor=cut[2]),) if cut else ()
    limiter = Limiter([Limit(requests_per_second=rate, burst=burst, cuts=cuts)])
    now, admitted = 0.0, list[float]()
    for gap in gaps:
        now += gap
        if limiter.admit("openai", "m", "k", tokens=1, elapsed_s=now).is_granted:
            admitted.append(now)
    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            span = admitted[last] - admitted[first]
            assert last - first + 1 <= burst + rate * span + 1e-6
            if cut and cut[0] <= admitted[first] and admitted[last] < cut[0] + cut[1]:
                assert last - first + 1 <= max(1.0, burst * cut[2]) + rate * cut[2] * span + 1e-6


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 900)), min_size=1, max_size=60))
def test_l2_a_request_takes_from_all_limits_or_from_none(asked: list[tuple[float, int]]):
    limiter = Limiter([Limit(requests_per_minute=20), Limit(tokens_per_minute=1000)])
    now, tokens, requests = 0.0, 0, 0
    for gap, wanted in asked:
        now += gap
        if limiter.admit("openai", "m", "k", tokens=wanted, elapsed_s=now).is_granted:
            tokens += wanted
            requests += 1
        assert tokens <= 1000 + now * 1000 / 60 + 1e-6
        assert requests <= 20 + now * 20 / 60 + 1e-6


def test_a_refused_request_may_come_when_it_was_told_to():
    limiter = Limiter([Limit(requests_per_second=2, burst=1)])
    assert limiter.admit("p", "m", "k", tokens=1, elapsed_s=0).is_granted
    refused = limiter.admit("p", "m", "k", tokens=1, elapsed_s=0.1).refused_by
    assert refused
    assert not limiter.admit("p", "m", "k", tokens=1, elapsed_s=0.1 + refused.wait_s - 0.01).is_granted
    assert limiter.admit("p", "m", "k", tokens=1, elapsed_s=0.1 + refused.wait_s).is_granted


async def test_each_key_has_its_own_limit_and_the_rest_is_answered_429():
    async with Emulator({"limits": [{"requests_per_minute": 5}]}) as server:
        for key in ("sk-one", "sk-two"):
            replies = await ask_many(server, 12, key=key)
            assert sorted(reply.status for reply in replies if reply) == [200] * 5 + [429] * 7
        assert server.book.outcomes == {"answered": 10, "throttled": 14}


async def test_headers_tell_where_a_key_stands_with_each_provider():
    clock = ManualClock()
    limits = [{"requests_per_minute": 10, "tokens_per_minute": 10_000}]
    async with Emulator({"limits": limits}, clock=clock) as server:
        reply = await ask(server)
        assert reply
        assert reply.headers["x-ratelimit-limit-requests"] == "10"
        assert reply.headers["x-ratelimit-remaining-requests"] == "9"
        assert reply.headers["x-ratelimit-reset-requests"] == "6s"
        assert int(reply.headers["x-ratelimit-remaining-tokens"]) < 10_000
        reply = await ask(server, "anthropic")
        assert reply
        assert reply.headers["anthropic-ratelimit-requests-limit"] == "10"
        assert reply.headers["anthropic-ratelimit-requests-remaining"] == "9"
        assert reply.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


async def test_a_429_of_the_limit_says_when_to_come_again_and_then_it_is_so():
    clock = ManualClock()
    async with Emulator({"limits": [{"requests_per_minute": 60, "burst": 1}]}, clock=clock) as server:
        first, second = await ask(server), await ask(server)
        assert first
        assert second
        assert (first.status, second.status) == (200, 429)
        assert second.headers["retry-after-ms"] == "1000"
        assert second.json["error"]["code"] == "rate_limit_exceeded"
        await clock.advance(1.0)
        third = await ask(server)
        assert third
        assert third.status == 200


async def test_tokens_are_set_aside_and_what_was_not_needed_is_given_back():
    clock = ManualClock()
    body: dict[str, Any] = {**CHAT, "max_completion_tokens": 600}
    async with Emulator({"limits": [{"tokens_per_minute": 1000}]}, clock=clock) as server:
        replies = [await ask(server, body=body) for _ in range(8)]
        statuses = [reply.status for reply in replies if reply]
        used = sum(entry.usage.tokens_in + entry.usage.tokens_out for entry in server.book if entry.usage)
        assert statuses[:2] == [200, 200]  # 2 x 600 were not needed
        assert 429 in statuses
        assert used <= 1000
        refused = next(reply for reply in replies if reply and reply.status == 429)
        assert refused.json["error"]["type"] == "tokens"


async def test_a_request_that_is_larger_than_the_limit_is_never_told_to_wait():
    async with Emulator({"limits": [{"tokens_per_minute": 1000}]}) as server:
        reply = await ask(server, body={**CHAT, "max_completion_tokens": 1500})
        assert reply
        assert reply.status == 429
        assert "Request too large" in reply.json["error"]["message"]
        assert not [name for name in reply.headers if name.startswith("retry-after")]


async def test_a_limit_is_cut_to_a_tenth_for_a_minute():
    clock = ManualClock()
    limit = {"requests_per_second": 10, "cuts": [{"factor": 0.1, "from_s": 10, "until_s": 70}]}
    admitted: list[int] = []
    async with Emulator({"limits": [limit]}, clock=clock) as server:
        for _ in range(80):
            replies = await ask_many(server, 12)
            admitted.append(sum(reply is not None and reply.status == 200 for reply in replies))
            await clock.advance(1.0)
    assert admitted[0] == admitted[9] == 10
    assert set(admitted[10:70]) == {1}
    assert admitted[70] <= 2
    assert admitted[72] == 10
    assert all(later <= 10 for _, later in pairwise(admitted))


async def test_limits_are_cut_while_the_server_runs_and_what_was_used_stays_used():
    clock = ManualClock()
    async with Emulator({"limits": [{"requests_per_second": 10}]}, clock=clock) as server:

        async def admitted() -> int:
            replies = await ask_many(server, 14)
            return sum(reply is not None and reply.status == 200 for reply in replies)

        assert await admitted() == 10
        assert await control(server, "/__cut", b'{"factor": 0.1, "seconds": 5}') == 200
        # Posting a script would have begun with full buckets.
        assert await admitted() == 0
        counts: list[int] = []
        for _ in range(8):
            await clock.advance(1.0)
            counts.append(await admitted())
        assert counts == [1, 1, 1, 1, 1, 10, 10, 10]
        server.cut(0.5)
        server.cut(0.2)
        await clock.advance(3600.0)
        assert await admitted() == 1, "for good, and together with the other one"
        server.reset()
        assert await admitted() == 10
        assert await control(server, "/__cut", b'{"factor": -1}') == 400
        assert await control(server, "/__cut", b'{"factor": 0.1, "for": 5}') == 400
    async with Emulator() as server:
        assert await control(server, "/__cut", b'{"factor": 0.1}') == 400
        with pytest.raises(UsageError, match="no limits"):
            server.cut(0.1)


async def control(server: Emulator, path: str, body: bytes) -> int:
    """The status with which a request to the emulator's own door is answered."""
    async with ClientSession() as client, client.post(server.url + path, data=body) as response:
        return response.status


async def test_too_many_in_flight_are_refused():
    async with Emulator({"latency_s": 0.2, "limits": [{"open": 3}]}) as server:
        replies = await ask_many(server, 8)
        assert sorted(reply.status for reply in replies if reply) == [200] * 3 + [429] * 5
        again = await ask(server)
        assert again
        assert again.status == 200


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
async def test_each_provider_s_429_is_json_in_its_own_shape(provider: str):
    async with Emulator({"limits": [{"requests_per_minute": 1}]}) as server:
        await ask(server, provider)
        reply = await ask(server, provider)
        assert reply
        assert reply.status == 429
        assert "error" in reply.json
        assert HELLO["content"] not in reply.body.decode()
