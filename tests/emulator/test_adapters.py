"""The provider contract, on every adapter, with the emulator as the far end: both sides of the wire mean the same."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from trialrun.core import pricing
from trialrun.core.ports import Provider
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.gemini import Gemini
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses
from trialrun.providers.prices import GenaiPrices
from trialrun.providers.vertex import StaticToken, Vertex
from trialrun.testing.emulator import Emulator
from trialrun.testing.provider_contract import SCHEMA, BadReply, Fault, ProviderContract, call

FAULTS: Mapping[Fault, dict[str, Any]] = {
    "throttled in seconds": {"fault": "throttled", "wait_s": 7, "wait_as": "seconds"},
    "throttled until a date": {"fault": "throttled", "wait_s": 30, "wait_as": "date"},
    "throttled without a word": {"fault": "throttled"},
    "internal error": {"fault": "broken"},
    "overloaded": {"fault": "overloaded", "status": 529},
    "gateway time-out": {"fault": "gateway_timeout"},
    "dropped before the request was read": {"fault": "dropped_before"},
    "dropped after the request was read": {"fault": "dropped_after"},
    "truncated body": {"fault": "truncated"},
    "silence": {"fault": "silence", "seconds": 30},
    "slow body": {"fault": "slow_body", "seconds": 30},
    "bad key": {"fault": "revoked"},
    "forbidden": {"fault": "forbidden"},
    "bad request": {"fault": "refused"},
    "unknown model": {"fault": "unknown_model"},
    "redirect": {"fault": "redirect"},
    "quota": {"fault": "quota"},
}
BAD_REPLIES: Mapping[BadReply, dict[str, Any]] = {
    "malformed JSON": {"fault": "malformed"},
    "wrong content type": {"fault": "wrong_type"},
    "no choices": {"fault": "empty"},
    "cut JSON": {"fault": "length"},
}


class EmulatedContract(ProviderContract, ABC):
    key: ClassVar[str] = "sk-contract-0123456789abcdef"
    faults: ClassVar[tuple[Fault, ...]] = tuple(FAULTS)
    bad_replies: ClassVar[tuple[BadReply, ...]] = tuple(BAD_REPLIES)

    @abstractmethod
    def adapter(self, server: Emulator) -> Provider: ...

    @asynccontextmanager
    async def provider(self) -> AsyncGenerator[Provider, None]:
        async with self._at({"resamples": False}) as provider:
            yield provider

    async def test_what_is_metered_is_what_the_book_says(self) -> None:
        # The second time, a long beginning is known; then a reply is cut, declined, structured.
        long = "Tell me about the wedding. " * 300
        calls = [
            call(long, model=self.model),
            call(f"{long} And the funeral?", model=self.model),
            call("Short.", model=self.model, max_tokens=40),
            call("Yes or no?", model=self.model, schema=SCHEMA, max_tokens=900),
        ]
        async with self._at({"faults": [{"fault": "refusal", "nth": [1]}]}) as provider:
            for this in [call("No.", model=self.model), *calls]:
                raw = await provider.send(this, provider.prepare(this), attempt=1, timeout_s=20)
                usage = provider.meter(raw)
                assert usage == self._server.book.entries[-1].usage
                assert usage
                assert usage.tokens_out <= this.request.max_tokens
                price = GenaiPrices().price_of(self.model)
                assert price
                assert pricing.cost_usd(usage, price) == self._server.book.entries[-1].cost_usd
                parsed = provider.parse(raw, this.request)
                assert parsed.text or parsed.finish == "refusal"

    @asynccontextmanager
    async def faulty(self, fault: Fault | BadReply) -> AsyncGenerator[Provider, None]:
        rule = {**FAULTS, **BAD_REPLIES}[fault]
        async with self._at({"faults": [rule]}) as provider:
            yield provider

    @asynccontextmanager
    async def _at(self, script: dict[str, object]) -> AsyncGenerator[Provider, None]:
        async with Emulator(script) as self._server:
            provider = self.adapter(self._server)
            try:
                yield provider
            finally:
                await provider.close()
        assert self.key.encode() not in self._server.book.lines()

    def requests_seen(self) -> int | None:
        return self._server.book.arrived


class TestOpenAIChat(EmulatedContract):
    def adapter(self, server: Emulator) -> Provider:
        return OpenAIChat("openai", base_url=server.base_url("openai"), key=self.key, dialect=OPENAI)


class TestOpenAIResponses(EmulatedContract):
    def adapter(self, server: Emulator) -> Provider:
        return OpenAIResponses("openai-responses", base_url=server.base_url("openai"), key=self.key)


class TestAnthropic(EmulatedContract):
    model: ClassVar[str] = "anthropic/claude-haiku-4-5"

    def adapter(self, server: Emulator) -> Provider:
        return Anthropic("anthropic", base_url=f"{server.base_url('anthropic')}/v1", key=self.key)


class TestGemini(EmulatedContract):
    model: ClassVar[str] = "google/gemini-2.5-flash"

    def adapter(self, server: Emulator) -> Provider:
        return Gemini("google", base_url=f"{server.base_url('gemini')}/v1", key=self.key)


class TestVertex(EmulatedContract):
    model: ClassVar[str] = "vertex/gemini-2.5-flash"

    def adapter(self, server: Emulator) -> Provider:
        return Vertex(
            "vertex", project="lab", base_url=f"{server.base_url('vertex')}/v1", tokens=StaticToken(self.key)
        )
