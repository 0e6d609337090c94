"""The emulator's own endpoints, beside the providers': its book, its sums, a new start, another script."""

import ipaddress
from collections.abc import Callable
from typing import cast

import msgspec
from aiohttp import web

from trialrun.core.errors import UsageError
from trialrun.testing.emulator.book import Book
from trialrun.testing.emulator.script import Script, script_from


def add(
    app: web.Application, book: Book, *, begin_anew: Callable[[], None], follow: Callable[[Script], None]
) -> None:
    """`GET /__book`, `GET /__stats`, `GET /__health`, `POST /__reset`, `POST /__script`."""

    async def lines(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        return web.Response(body=book.lines(), content_type="application/jsonl")

    async def stats(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        return _json(book.stats())

    async def health(_: web.Request) -> web.Response:
        return _json({"ok": True})

    async def reset(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        begin_anew()
        return _json({"ok": True})

    async def script(request: web.Request) -> web.Response:
        _must_not_be_a_page(request)
        try:
            given = cast("object", msgspec.json.decode(await request.read()))
            if not isinstance(given, dict):
                raise UsageError("a script is an object")
            follow(script_from(cast("dict[str, object]", given)))
        except (msgspec.DecodeError, UsageError) as error:
            return _json({"error": str(error)}, status=400)
        return _json({"ok": True})

    app.router.add_get("/__book", lines)
    app.router.add_get("/__stats", stats)
    app.router.add_get("/__health", health)
    app.router.add_post("/__reset", reset)
    app.router.add_post("/__script", script)


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
