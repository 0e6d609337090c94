"""Calls to addresses that are reached directly: a third of the CPU of a general client, and nothing to import.

A proxy, an address that holds a user, uploads and downloads are left to aiohttp. The rules are those of `http`.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from time import monotonic

from trialrun.core.errors import CallTimedOut, Unavailable
from trialrun.core.version import VERSION
from trialrun.providers.http.addresses import Target, host_of, reason_of, target_of
from trialrun.providers.http.exchange import Broken, Response
from trialrun.providers.http.pool import CONNECT_TIMEOUT_S, NoConnection, Pool

_FIT = re.compile(r"[^\x00\r\n]*")


class DirectClient:
    """A pool of connections, opened at the first request, in the event loop that uses it."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def can_reach(self, url: str) -> bool:
        """Whether this is an address for us."""
        return _known(url) is not None

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> tuple[Response, float]:
        """Send once. Returns the reply, and the seconds until it was there."""
        target = _known(url)
        if target is None:
            raise ValueError("not an address that is reached directly")
        began, is_sent, pool = monotonic(), False, self._own()
        until = asyncio.get_running_loop().time() + timeout_s
        try:
            connection = pool.take_kept(target.origin)
            if connection is None:
                # A connection that takes most of the time is given up first, so that it is known to be unbilled.
                connect_s = min(CONNECT_TIMEOUT_S, 0.9 * timeout_s)
                connection = await pool.take(target.origin, until=until, timeout_s=connect_s)
            try:
                is_sent = connection.is_open
                response = await connection.exchange(_request(target, headers, body), until=until)
            finally:
                pool.give(target.origin, connection)
        except NoConnection as error:
            raise Unavailable(f"no connection to {host_of(url)}: {error}") from error
        except TimeoutError as error:
            if not is_sent:
                raise Unavailable(f"no connection to {host_of(url)} within the time-out") from error
            raise CallTimedOut(f"no reply from {host_of(url)} in {timeout_s:g} s") from error
        except (Broken, OSError) as error:
            # The request may have arrived and run: only the reply is missing.
            what = f"the connection to {host_of(url)} was lost before the whole reply was there: {reason_of(error)}"
            raise Unavailable(what, billed="unknown" if is_sent else "no") from error
        return response, monotonic() - began

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _own(self) -> Pool:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:
            self._loop = loop
            self._pool = Pool(self._concurrency)
        return self._pool


@lru_cache(maxsize=1024)
def _known(url: str) -> Target | None:
    return target_of(url)


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n%b" % (_head(target, tuple(headers.items())), len(body), body)


@lru_cache(maxsize=64)
def _head(target: Target, headers: tuple[tuple[str, str], ...]) -> bytes:
    """What is the same for all calls to an address with one key."""
    for _, value in headers:
        if _FIT.fullmatch(value) is None:
            # Not its words: it may be a key.
            raise ValueError("a header holds a line break")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"POST {target.path} HTTP/1.1\r\nHost: {target.host}\r\nUser-Agent: trialrun/{VERSION}\r\nAccept: */*\r\n"
    return (head + lines).encode("latin-1")
