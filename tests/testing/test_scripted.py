"""The scripted provider: what it answers, records, and throttles."""

import asyncio

import pytest

from trialrun.core.calls import Call, Message, Parsed, RawReply, Request
from trialrun.core.errors import CallTimedOut, ReplyUnreadable, Throttled, Unavailable
from trialrun.testing.clock import ManualClock
from trialrun.testing.scripted import Answer, Scripted


def call(text: str = "hello", *, schema: dict[str, object] | None = None) -> Call:
    request = Request(model="scripted/x", messages=(Message("user", text),), max_tokens=100, schema=schema)
    return Call(
        trial="t", condition="c", address="1", party="p", purpose="", turn=1, request=request, key=b"k" * 32
    )


async def ask(provider: Scripted, this: Call, *, attempt: int = 1, timeout_s: float = 60.0) -> Parsed:
    raw = await provider.send(this, provider.prepare(this), attempt=attempt, timeout_s=timeout_s)
    return provider.parse(raw, this.request)


async def test_a_function_sees_the_call_and_a_list_is_taken_in_order():
    echo = Scripted(lambda this: this.request.messages[-1].text.upper())
    assert (await ask(echo, call("hello"))).text == "HELLO"
    listed = Scripted(["one", Unavailable("down"), Parsed(text="three", finish="length")])
    assert (await ask(listed, call())).text == "one"
    with pytest.raises(Unavailable):
        await ask(listed, call(), attempt=2)
    assert (await ask(listed, call(), attempt=3)).finish == "length"
    assert [sent.attempt for sent in listed.sent] == [1, 2, 3]
    assert [sent.attempt for sent in listed.answered] == [1, 3]
    with pytest.raises(AssertionError, match="no answer left"):
        await ask(listed, call())


async def test_structured_text_is_read_and_bad_bytes_are_unreadable_and_unmetered():
    provider = Scripted(['{"score": 4}', "not json", RawReply(body=b"<html>")])
    schema: dict[str, object] = {"type": "object"}
    assert (await ask(provider, call(schema=schema))).data == {"score": 4}
    for _ in range(2):
        with pytest.raises(ReplyUnreadable):
            await ask(provider, call(schema=schema))
    assert provider.meter(RawReply(body=b"<html>")) is None


async def test_delays_pass_on_the_clock_and_longer_than_the_time_out_nobody_answers():
    clock = ManualClock(auto=True)
    provider = Scripted("late", clock=clock, delay_s=90)
    assert (await ask(provider, call(), timeout_s=100)).text == "late"
    with pytest.raises(CallTimedOut):
        await ask(provider, call(), timeout_s=30)
    assert clock.monotonic() == 120
    assert len(provider.answered) == 1


async def test_calls_above_the_limits_are_throttled():
    clock = ManualClock(auto=True)
    provider = Scripted("ok", clock=clock, delay_s=1, in_flight_limit=2, per_minute_limit=3)

    async def attempt() -> Answer:
        try:
            return await ask(provider, call())
        except Throttled as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(attempt()) for _ in range(3)]
    assert [isinstance(task.result(), Throttled) for task in tasks] == [False, False, True]
    assert isinstance(await attempt(), Parsed)
    limited = await attempt()
    assert isinstance(limited, Throttled)
    assert limited.retry_after_s == pytest.approx(58)
    assert provider.most_in_flight == 2
