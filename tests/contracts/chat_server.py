"""A small chat-completions server on loopback that misbehaves on demand: the far end of the adapter tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
from aiohttp import web

from trialrun.testing.provider_contract import BadReply, Fault

ANSWER = "It was fine, you said: "


class ChatServer:
    """Answers each request from its last message, or does the same wrong thing to all of them."""

    def __init__(self, fault: Fault | BadReply | None = None) -> None:
        self.fault: Fault | BadReply | None = fault
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.base_url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.bodies.append(msgspec.json.decode(raw))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        match self.fault:
            case None:
                return web.json_response(
                    completion(self.bodies[-1]), headers={"x-request-id": "req-1", **LIMITS}
                )
            case "throttled in seconds":
                return problem(429, "rate_limit_exceeded", headers={"Retry-After": "7"})
            case "throttled until a date":
                then = datetime.now(tz=UTC) + timedelta(seconds=30)
                return problem(
                    429, "rate_limit_exceeded", headers={"Retry-After": format_datetime(then, usegmt=True)}
                )
            case "throttled without a word":
                return web.Response(status=429, text="slow down")
            case "quota":
                return problem(429, "insufficient_quota", headers={"Retry-After": "7"})
            case "internal error":
                return problem(500, "server_error")
            case "overloaded":
                return problem(529, "overloaded_error")
            case "gateway time-out":
                return web.Response(status=504, text="<html>time-out</html>", content_type="text/html")
            case "bad key":
                return problem(401, "invalid_api_key", message=f"Incorrect API key provided: {key}.")
            case "forbidden":
                return problem(403, "permission_denied")
            case "bad request":
                return problem(400, "invalid_request_error", message=f"bad body, sent with {key}")
            case "unknown model":
                return problem(404, "model_not_found")
            case "redirect":
                return web.Response(status=302, headers={"Location": str(request.url)})
            case "dropped after the request was read":
                return self._drop(request)
            case "silence":
                await asyncio.sleep(30)
                return web.Response()
            case "slow body":
                return await self._partly(request, length=None, then_s=30)
            case "truncated body":
                return await self._partly(request, length=5000, then_s=0)
            case "malformed JSON":
                return web.Response(text='{"choices": [', content_type="application/json")
            case "wrong content type":
                return web.Response(
                    text="<html>Welcome to the hotel network</html>", content_type="text/html"
                )
            case "no choices":
                return web.json_response({"error": {"message": "upstream failed", "code": 502}})
            case "cut JSON":
                return web.json_response(completion(self.bodies[-1], text='{"label": "ye', finish="length"))
            case "no connection" | "dropped before the request was read":
                raise AssertionError("these never come here")

    def _drop(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _partly(self, request: web.Request, *, length: int | None, then_s: float) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        if length is not None:
            response.content_length = length
        await response.prepare(request)
        await response.write(b'{"choices": [{"message"')
        await asyncio.sleep(then_s)
        self._drop(request)
        return response

    async def slam(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accepts a connection and closes it before anything is read."""
        self.connections += 1
        writer.transport.abort()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["ChatServer", None]:
        if self.fault == "dropped before the request was read":
            server = await asyncio.start_server(self.slam, "127.0.0.1", 0)
            self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            async with server:
                yield self
            return
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        if self.fault == "no connection":
            await site.stop()
        try:
            yield self
        finally:
            await runner.cleanup()


LIMITS = {"x-ratelimit-remaining-requests": "99"}


def completion(body: dict[str, Any], *, text: str = "", finish: str = "stop") -> dict[str, Any]:
    """A reply in OpenAI's shape, counted the way OpenAI counts."""
    said = " ".join(str(message["content"]) for message in body["messages"])
    text = text or ANSWER + str(body["messages"][-1]["content"])
    if "response_format" in body and finish == "stop":
        text = '{"label": "yes", "reason": "It was said."}'
    tokens_in, tokens_out = len(said) // 4, len(text) // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": f"{body['model']}-2025-01-01",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def problem(
    status: int, code: str, *, message: str = "something is wrong", headers: dict[str, str] | None = None
) -> web.Response:
    error = {"message": message, "type": "some_error", "code": code, "param": None}
    return web.json_response({"error": error}, status=status, headers=headers)
