"""A server on loopback that writes down every request and gives back what it is told to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec
from aiohttp import web

Body = dict[str, Any]


class FarEnd:
    """Answers any POST with `reply`, or fails all of them the same way."""

    def __init__(self, reply: Body, *, fault: Literal["", "500", "drop"] = "") -> None:
        self.reply = reply
        self.fault = fault
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""

    async def _answer(self, request: web.Request) -> web.Response:
        self.bodies.append(msgspec.json.decode(await request.read()))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path_qs)
        if self.fault == "drop":
            assert request.transport is not None
            request.transport.abort()
        if self.fault:
            return web.json_response({"error": {"message": "broken"}}, status=500)
        return web.json_response(self.reply)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["FarEnd", None]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
            await asyncio.sleep(0)
