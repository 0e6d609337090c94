"""The named servers that speak chat completions, each as its own documentation and its users' reports show it.

What a server takes, what it says when it is busy or its account is empty, and what a reply of its looks like. A request
that holds anything else is refused, in that server's own words.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec
from aiohttp import web

from tests.providers.named_replies import (
    DATA,
    TEXT,
    Body,
    deepinfra_reply,
    deepseek_reply,
    fireworks_reply,
    goodfire_reply,
    groq_reply,
    llamacpp_reply,
    lmstudio_reply,
    mistral_reply,
    ollama_reply,
    openrouter_reply,
    together_reply,
    vllm_reply,
    xai_reply,
)
from trialrun.core.calls import SeedState, Usage

COMMON = frozenset({"messages", "model", "response_format", "seed", "stop", "temperature", "tools", "top_p"})
LEGACY = COMMON | {"max_tokens"}
"""What most of them take, with the older name of the limit."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """One server."""

    name: str
    model: str
    path: str
    """Behind the host, as in the server's own base URL."""
    key: str = ""
    """The variable of its key; empty where it wants none."""
    takes: frozenset[str] = LEGACY
    refusal: tuple[int, Body]
    """Status and body for a field that it does not take; `{field}` stands for its name."""
    busy: tuple[int, Mapping[str, str], Body]
    """Status, headers and body when too much is asked at once."""
    empty: tuple[int, Body] | None = None
    """When the account has no money left; None where there is no account."""
    reply: Callable[[Body, str], Body]
    """From a request's body and the text of the answer to the body of the reply."""
    usage: Usage
    cost_usd: Decimal
    """At 1 USD a million tokens in and 4 USD out, unless the server says what it charged."""
    seed: SeedState
    extras: Mapping[str, object] = field(default_factory=dict[str, object])
    broken_off: Body | None = None
    """The choice of a reply that the server broke off in the middle, where it says so."""


def _openai_like(message: str, type_: str, code: object = None) -> Body:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def _here(
    name: str,
    model: str,
    reply: Callable[[Body, str], Body],
    *,
    usage: Usage | None = None,
    seed: SeedState = "sent",
) -> Named:
    """A server on the user's own machine: it refuses nothing that it does not know, and has no account."""
    return Named(
        name=name,
        model=model,
        path="/v1",
        reply=reply,
        refusal=(400, _openai_like("{field}", "invalid_request_error")),
        busy=(503, {}, _openai_like("Loading model", "unavailable_error", 503)),
        usage=usage or Usage(tokens_in=60, tokens_out=20),
        cost_usd=Decimal("0.00014"),
        seed=seed,
    )


PLAIN = Usage(tokens_in=60, tokens_out=20)
PLAIN_COST = Decimal("0.00014")
_TOO_FAST = _openai_like("Rate limit reached", "rate_limit_error")

SERVERS = (
    Named(
        name="openrouter",
        model="z-ai/glm-5.2",
        path="/api/v1",
        key="OPENROUTER_API_KEY",
        refusal=(400, {"error": {"message": "{field}", "code": 400}}),
        busy=(200, {}, {"error": {"message": "Provider returned error", "code": 429}, "user_id": "u"}),
        empty=(402, {"error": {"message": "This request requires more credits", "code": 402}}),
        reply=openrouter_reply,
        usage=Usage(
            tokens_in=60,
            tokens_out=20,
            tokens_cached=10,
            tokens_cache_write=5,
            tokens_reasoning=8,
            billed_usd=Decimal("0.00093215"),
        ),
        cost_usd=Decimal("0.00093215"),
        seed="sent",
        broken_off={
            "finish_reason": "error",
            "native_finish_reason": None,
            "error": {"code": 502, "message": "Upstream idle timeout exceeded"},
        },
    ),
    Named(
        name="xai",
        model="grok-4",
        path="/v1",
        key="XAI_API_KEY",
        takes=COMMON - {"stop"} | {"max_completion_tokens"},
        refusal=(
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "Argument not supported on this model: {field}",
            },
        ),
        busy=(
            429,
            {},
            {"code": "Some resource has been exhausted", "error": "Too many requests for team."},
        ),
        empty=(
            403,
            {
                "code": "The caller does not have permission to execute the specified operation",
                "error": "Your team has either used all available credits or reached its monthly spending limit.",
            },
        ),
        reply=xai_reply,
        usage=Usage(
            tokens_in=60,
            tokens_out=320,
            tokens_cached=10,
            tokens_reasoning=300,
            billed_usd=Decimal("0.0037756"),
        ),
        cost_usd=Decimal("0.0037756"),
        seed="honoured",
    ),
    Named(
        name="mistral",
        model="magistral-medium-2509",
        path="/v1",
        key="MISTRAL_API_KEY",
        takes=LEGACY - {"seed"} | {"random_seed"},
        refusal=(
            422,
            {
                "object": "error",
                "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "{field}"]}]},
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        ),
        busy=(
            429,
            {},
            {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"},
        ),
        empty=(402, {"message": "Payment required", "request_id": "r-1"}),
        reply=mistral_reply,
        usage=PLAIN,
        cost_usd=PLAIN_COST,
        seed="sent",
        broken_off={"finish_reason": "error"},
    ),
    Named(
        name="groq",
        model="openai/gpt-oss-20b",
        path="/openai/v1",
        key="GROQ_API_KEY",
        takes=COMMON | {"max_completion_tokens"},
        refusal=(400, _openai_like("property '{field}' is unsupported", "invalid_request_error")),
        busy=(
            429,
            {"retry-after": "0", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "10ms"},
            _openai_like("Rate limit reached for model", "tokens", "rate_limit_exceeded"),
        ),
        empty=(429, _openai_like("You have run out", "insufficient_quota", "insufficient_quota")),
        reply=groq_reply,
        usage=PLAIN,
        cost_usd=PLAIN_COST,
        seed="honoured",
    ),
    Named(
        name="together",
        model="meta-llama/Llama-3.3-70B-Instruct-Turbo",
        path="/v1",
        key="TOGETHER_API_KEY",
        refusal=(400, _openai_like("{field}", "invalid_request_error")),
        busy=(429, {}, _openai_like("Request rate limit exceeded", "request_rate_limit")),
        empty=(402, _openai_like("Credit limit exceeded", "credit_limit")),
        reply=together_reply,
        usage=PLAIN,
        cost_usd=PLAIN_COST,
        seed="sent",
    ),
    Named(
        name="goodfire",
        model="meta-llama/Llama-3.3-70B-Instruct",
        path="/api/inference/v1",
        key="GOODFIRE_API_KEY",
        refusal=(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "{field}"]}]}),
        busy=(429, {}, {"detail": "Too many requests"}),
        reply=goodfire_reply,
        usage=PLAIN,
        cost_usd=PLAIN_COST,
        seed="sent",
        extras={"features": [{"label": "warmth", "index": 41_637, "activation": 3.25}], "nonce": 7},
    ),
    Named(
        name="deepinfra",
        model="deepseek-ai/DeepSeek-V3",
        path="/v1/openai",
        key="DEEPINFRA_TOKEN",
        refusal=(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "{field}"]}]}),
        busy=(429, {}, {"detail": {"error": "Rate limited"}}),
        empty=(402, {"detail": {"error": "inference prohibited, please enter a payment method"}}),
        reply=deepinfra_reply,
        usage=PLAIN,
        cost_usd=PLAIN_COST,
        seed="sent",
    ),
    Named(
        name="deepseek",
        model="deepseek-reasoner",
        path="/v1",
        key="DEEPSEEK_API_KEY",
        takes=LEGACY - {"seed"},
        refusal=(400, _openai_like("{field}", "invalid_request_error")),
        busy=(429, {}, _TOO_FAST),
        empty=(402, _openai_like("Insufficient Balance", "unknown_error", "invalid_request_error")),
        reply=deepseek_reply,
        usage=Usage(tokens_in=60, tokens_out=20, tokens_cached=10, tokens_reasoning=8),
        cost_usd=PLAIN_COST,
        seed="unsupported",
        broken_off={"finish_reason": "insufficient_system_resource"},
    ),
    Named(
        name="fireworks",
        model="accounts/fireworks/models/glm-5p2",
        path="/inference/v1",
        key="FIREWORKS_API_KEY",
        refusal=(
            400,
            _openai_like("Extra inputs are not permitted, field: '{field}'", "invalid_request_error"),
        ),
        busy=(429, {}, _TOO_FAST),
        empty=(
            412,
            _openai_like(
                "Account lab is suspended, possibly due to reaching the monthly spending limit or failure to pay "
                "past invoices.",
                "error",
                "PRECONDITION_FAILED",
            ),
        ),
        reply=fireworks_reply,
        usage=Usage(tokens_in=60, tokens_out=20, tokens_cached=10),
        cost_usd=PLAIN_COST,
        seed="sent",
    ),
    _here("ollama", "gpt-oss:20b", ollama_reply),
    _here("vllm", "Qwen/Qwen3-8B", vllm_reply),
    _here(
        "llamacpp",
        "qwen3",
        llamacpp_reply,
        usage=Usage(tokens_in=60, tokens_out=20, tokens_cached=10),
        seed="honoured",
    ),
    _here("lmstudio", "qwen2.5-7b-instruct", lmstudio_reply),
)


class NamedServer:
    """One of them, on loopback. `first` says what its first request gets instead of a reply."""

    def __init__(self, named: Named, *, first: str = "") -> None:
        self.named = named
        self.first = first
        self.unfit = ""
        """What the model writes the first time that it is asked for structured output, where a server refuses that."""
        self.bodies: list[Body] = []
        self.keys: list[str | None] = []
        self.url = ""

    async def _answer(self, request: web.Request) -> web.Response:
        body: Body = msgspec.json.decode(await request.read())
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        unknown = sorted(body.keys() - self.named.takes) or self._misused(body)
        if unknown:
            status, refusal = self.named.refusal
            told = msgspec.json.encode(refusal).replace(b"{field}", unknown[0].encode())
            return web.Response(status=status, body=told, content_type="application/json")
        if len(self.bodies) == 1 and self.first:
            return self._first(body)
        if self.unfit and "response_format" in body:
            unfit, self.unfit = self.unfit, ""
            refusal = _openai_like(
                "Failed to validate JSON.", "invalid_request_error", "json_validate_failed"
            )
            refusal["error"]["failed_generation"] = unfit
            return web.json_response(refusal, status=400)
        return web.json_response(self.named.reply(body, DATA if "response_format" in body else TEXT))

    def _misused(self, body: Body) -> list[str]:
        """DeepSeek has JSON mode and no schemas, and wants the word in the prompt; the others have schemas."""
        wanted = body.get("response_format")
        if wanted is None:
            return []
        if self.named.name == "deepseek":
            is_told = "json" in str(body["messages"]).lower()
            return [] if wanted == {"type": "json_object"} and is_told else ["response_format"]
        is_whole = wanted["type"] == "json_schema" and {"name", "schema"} <= wanted["json_schema"].keys()
        return [] if is_whole else ["response_format"]

    def _first(self, body: Body) -> web.Response:
        if self.first == "busy":
            status, headers, busy = self.named.busy
            return web.json_response(busy, status=status, headers=dict(headers))
        if self.first == "empty":
            assert self.named.empty
            status, empty = self.named.empty
            return web.json_response(empty, status=status)
        assert self.named.broken_off
        reply = self.named.reply(body, "A long p")
        reply["choices"][0] |= self.named.broken_off
        return web.json_response(reply)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["NamedServer", None]:
        app = web.Application()
        app.router.add_post(self.named.path + "/chat/completions", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}{self.named.path}"
        try:
            yield self
        finally:
            await runner.cleanup()
