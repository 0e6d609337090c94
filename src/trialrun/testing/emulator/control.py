"""The emulator's own endpoints, beside the providers': its book, sums and batches, a new
start, another script, another time, tighter limits."""

import ipaddress
import math
from typing import Annotated, Protocol, cast

import msgspec
from aiohttp import web

from trialrun.core.errors import UsageError
from trialrun.testing.emulator.book import Book
from trialrun.testing.emulator.script import Script, script_from


class Controlled(Protocol):
    """What can be read and moved from outside: the emulator."""

    book: Book

    def reset(self) -> None: ...

    def follow(self, script: Script) -> None: ...

    def cut(self, factor: float, seconds: float = ...) -> None: ...

    def overview(self) -> dict[str, object]: ...

    async def settle(self) -> None: ...

    async def wind(self, seconds: float) -> None: ...


def add(app: web.Application, emulator: Controlled) -> None:
    """`GET /__book`, `/__stats`, `/__batches`, `/__health`, `POST /__reset`, `/__script`, `/__clock`, `/__cut`."""

    async def lines(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        await emulator.settle()
        return web.Response(body=emulator.book.lines(), content_type="application/jsonl")

    async def stats(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        await emulator.settle()
        return _json(emulator.book.stats())

    async def batches(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        await emulator.settle()
        return _json(emulator.overview())

    async def clock(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        try:
            wanted = msgspec.json.decode(await request.read(), type=_Wound)
        except msgspec.DecodeError as error:
            return _json({"error": str(error)}, status=400)
        await emulator.wind(wanted.advance_s)
        return _json({"ok": True})

    async def cut(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        try:
            wanted = msgspec.json.decode(await request.read(), type=_Cut)
            emulator.cut(wanted.factor, wanted.seconds)
        except (msgspec.DecodeError, UsageError) as error:
            return _json({"error": str(error)}, status=400)
        return _json({"ok": True})

    async def health(_: web.Request) -> web.Response:
        return _json({"ok": True})

    async def reset(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        emulator.reset()
        return _json({"ok": True})

    async def script(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        try:
            given = cast("object", msgspec.json.decode(await request.read()))
            if not isinstance(given, dict):
                raise UsageError("a script is an object")
            emulator.follow(script_from(cast("dict[str, object]", given)))
        except (msgspec.DecodeError, UsageError) as error:
            return _json({"error": str(error)}, status=400)
        return _json({"ok": True})

    app.router.add_get("/__book", lines)
    app.router.add_get("/__stats", stats)
    app.router.add_get("/__batches", batches)
    app.router.add_get("/__health", health)
    app.router.add_post("/__clock", clock)
    app.router.add_post("/__cut", cut)
    app.router.add_post("/__reset", reset)
    app.router.add_post("/__script", script)


class _Wound(msgspec.Struct, forbid_unknown_fields=True):
    advance_s: Annotated[float, msgspec.Meta(ge=0)]


class _Cut(msgspec.Struct, forbid_unknown_fields=True):
    factor: Annotated[float, msgspec.Meta(ge=0)]
    seconds: Annotated[float, msgspec.Meta(gt=0)] = math.inf


def _must_not_be_a_page(request: web.Request) -> None:
    """A page in a browser on this machine shall not read the book or change the script.

    Not even one whose own name was made to point here: what is asked for has to be an address and not a name.
    """
    is_elsewhere = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if "Origin" in request.headers or is_elsewhere or not _is_address(request.url.host or ""):
        raise web.HTTPForbidden(text="not for pages")


def _is_address(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")
