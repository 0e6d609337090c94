"""A small server on loopback that speaks one protocol and misbehaves on demand: the far end of the adapter tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
from aiohttp import web

from tests.contracts.wires import ANSWER, CHAT, CUT, STRUCTURED, Wire
from trialrun.testing.provider_contract import BadReply, Fault


class ChatServer:
    """Answers each request from its last message, or does the same wrong thing to all of them."""

    def __init__(self, fault: Fault | BadReply | None = None, *, wire: Wire = CHAT) -> None:
        self.fault: Fault | BadReply | None = fault
        self.wire = wire
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.urls: list[str] = []
        self.connections = 0
        self.base_url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.bodies.append(msgspec.json.decode(raw))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.urls.append(str(request.url))
        key = _key_in(request)
        problem = self._problem
        match self.fault:
            case None:
                return web.json_response(self._reply(), headers=dict(self.wire.headers))
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
                return web.json_response({"error": {"message": "upstream failed"}})
            case "cut JSON":
                return web.json_response(self.wire.reply(self.bodies[-1], CUT, True))
            case "no connection" | "dropped before the request was read":
                raise AssertionError("these never come here")

    def _reply(self) -> dict[str, Any]:
        body = self.bodies[-1]
        text = STRUCTURED if self.wire.wants_data(body) else ANSWER + self.wire.asked(body)
        return self.wire.reply(body, text, False)

    def _problem(
        self,
        status: int,
        code: str,
        *,
        message: str = "something is wrong",
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        body = self.wire.problem(status, self.wire.codes.get(code, code), message)
        return web.json_response(body, status=status, headers=headers)

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
        app.router.add_post(self.wire.path, self.answer)
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


def _key_in(request: web.Request) -> str:
    """The key of a request, in whichever header the protocol puts it."""
    names = ("x-api-key", "x-goog-api-key", "Authorization")
    return next((request.headers[name] for name in names if name in request.headers), "").removeprefix(
        "Bearer "
    )
