"""A server on loopback that writes down what is asked about batches, and answers as a test tells it to."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from trialrun.core import chance
from trialrun.core.batches import BatchRoute, Look, PackFile, Result
from trialrun.core.calls import Call, Message, Request

KEY = "sk-batches-0123456789abcdef"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class BatchFarEnd:
    """Answers with what is under `METHOD path`, without the query; a callable is given the request."""

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    seen: list[Seen] = field(default_factory=list[Seen])
    url: str = ""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        self.seen.append(Seen(method=request.method, path=request.path_qs, headers=headers, body=body))
        answer = self.answers.get(f"{request.method} {request.path}")
        if callable(answer):
            answer = answer(self.seen[-1])
        if asyncio.iscoroutine(answer):
            answer = await answer
        match answer:
            case None:
                return web.json_response({"error": {"message": "no such thing"}}, status=404)
            case web.StreamResponse():
                return answer
            case bytes():
                return web.Response(body=answer)
            case int():
                return web.json_response({"error": {"message": "broken"}}, status=answer)
            case _:
                return web.json_response(answer, dumps=lambda data: msgspec.json.encode(data).decode())

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["BatchFarEnd", None]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


def call(number: int = 0, *, model: str, text: str = "How was the wedding?", **settings: Any) -> Call:
    """A call of its own for each number."""
    messages = (Message("system", "Be brief."), Message("user", f"{text} ({number})"))
    values: dict[str, Any] = {"max_tokens": 100, **settings}
    return Call(
        trial=f"warm-abc-r{number}",
        condition="warm-abc",
        address="1",
        party="client",
        purpose="",
        turn=1,
        request=Request(model=model, messages=messages, **values),
        key=chance.derive(b"batches", number),
    )


def pack_of(route: BatchRoute, folder: Path, *, calls: int = 3, make: Callable[[int], Call]) -> PackFile:
    """A sealed pack of so many calls."""
    made = [make(number) for number in range(calls)]
    content = b"".join(
        route.line(f"{this.trial}-c1-sabcde", route.provider.prepare(this), this) for this in made
    )
    path = folder / "requests.jsonl"
    path.write_bytes(content)
    return PackFile(
        id="pack0123456789", model=made[0].request.model, path=path, requests=calls, size_bytes=len(content)
    )


async def lines_of(route: BatchRoute, batch: str, look: Look) -> list[bytes]:
    """All lines of all results."""
    found: list[bytes] = []
    for result in look.results:
        content = b"".join([chunk async for chunk in route.fetch(batch, result)])
        found += content.splitlines()
    return found


async def results_of(route: BatchRoute, batch: str, look: Look) -> list[Result]:
    return [route.read(line) for line in await lines_of(route, batch, look)]
