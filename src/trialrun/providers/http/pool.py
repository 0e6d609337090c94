"""Connections by address: opened when they are needed, kept while they are good, never more than so many in use.

Only for addresses that are reached directly; whatever goes through a proxy is left to a client that knows proxies.
"""

import asyncio
import ssl
from collections import deque
from functools import partial
from typing import Any

from trialrun.providers.http.addresses import Origin
from trialrun.providers.http.exchange import READ_BYTES, Connection

CONNECT_TIMEOUT_S = 15.0
IDLE_S = 4.0
"""Servers that close an idle connection do so after five seconds or later, if they do not say another time; a request
must not cross their farewell on the way."""
_CROSSING_S = 1.0
"""So long before the time that a server says its connections are left alone."""
_KNOWN_S = 300.0


class NoConnection(OSError):
    """Nothing was sent: there was no connection to send it on."""


class Pool:
    """The connections of one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._used = 0
        self._idle: dict[Origin, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._names = Names()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._tls: ssl.SSLContext | None = None

    def take_kept(self, origin: Origin) -> Connection | None:
        """A connection that is there already, if one more may be in use; without waiting for anything."""
        if self._used >= self._most or (connection := self._kept(origin)) is None:
            return None
        self._used += 1
        return connection

    async def take(self, origin: Origin, *, until: float, timeout_s: float) -> Connection:
        """A connection for one exchange, to be given back whatever becomes of it. Raises NoConnection.

        Nobody waits for it after this time of the loop, and opening a new one may take so many seconds of that.
        """
        await self._turn(until)
        try:
            return self._kept(origin) or await self._opened(origin, min(until, self._loop.time() + timeout_s))
        except BaseException:
            self._end_turn()
            raise

    def give(self, origin: Origin, connection: Connection) -> None:
        """The exchange is over; a connection that is still good is kept."""
        if connection.is_open:
            connection.idle_since = self._loop.time()
            self._idle.setdefault(origin, []).append(connection)
        self._end_turn()

    async def close(self) -> None:
        """Close all, and wait until they are."""
        for connection in self._all:
            connection.abort()
        for connection in tuple(self._all):
            await connection.closed
        self._idle.clear()

    async def _turn(self, until: float) -> None:
        """Wait until one more connection may be in use. TimeoutError at this time of the loop."""
        if self._used < self._most:
            self._used += 1
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(until):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._end_turn()
            raise

    def _end_turn(self) -> None:
        self._used -= 1
        while self._waiting and self._used < self._most:
            turn = self._waiting.popleft()
            if not turn.done():
                self._used += 1
                turn.set_result(None)

    def _kept(self, origin: Origin) -> Connection | None:
        """The connection that was used last: the others may go on growing old."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            idle_s, most_s = self._loop.time() - connection.idle_since, IDLE_S
            if connection.patience_s is not None:
                most_s = min(most_s, connection.patience_s - _CROSSING_S)
            if idle_s < most_s and connection.is_quiet:
                return connection
            connection.abort()
        return None

    async def _opened(self, origin: Origin, until: float) -> Connection:
        try:
            async with asyncio.timeout_at(until):
                return await self._connect(origin)
        except TimeoutError as error:
            raise NoConnection("none within the time-out") from error
        except OSError as error:
            raise NoConnection(str(error) or type(error).__name__) from error

    async def _connect(self, origin: Origin) -> Connection:
        """The first of the name's addresses that answers; it is tried first from then on."""
        tls: dict[str, Any] = (
            {"ssl": self._context(), "server_hostname": origin.host} if origin.is_tls else {}
        )
        trouble: OSError | None = None
        addresses = await self._names.of(origin.host, origin.port)
        for address in addresses:
            opening = self._loop.create_connection(
                partial(Connection, self._buffer), address, origin.port, **tls
            )
            try:
                if len(addresses) == 1:
                    _, connection = await opening
                else:
                    async with asyncio.timeout(CONNECT_TIMEOUT_S / len(addresses)):
                        _, connection = await opening
            except OSError as error:
                trouble = error
                continue
            self._names.prefer(origin.host, address)
            self._all.add(connection)
            connection.closed.add_done_callback(partial(_without, self._all, connection))
            return connection
        raise trouble or OSError("the name has no address")

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _without(connections: set[Connection], closed: Connection, _: object) -> None:
    connections.discard(closed)


class Names:
    """The addresses of names, asked for once for all connections that open together."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def of(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses of this moment, the one that answered last before the others."""
        loop = asyncio.get_running_loop()
        until, addresses = self._known.get(host, (0.0, ()))
        if loop.time() < until:
            return addresses
        async with self._asking.setdefault(host, asyncio.Lock()):
            until, addresses = self._known.get(host, (0.0, ()))
            if loop.time() >= until:
                found = await loop.getaddrinfo(host, port, type=1)  # SOCK_STREAM
                addresses = tuple(dict.fromkeys(str(info[4][0]) for info in found))
                self._known[host] = (loop.time() + _KNOWN_S, addresses)
            return addresses

    def prefer(self, host: str, address: str) -> None:
        """This address answered. It may be one of those that the name had before."""
        until, addresses = self._known[host]
        if address in addresses and addresses[0] != address:
            others = (other for other in addresses if other != address)
            self._known[host] = (until, (address, *others))
