"""Which path belongs to which protocol. Endpoints for files and batches have their place here too."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from trialrun.providers.reading import tokens_in_of
from trialrun.testing.emulator.anthropic import Anthropic, count_tokens
from trialrun.testing.emulator.asked import Refusal, Stamp, Trouble
from trialrun.testing.emulator.desk import Desk
from trialrun.testing.emulator.dialect import Dialect
from trialrun.testing.emulator.google import Google
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.openai_responses import OpenAIResponses

WITH_VERSION = ("anthropic", "gemini", "google", "vertex")
"""Providers whose clients put the version of the protocol into the path by themselves."""

_CHAT, _RESPONSES, _MESSAGES = OpenAIChat(), OpenAIResponses(), Anthropic()
_GEMINI, _VERTEX = Google(), Google(is_vertex=True)
_KNOWN_MODELS = ("gpt-5-mini", "gpt-4.1-mini")
_VERTEX_PATH = "/{version:v1|v1beta1}/projects/{project}/locations/{location}/publishers/{publisher}/models"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add(app: web.Application, desk: Desk) -> None:
    """All endpoints of all providers. What matches first is taken, so the special stands before the general."""
    post = app.router.add_post

    def answers(dialect: Dialect, provider: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            info = request.match_info
            return await desk.serve(request, dialect, provider or info["provider"], info.get("model", ""))

        return handle

    for prefix in ("/openai", ""):
        post(f"{prefix}/v1/chat/completions", answers(_CHAT, "openai"))
        post(f"{prefix}/v1/responses", answers(_RESPONSES, "openai"))
    for prefix in ("/anthropic/v1", "/v1", "/anthropic"):
        post(f"{prefix}/messages", answers(_MESSAGES, "anthropic"))
        post(f"{prefix}/messages/count_tokens", _counts)
    for prefix in ("/vertex", ""):
        post(f"{prefix}{_VERTEX_PATH}/{{model}}:generateContent", answers(_VERTEX, "vertex"))
    for name in ("gemini", "google", ""):
        prefix = f"/{name}" if name else ""
        path = f"{prefix}/{{version:v1|v1beta}}/models/{{model}}:generateContent"
        post(path, answers(_GEMINI, name or "gemini"))
    app.router.add_get("/{provider:openai|anthropic|gemini|google}/v1/models", _models(desk))
    app.router.add_get("/v1/models", _models(desk))
    # Whatever else speaks chat completions: its name is the prefix.
    post("/{provider:[a-z0-9_-]+}/v1/chat/completions", answers(_CHAT, ""))
    app.router.add_get("/{provider:[a-z0-9_-]+}/v1/models", _models(desk))


def _models(desk: Desk) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        provider = request.match_info.get("provider", "") or _provider_by_key(request)
        names = [name for name in desk.script.models or _KNOWN_MODELS if "*" not in name]
        if provider == "anthropic":
            data: list[object] = [
                {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
                for name in names
            ]
            body: object = {"data": data, "has_more": False, "first_id": None, "last_id": None}
        elif provider in ("gemini", "google"):
            body = {
                "models": [
                    {"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]}
                    for name in names
                ]
            }
        else:
            listed = [{"id": name, "object": "model", "created": 1, "owned_by": "emulated"} for name in names]
            body = {"object": "list", "data": listed}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    return handle


def _provider_by_key(request: web.Request) -> str:
    if "x-goog-api-key" in request.headers:
        return "gemini"
    return "anthropic" if "x-api-key" in request.headers else "openai"


async def _counts(request: web.Request) -> web.Response:
    """Counting is free, and is not in the book."""
    body = await request.read()
    counted = msgspec.json.decode(body)
    if isinstance(counted, dict):
        counted.setdefault("max_tokens", 1)  # pyright: ignore[reportUnknownMemberType]  # any JSON
    try:
        asked = _MESSAGES.read(msgspec.json.encode(counted), provider="anthropic", model="")
    except Refusal as refusal:
        return _said(_MESSAGES, refusal.trouble)
    return web.Response(body=count_tokens(tokens_in_of(asked.request)), content_type="application/json")


async def nothing(request: web.Request) -> web.Response:
    """An unknown path, in the words of the provider that was probably meant."""
    prefix = request.path.split("/")[1]
    dialects: dict[str, Dialect] = {
        "anthropic": _MESSAGES,
        "gemini": _GEMINI,
        "google": _GEMINI,
        "vertex": _VERTEX,
    }
    return _said(dialects.get(prefix, _CHAT), Trouble(kind="unknown_path"))


def _said(dialect: Dialect, trouble: Trouble) -> web.Response:
    sent = dialect.problem(trouble, Stamp(id="0" * 32, at=0.0, model=""))
    return web.Response(
        status=sent.status, body=sent.body, headers={"content-type": "application/json", **sent.headers}
    )
