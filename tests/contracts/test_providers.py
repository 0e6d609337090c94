"""The provider contract, on every provider: the rehearsal, the scripted one, and each protocol over real HTTP."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import ClassVar, get_args

from tests.contracts.chat_server import ChatServer
from tests.contracts.wires import ANTHROPIC, CHAT, GEMINI, RESPONSES, Wire
from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import (
    AuthRefused,
    CallTimedOut,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    Unavailable,
)
from trialrun.core.ports import Provider
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.gemini import Gemini
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses
from trialrun.providers.rehearsal import RehearsalProvider
from trialrun.providers.vertex import StaticToken, Vertex
from trialrun.testing.provider_contract import EXPECTED, BadReply, Fault, ProviderContract
from trialrun.testing.scripted import Answer, Scripted


class TestRehearsal(ProviderContract):
    @asynccontextmanager
    async def provider(self) -> AsyncGenerator[Provider, None]:
        provider = RehearsalProvider()
        yield provider
        await provider.close()


class TestRehearsalOfAReasoningModel(TestRehearsal):
    model: ClassVar[str] = "openai/gpt-5-mini"


class TestScripted(ProviderContract):
    faults: ClassVar[tuple[Fault, ...]] = get_args(Fault)
    bad_replies: ClassVar[tuple[BadReply, ...]] = get_args(BadReply)

    @asynccontextmanager
    async def provider(self) -> AsyncGenerator[Provider, None]:
        yield Scripted(self._answer)

    @asynccontextmanager
    async def faulty(self, fault: Fault | BadReply) -> AsyncGenerator[Provider, None]:
        expected = EXPECTED.get(fault)  # pyright: ignore[reportArgumentType]  # a bad reply is no fault
        if expected is None:
            yield Scripted([RawReply(body=b"{"), RawReply(body=b"{")])
            return
        wait = expected.retry_after_s[0] if expected.retry_after_s else None
        error: Exception
        match expected.error.__name__:
            case "Throttled":
                error = Throttled("busy", retry_after_s=wait)
            case "Unavailable":
                error = Unavailable("down", billed=expected.billed or "no", status=expected.status)
            case "CallTimedOut":
                error = CallTimedOut("late")
            case "RequestRefused":
                error = RequestRefused("wrong", status=expected.status)
            case "AuthRefused":
                error = AuthRefused("key")
            case _:
                error = QuotaExhausted("quota")
        yield Scripted([error])

    def _answer(self, this: Call) -> Answer:
        if this.request.schema:
            return '{"label": "no", "reason": "Nothing was said."}'
        return f"You said: {this.request.messages[-1].text}"


class HttpContract(ProviderContract, ABC):
    """An adapter against a server that speaks its protocol and misbehaves as told."""

    key: ClassVar[str] = "sk-contract-0123456789abcdef"
    wire: ClassVar[Wire] = CHAT
    faults: ClassVar[tuple[Fault, ...]] = get_args(Fault)
    bad_replies: ClassVar[tuple[BadReply, ...]] = get_args(BadReply)

    @abstractmethod
    def adapter(self, base_url: str) -> Provider: ...

    @asynccontextmanager
    async def provider(self) -> AsyncGenerator[Provider, None]:
        async with self._at(ChatServer(wire=self.wire)) as provider:
            yield provider

    @asynccontextmanager
    async def faulty(self, fault: Fault | BadReply) -> AsyncGenerator[Provider, None]:
        async with self._at(ChatServer(fault, wire=self.wire)) as provider:
            yield provider

    @asynccontextmanager
    async def _at(self, server: ChatServer) -> AsyncGenerator[Provider, None]:
        self._server = server
        async with server.running():
            provider = self.adapter(server.base_url)
            try:
                yield provider
            finally:
                await provider.close()
        assert not any(self.key in url for url in server.urls), "the key was in an address"

    def requests_seen(self) -> int | None:
        return len(self._server.bodies) + self._server.connections


class TestOpenAIChat(HttpContract):
    def adapter(self, base_url: str) -> Provider:
        return OpenAIChat(
            "openai", base_url=base_url, key=self.key, key_name="OPENAI_API_KEY", dialect=OPENAI
        )


class TestOpenAIResponses(HttpContract):
    wire: ClassVar[Wire] = RESPONSES

    def adapter(self, base_url: str) -> Provider:
        return OpenAIResponses("openai-responses", base_url=base_url, key=self.key)


class TestAnthropic(HttpContract):
    model: ClassVar[str] = "anthropic/claude-haiku-4-5"
    wire: ClassVar[Wire] = ANTHROPIC

    def adapter(self, base_url: str) -> Provider:
        return Anthropic("anthropic", base_url=base_url, key=self.key)


class TestGemini(HttpContract):
    model: ClassVar[str] = "google/gemini-2.5-flash"
    wire: ClassVar[Wire] = GEMINI

    def adapter(self, base_url: str) -> Provider:
        return Gemini("google", base_url=base_url, key=self.key)


class TestVertex(HttpContract):
    model: ClassVar[str] = "vertex/gemini-2.5-flash"
    wire: ClassVar[Wire] = GEMINI

    def adapter(self, base_url: str) -> Provider:
        return Vertex("vertex", base_url=base_url, project="p-1", tokens=StaticToken(self.key))
