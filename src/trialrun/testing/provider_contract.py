"""The contract suite of `core.ports.Provider`: subclass it, give a `provider`, and every rule of the port is tested.

P1. `prepare` is pure: the same call gives the same bytes, another request other bytes.
P2. `send` is one attempt; many may run side by side, and each gets its own reply.
P3. `meter` and `parse` are pure, and never raise anything but ReplyUnreadable, whatever the bytes are.
P4. What is metered fits under the ceiling that the gateway holds.
P5. A failure is one of ours, and says "no" about billing only if that is sure. A cancelled send is cancelled.
P6. No key is in a repr, a body, a reply or an error.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import pytest

from trialrun.core import chance, pricing
from trialrun.core.calls import Call, Message, RawReply, Request
from trialrun.core.errors import (
    AuthRefused,
    Billing,
    CallError,
    CallTimedOut,
    QuotaExhausted,
    ReplyUnreadable,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.core.ports import Provider

Fault = Literal[
    "throttled in seconds",
    "throttled until a date",
    "throttled without a word",
    "internal error",
    "overloaded",
    "gateway time-out",
    "no connection",
    "dropped before the request was read",
    "dropped after the request was read",
    "truncated body",
    "silence",
    "slow body",
    "bad key",
    "forbidden",
    "bad request",
    "unknown model",
    "redirect",
    "quota",
]
BadReply = Literal["malformed JSON", "wrong content type", "no choices", "cut JSON"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a fault becomes. `billed` is None where the error says it by its kind."""

    error: type[TrialrunError]
    billed: Billing | None = None
    status: int | None = None
    retry_after_s: tuple[float, float] | None = None
    """Between these; None where nothing is asked for."""


EXPECTED: Mapping[Fault, Expected] = {
    "throttled in seconds": Expected(error=Throttled, billed="no", status=429, retry_after_s=(7, 7)),
    "throttled until a date": Expected(error=Throttled, billed="no", status=429, retry_after_s=(25, 31)),
    "throttled without a word": Expected(error=Throttled, billed="no", status=429),
    "internal error": Expected(error=Unavailable, billed="no", status=500),
    "overloaded": Expected(error=Unavailable, billed="no", status=529),
    "gateway time-out": Expected(error=Unavailable, billed="unknown", status=504),
    "no connection": Expected(error=Unavailable, billed="no"),
    "dropped before the request was read": Expected(error=Unavailable, billed="unknown"),
    "dropped after the request was read": Expected(error=Unavailable, billed="unknown"),
    "truncated body": Expected(error=Unavailable, billed="unknown"),
    "silence": Expected(error=CallTimedOut, billed="unknown"),
    "slow body": Expected(error=CallTimedOut, billed="unknown"),
    "bad key": Expected(error=AuthRefused),
    "forbidden": Expected(error=AuthRefused),
    "bad request": Expected(error=RequestRefused, billed="no", status=400),
    "unknown model": Expected(error=RequestRefused, billed="no", status=404),
    "redirect": Expected(error=RequestRefused, billed="no", status=302),
    "quota": Expected(error=QuotaExhausted),
}
GARBAGE = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"3",
    b'"text"',
    b"<html>502</html>",
    b"\xff\xfe",
    b'{"choices": 3}',
    b"{" * 5000,
)
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"label": {"enum": ["yes", "no"]}, "reason": {"type": "string"}},
    "required": ["label", "reason"],
    "additionalProperties": False,
}


def call(
    text: str = "How was the wedding?",
    *,
    number: int = 0,
    model: str,
    schema: dict[str, object] | None = None,
    max_tokens: int = 400,
) -> Call:
    """A call of a conversation, at an address of its own."""
    messages = (
        Message("system", "You are a client. Answer in character."),
        Message("user", "Hello."),
        Message("assistant", "Hello, I nearly did not come."),
        Message("user", text),
    )
    request = Request(model=model, messages=messages, max_tokens=max_tokens, temperature=0.7, schema=schema)
    return Call(
        trial="warm-abc-r0",
        condition="warm-abc",
        address=str(number),
        party="client",
        purpose="",
        turn=1,
        request=request,
        key=chance.derive(b"contract", number),
    )


class ProviderContract(ABC):
    """Subclass as `class TestMine(ProviderContract)` and give `provider`, a context manager for one that answers well.

    Where faults can be made to happen, give `faulty` too: a provider whose far end does this to every request.
    """

    model: ClassVar[str] = "openai/gpt-4.1-mini"
    key: ClassVar[str] = ""
    """The key that the provider was given, to look for where it must not be."""

    @abstractmethod
    def provider(self) -> AbstractAsyncContextManager[Provider]: ...

    @abstractmethod
    def faulty(self, fault: Fault | BadReply) -> AbstractAsyncContextManager[Provider]: ...

    faults: ClassVar[tuple[Fault, ...]] = ()
    bad_replies: ClassVar[tuple[BadReply, ...]] = ()

    def requests_seen(self) -> int | None:
        """How many requests reached the far end of the last provider; None where nobody counts."""
        return None

    @pytest.fixture
    async def answering(self) -> AsyncGenerator[Provider, None]:
        async with self.provider() as provider:
            yield provider

    async def reply(self, provider: Provider, this: Call, *, timeout_s: float = 20.0) -> RawReply:
        return await provider.send(this, provider.prepare(this), attempt=1, timeout_s=timeout_s)

    async def test_p1_the_same_call_gives_the_same_bytes_and_another_request_others(
        self, answering: Provider
    ) -> None:
        one, again = call(model=self.model), call(model=self.model)
        other = call("And how was the funeral?", model=self.model)
        assert answering.prepare(one) == answering.prepare(again)
        assert answering.prepare(one) != answering.prepare(other)

    async def test_p2_a_call_is_answered_read_and_metered_under_its_ceiling(
        self, answering: Provider
    ) -> None:
        this = call(model=self.model)
        raw = await self.reply(answering, this)
        parsed, usage = answering.parse(raw, this.request), answering.meter(raw)
        assert parsed.text
        assert parsed.finish in ("stop", "length")
        assert parsed.data is None
        assert parsed.model
        assert raw.latency_s >= 0
        assert usage is not None
        assert 0 < usage.tokens_in <= pricing.most_tokens_in(this.request)
        assert 0 < usage.tokens_out <= this.request.max_tokens
        assert usage.tokens_cached <= usage.tokens_in
        assert usage.tokens_reasoning <= usage.tokens_out

    async def test_p2_side_by_side_each_call_gets_its_own_reply(self, answering: Provider) -> None:
        calls = [call(f"What about number {n}?", number=n, model=self.model) for n in range(24)]
        alone = [answering.parse(await self.reply(answering, this), this.request).text for this in calls]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.reply(answering, this)) for this in calls]
        together = [
            answering.parse(task.result(), this.request).text for task, this in zip(tasks, calls, strict=True)
        ]
        assert together == alone
        assert len(set(alone)) == len(alone)

    async def test_p2_a_schema_brings_data(self, answering: Provider) -> None:
        this = call(model=self.model, schema=SCHEMA)
        parsed = answering.parse(await self.reply(answering, this), this.request)
        data = cast("dict[str, object]", parsed.data)
        assert data["label"] in ("yes", "no")
        assert isinstance(data["reason"], str)

    async def test_p3_reading_changes_nothing(self, answering: Provider) -> None:
        this = call(model=self.model)
        raw = await self.reply(answering, this)
        assert answering.meter(raw) == answering.meter(raw)
        assert answering.parse(raw, this.request) == answering.parse(raw, this.request)

    async def test_p3_no_bytes_raise_anything_but_reply_unreadable(self, answering: Provider) -> None:
        this = call(model=self.model)
        whole = (await self.reply(answering, this)).body
        cuts = [whole[:end] for end in range(0, len(whole), max(1, len(whole) // 60))]
        for body in (*GARBAGE, *cuts):
            raw = RawReply(body=body)
            answering.meter(raw)
            with pytest.raises(ReplyUnreadable):
                answering.parse(raw, this.request)

    async def test_p5_a_cancelled_send_is_cancelled(self, answering: Provider) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.reply(answering, call(model=self.model)))
            await asyncio.sleep(0)
            task.cancel()
        assert task.done()
        assert task.cancelled() or task.result()
        # The provider is as good as before.
        assert await self.reply(answering, call(number=1, model=self.model))

    async def test_p5_faults_become_our_errors_with_one_request_each(self) -> None:
        for fault in self.faults:
            async with self.faulty(fault) as provider:
                timeout_s = 0.4 if fault in ("silence", "slow body") else 20.0
                await self._one_fault(provider, fault, timeout_s)

    async def _one_fault(self, provider: Provider, fault: Fault, timeout_s: float) -> None:
        expected = EXPECTED[fault]
        with pytest.raises(TrialrunError) as caught:
            await self.reply(provider, call(model=self.model), timeout_s=timeout_s)
        error = caught.value
        assert type(error) is expected.error, (fault, error)
        if isinstance(error, CallError):
            assert error.billed == expected.billed, fault
            assert error.status == expected.status, fault
        if isinstance(error, Throttled | Unavailable):
            _check_wait(fault, error.retry_after_s, expected.retry_after_s)
        seen = self.requests_seen()
        assert seen in (None, 0 if fault == "no connection" else 1), (fault, "hidden retries")
        self._check_no_key(f"{error!r} {error} {error.report()} {error.__cause__!r}")

    async def test_p5_a_reply_that_cannot_be_read_is_a_reply(self) -> None:
        for bad in self.bad_replies:
            async with self.faulty(bad) as provider:
                this = call(model=self.model, schema=SCHEMA)
                raw = await self.reply(provider, this)
                provider.meter(raw)
                with pytest.raises(ReplyUnreadable) as caught:
                    provider.parse(raw, this.request)
                self._check_no_key(f"{caught.value} {caught.value.fix}")

    async def test_p6_no_key_is_where_it_can_be_read(self, answering: Provider) -> None:
        this = call(model=self.model)
        raw = await self.reply(answering, this)
        for text in (repr(answering), repr(vars(answering)), repr(answering.prepare(this)), repr(raw)):
            self._check_no_key(text)

    async def test_closing_twice_is_closing_once(self) -> None:
        async with self.provider() as provider:
            await self.reply(provider, call(model=self.model))
            await provider.close()
            await provider.close()

    def _check_no_key(self, text: str) -> None:
        assert not self.key or self.key not in text


def _check_wait(fault: Fault, asked: float | None, expected: tuple[float, float] | None) -> None:
    if expected is None:
        assert asked is None, fault
    else:
        assert asked is not None, fault
        assert expected[0] <= asked <= expected[1], fault
