"""The provider contract, on every provider: the rehearsal, the scripted one, and chat completions over real HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import ClassVar, get_args

from tests.contracts.chat_server import ChatServer
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
from trialrun.providers.openai_compatible import OPENAI, OpenAICompatible
from trialrun.providers.rehearsal import RehearsalProvider
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


class TestOpenAICompatible(ProviderContract):
    key: ClassVar[str] = "sk-contract-0123456789abcdef"
    faults: ClassVar[tuple[Fault, ...]] = get_args(Fault)
    bad_replies: ClassVar[tuple[BadReply, ...]] = get_args(BadReply)

    @asynccontextmanager
    async def provider(self) -> AsyncGenerator[Provider, None]:
        async with self._at(ChatServer()) as provider:
            yield provider

    @asynccontextmanager
    async def faulty(self, fault: Fault | BadReply) -> AsyncGenerator[Provider, None]:
        async with self._at(ChatServer(fault)) as provider:
            yield provider

    @asynccontextmanager
    async def _at(self, server: ChatServer) -> AsyncGenerator[Provider, None]:
        self._server = server
        async with server.running():
            provider = OpenAICompatible(
                "openai", base_url=server.base_url, key=self.key, key_name="OPENAI_API_KEY", dialect=OPENAI
            )
            try:
                yield provider
            finally:
                await provider.close()

    def requests_seen(self) -> int | None:
        return len(self._server.bodies) + self._server.connections
