"""The contract of batch routes, on every route: the scripted one, and each protocol with the emulator."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

from trialrun.core.batches import Anchor, BatchRoute
from trialrun.core.calls import Call
from trialrun.core.errors import (
    AuthRefused,
    CallTimedOut,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    Unavailable,
)
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.batches.anthropic import AnthropicBatches
from trialrun.providers.batches.gemini import GeminiBatches
from trialrun.providers.batches.openai import OpenAIBatches
from trialrun.providers.batches.vertex import VertexBatches
from trialrun.providers.batches.xai import XaiBatches
from trialrun.providers.gemini import Gemini
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses
from trialrun.providers.vertex import StaticToken, Vertex
from trialrun.testing import scripted_batches
from trialrun.testing.batch_route_contract import BatchRouteContract, Far, Fault
from trialrun.testing.clock import ManualClock
from trialrun.testing.emulator import Emulator
from trialrun.testing.scripted import Answer, Scripted
from trialrun.testing.scripted_batches import Course, NeverRan, ScriptedRoute

COURSES: Mapping[Fault, dict[str, Any]] = {
    "out of order": {"change": scripted_batches.reverse},
    "a line twice": {"change": scripted_batches.doubled(3)},
    "a line missing": {"change": scripted_batches.missing(3)},
    "a foreign line": {"change": scripted_batches.foreign()},
    "an unreadable line": {"change": scripted_batches.garbled(3)},
    "expires in part": {"runs": 3},
    "expires in the queue": {"runs": 0},
    "refused as a whole": {"end": "failed", "problems": ("line 3: no",)},
    "a word nobody knows": {"looks": ("queued", "unknown", "running")},
    "a late cancel": {"cancel_keeps": None},
}


class TestScripted(BatchRouteContract):
    anchor: ClassVar[Anchor] = "input"
    unknown_batch: ClassVar[str] = "batch-9"

    @asynccontextmanager
    async def far(self, *faults: Fault) -> AsyncGenerator[Far, None]:
        clock = ManualClock()
        course = Course(takes_s=60.0, **(COURSES.get(faults[0], {}) if faults else {}))

        def answer(this: Call) -> Answer:
            number = int(this.request.messages[-1].text.partition("number ")[2].rstrip("?"))
            match faults, number:
                case (("lines refused",), 2):
                    return RequestRefused("wrong", status=400)
                case (("lines throttled",), 2):
                    return Throttled("busy")
                case (("every line failed",), _):
                    return Unavailable("down")
                case (("expires in the queue",), _):
                    return NeverRan("expired")
                case _:
                    return f"You said {number}."

        route = ScriptedRoute(Scripted(answer), courses=course, anchor=self.anchor, clock=clock)
        match faults:
            case ("accepted and never told",):
                route.fail("create", CallTimedOut("lost"), after=True)
            case ("lost on its way",):
                route.fail("create", CallTimedOut("lost"))
            case ("no money",):
                route.fail("create", QuotaExhausted("empty"))
            case ("polled too often",):
                route.fail("look", Throttled("slower"))
            case ("key revoked",):
                route.fail("look", AuthRefused("who?"))
            case ("download answered 502",):
                route.fail("fetch", Unavailable("502"))
            case ("download cut",):
                route.fail("fetch", Unavailable("cut"), after=True)
            case _:
                pass

        async def wind(seconds: float) -> None:
            await clock.advance(seconds)
            if faults == ("results deleted",):
                route.delete(route.batches[0].id)

        yield Far(route=route, wind=wind, made=lambda: len(route.batches))


class TestScriptedWithANameAlone(TestScripted):
    anchor: ClassVar[Anchor] = "name"


class TestScriptedWithoutAnAnchor(TestScripted):
    anchor: ClassVar[Anchor] = "none"


RULES: Mapping[Fault, dict[str, Any]] = {
    "accepted and never told": {"at": "create", "fault": "dropped_after", "times": 1},
    "lost on its way": {"at": "create", "fault": "dropped_before", "times": 1},
    "no money": {"at": "create", "fault": "quota"},
    "a line twice": {"fault": "duplicate", "nth": [3]},
    "a line missing": {"fault": "missing", "nth": [3]},
    "a foreign line": {"fault": "foreign", "nth": [3]},
    "an unreadable line": {"fault": "unreadable", "nth": [3]},
    "lines refused": {"at": "line", "fault": "refused", "nth": [2, 5]},
    "lines throttled": {"at": "line", "fault": "throttled", "nth": [2, 5]},
    "every line failed": {"at": "line", "fault": "broken"},
    "expires in part": {"fault": "expired", "keep": 0.5},
    "expires in the queue": {"fault": "stuck"},
    "refused as a whole": {"fault": "invalid"},
    "a word nobody knows": {"fault": "odd_state", "state": "pondering"},
    "a late cancel": {"fault": "late_cancel"},
    "polled too often": {"at": "look", "fault": "throttled", "wait_s": 7},
    "key revoked": {"at": "look", "fault": "revoked"},
    "download answered 502": {"at": "download", "fault": "bad_gateway", "times": 1},
    "download cut": {"at": "download", "fault": "truncated", "times": 1},
    "results deleted": {"fault": "gone", "seconds": 3},
}


class Emulated(BatchRouteContract, ABC):
    """An adapter against the emulator, whose time is wound."""

    key: ClassVar[str] = "sk-contract-0123456789abcdef"

    @abstractmethod
    def route(self, server: Emulator) -> BatchRoute: ...

    @asynccontextmanager
    async def far(self, *faults: Fault) -> AsyncGenerator[Far, None]:
        rules = [RULES[fault] for fault in faults if fault in RULES]
        script: dict[str, object] = {
            "resamples": False,
            "batches": {"validating_s": 10, "running_s": 100, "expires_s": 86_400},
            "faults": rules,
        }
        async with Emulator(script, clock=ManualClock()) as server:
            route = self.route(server)

            async def wind(seconds: float) -> None:
                await server.wind(seconds)

            def made() -> int:
                return len(cast("list[object]", server.overview()["batches"]))

            try:
                yield Far(route=route, wind=wind, made=made)
            finally:
                await route.provider.close()


class TestOpenAI(Emulated):
    def route(self, server: Emulator) -> BatchRoute:
        account = OpenAIChat("openai", base_url=server.base_url("openai"), key=self.key, dialect=OPENAI)
        return OpenAIBatches(account)


class TestOpenAIResponses(Emulated):
    model: ClassVar[str] = "openai-responses/gpt-4.1-mini"

    def route(self, server: Emulator) -> BatchRoute:
        account = OpenAIResponses("openai-responses", base_url=server.base_url("openai"), key=self.key)
        return OpenAIBatches(account, path="/v1/responses")


class TestGroq(Emulated):
    model: ClassVar[str] = "groq/llama-3.3-70b-versatile"

    def route(self, server: Emulator) -> BatchRoute:
        return OpenAIBatches(OpenAIChat("groq", base_url=server.base_url("groq"), key=self.key))


class TestXai(Emulated):
    model: ClassVar[str] = "xai/grok-4-fast"
    # It has counters and no words; and its results are pages, of which a cut one is no page.
    faults: ClassVar[tuple[Fault, ...]] = tuple(
        fault
        for fault in BatchRouteContract.faults
        if fault not in ("a word nobody knows", "an unreadable line")
    )

    def route(self, server: Emulator) -> BatchRoute:
        return XaiBatches(OpenAIChat("xai", base_url=server.base_url("xai"), key=self.key))


class TestAnthropic(Emulated):
    model: ClassVar[str] = "anthropic/claude-haiku-4-5"
    # What an upload is refused for, a create is refused for here: nothing is made.
    faults: ClassVar[tuple[Fault, ...]] = tuple(
        fault for fault in BatchRouteContract.faults if fault != "refused as a whole"
    )

    def route(self, server: Emulator) -> BatchRoute:
        base_url = f"{server.base_url('anthropic').removesuffix('/v1')}/v1"
        return AnthropicBatches(Anthropic("anthropic", base_url=base_url, key=self.key))


class TestGeminiFile(Emulated):
    model: ClassVar[str] = "google/gemini-2.5-flash"
    unknown_batch: ClassVar[str] = "batches/nobody-knows"
    inline_bytes: ClassVar[int] = 0

    def route(self, server: Emulator) -> BatchRoute:
        account = Gemini("google", base_url=f"{server.base_url('gemini')}/v1beta", key=self.key)
        return GeminiBatches(account, inline_bytes=self.inline_bytes)


class TestGeminiInline(TestGeminiFile):
    inline_bytes: ClassVar[int] = 4_000_000
    # The results come with every look at the batch: they break there, or not at all.
    faults: ClassVar[tuple[Fault, ...]] = tuple(
        fault
        for fault in BatchRouteContract.faults
        if fault not in ("an unreadable line", "download answered 502", "download cut")
    )


class TestVertex(Emulated):
    model: ClassVar[str] = "vertex/gemini-2.5-flash"
    unknown_batch: ClassVar[str] = "projects/lab/locations/global/batchPredictionJobs/7"

    def route(self, server: Emulator) -> BatchRoute:
        account = Vertex(
            "vertex", project="lab", base_url=f"{server.base_url('vertex')}/v1", tokens=StaticToken(self.key)
        )
        return VertexBatches(account, folder="gs://bucket/studies", storage_url=server.url)
