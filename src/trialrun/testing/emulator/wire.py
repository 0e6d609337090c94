"""How a reply travels, or gets lost: whole, slowly, in part, spoiled, or not at all.

W1. `reached` is true only if the whole of an unspoiled reply was handed to a connection that was still open.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from trialrun.core.ports import Clock
from trialrun.testing.emulator.asked import Sent
from trialrun.testing.emulator.script import Rule

_PIECES = 20
_FILE_PIECE = 1 << 18


class Delivery:
    """One request's way back."""

    def __init__(self, request: web.BaseRequest, clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self.status: int | None = None
        self.reached = False

    async def whole(self, sent: Sent) -> web.StreamResponse:
        """Send it as it should be."""
        response = web.Response(status=sent.status, body=sent.body, headers=_headers(sent.headers))
        self.status = sent.status
        try:
            await response.prepare(self._request)
            await response.write_eof()
        except ConnectionError:
            return response
        transport = self._request.transport
        self.reached = transport is not None and not transport.is_closing()
        return response

    async def spoiled(self, sent: Sent, rule: Rule) -> web.StreamResponse:
        """Send it as the rule wants it."""
        match rule.fault:
            case "truncated":
                return await self._partly(sent, rule.keep)
            case "slow_body":
                return await self._slowly(sent, rule.seconds)
            case "malformed":
                cut = Sent(
                    status=sent.status,
                    body=sent.body[: int(len(sent.body) * rule.keep)],
                    headers=sent.headers,
                )
                return await self._unread(cut)
            case "wrong_type":
                page = b"<html><body>Please accept the terms of this network.</body></html>"
                return await self._unread(
                    Sent(status=200, body=page, headers={**sent.headers, "content-type": "text/html"})
                )
            case "silence":
                await self._clock.sleep(rule.seconds)
                return self.drop()
            case _:
                return self.drop()

    async def file(
        self,
        path: Path,
        headers: Mapping[str, str],
        rule: Rule | None,
        *,
        part: tuple[int, int] | None = None,
    ) -> web.StreamResponse:
        """Send a file or a part of it, a piece at a time; spoiled if a rule says so."""
        fault = rule.fault if rule else ""
        if rule is not None and fault not in ("truncated", "malformed", "slow_body"):
            return await self.spoiled(Sent(status=200, body=b"", headers=dict(headers)), rule)
        whole = await asyncio.to_thread(lambda: path.stat().st_size)
        begin, end = part or (0, whole)
        size = end - begin
        wanted = int(size * rule.keep) if rule and fault != "slow_body" else size
        self.status = 200 if part is None else 206
        response = web.StreamResponse(status=self.status, headers=_headers(headers))
        response.content_length = wanted if fault == "malformed" else size
        if part is not None:
            response.headers["content-range"] = f"bytes {begin}-{end - 1}/{whole}"
        try:
            await response.prepare(self._request)
            with path.open("rb") as file:
                file.seek(begin)
                for start in range(0, wanted, _FILE_PIECE):
                    await response.write(file.read(min(_FILE_PIECE, wanted - start)))
            if fault == "truncated" and self._request.transport is not None:
                self._request.transport.close()
                return response
            if rule is not None and fault == "slow_body":
                await self._clock.sleep(rule.seconds)
            await response.write_eof()
        except ConnectionError:
            return response
        transport = self._request.transport
        self.reached = fault != "malformed" and transport is not None and not transport.is_closing()
        return response

    def drop(self) -> web.StreamResponse:
        """End the connection without a word."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return web.Response()

    async def _unread(self, sent: Sent) -> web.StreamResponse:
        response = await self.whole(sent)
        self.reached = False
        return response

    async def _partly(self, sent: Sent, keep: float) -> web.StreamResponse:
        response = await self._begun(sent)
        try:
            await response.write(sent.body[: int(len(sent.body) * keep)])
        except ConnectionError:
            return response
        if self._request.transport is not None:
            # Not `abort`: what was sent shall arrive.
            self._request.transport.close()
        return response

    async def _slowly(self, sent: Sent, seconds: float) -> web.StreamResponse:
        response = await self._begun(sent)
        size = max(1, -(-len(sent.body) // _PIECES))
        try:
            for start in range(0, len(sent.body), size):
                await self._clock.sleep(seconds / _PIECES)
                await response.write(sent.body[start : start + size])
            await response.write_eof()
        except ConnectionError:
            return response
        transport = self._request.transport
        self.reached = transport is not None and not transport.is_closing()
        return response

    async def _begun(self, sent: Sent) -> web.StreamResponse:
        response = web.StreamResponse(status=sent.status, headers=_headers(sent.headers))
        response.content_length = len(sent.body)
        self.status = sent.status
        await response.prepare(self._request)
        return response


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {"content-type": "application/json", **headers}


class RealClock:
    """Time as it passes."""

    def now(self) -> float:
        import time

        return time.time()

    def monotonic(self) -> float:
        import time

        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
