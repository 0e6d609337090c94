"""The rehearsal lane: failures as they are asked for, and the time that replies take."""

from collections import Counter

import pytest

from tests.providers.rehearsed import call
from trialrun.core.calls import Call, Parsed
from trialrun.core.errors import CallError, CallTimedOut, Throttled, Unavailable
from trialrun.core.study import Rehearsal
from trialrun.providers.rehearsal import RehearsalProvider
from trialrun.testing.clock import ManualClock

PRINT_REPLIES = """
import asyncio, sys
sys.path.insert(0, "tests/providers")
from test_rehearsal import sample_calls, raw_bytes
sys.stdout.write("\\n".join(raw_bytes(this).decode() for this in sample_calls()))
"""


FAULTY = Rehearsal(errors=0.3)


async def attempt(provider: RehearsalProvider, this: Call, number: int) -> Parsed | CallError:
    try:
        raw = await provider.send(this, b"", attempt=number, timeout_s=60)
    except CallError as error:
        return error
    return provider.parse(raw, this.request)


async def test_the_asked_share_of_attempts_fails_in_the_ways_of_the_real_provider() -> None:
    provider = RehearsalProvider(FAULTY)
    results = [await attempt(provider, call("Hello", number=n), 1) for n in range(2000)]
    errors = [result for result in results if isinstance(result, CallError)]
    assert len(errors) / 2000 == pytest.approx(0.3, abs=0.04)
    assert {type(error) for error in errors} == {Throttled, Unavailable, CallTimedOut}
    assert {error.status for error in errors} == {429, 500, 503, None}
    assert {error.billed for error in errors} == {"no", "unknown"}
    assert all(error.retry_after_s for error in errors if isinstance(error, Throttled))
    finishes = Counter(result.finish for result in results if isinstance(result, Parsed))
    assert finishes["refusal"] > 10
    assert finishes["length"] > 10


async def test_a_failure_follows_from_the_key_and_the_attempt() -> None:
    first, second = RehearsalProvider(FAULTY), RehearsalProvider(FAULTY)
    calls = [call("Hello", number=n) for n in range(300)]
    outcomes = [[repr(await attempt(provider, this, 1)) for this in calls] for provider in (first, second)]
    assert outcomes[0] == outcomes[1]
    failed = [this for this in calls if isinstance(await attempt(first, this, 1), CallError)]
    again = [this for this in failed if isinstance(await attempt(first, this, 2), CallError)]
    assert 0 < len(again) < len(failed)
    overloaded = [
        await attempt(first, call("Hello", number=n, model="anthropic/claude-opus-4-5"), 1)
        for n in range(300)
    ]
    assert 529 in {error.status for error in overloaded if isinstance(error, CallError)}


async def test_speed_none_does_not_wait_and_a_speed_waits_on_the_clock() -> None:
    clock = ManualClock(auto=True)
    still = RehearsalProvider(clock=clock)
    raw = await still.send(call("Hello"), b"", attempt=1, timeout_s=60)
    assert clock.monotonic() == 0
    assert raw.latency_s > 0
    fast = RehearsalProvider(Rehearsal(speed=10), clock=clock)
    await fast.send(call("Hello"), b"", attempt=1, timeout_s=60)
    assert clock.monotonic() == pytest.approx(raw.latency_s / 10, abs=0.001)
    with pytest.raises(CallTimedOut):
        await fast.send(call("Hello"), b"", attempt=1, timeout_s=0.01)


def test_the_body_is_spelled_by_the_real_adapter_when_there_is_one() -> None:
    assert (
        RehearsalProvider(spell=lambda this: b"spelled " + this.address.encode()).prepare(call("x"))
        == b"spelled 0"
    )
