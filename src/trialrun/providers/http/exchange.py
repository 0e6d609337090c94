"""HTTP/1.1 on one connection: a request out, the whole reply in. Opening and keeping connections is left to `pool`.

E1. One exchange at a time, and what was written is never written again: a broken connection is told and not mended.
E2. A reply is whole or it is an error. Which of its bytes are missing does not matter: the request may have run.
E3. A connection is used again only if the reply ended where it said, the request had gone out whole, and nobody wished
    to close.
"""

import asyncio
import re
import select
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

LARGEST_BODY = 64 * 1024 * 1024
READ_BYTES = 64 * 1024
_LARGEST_HEAD = 256 * 1024
_STATUS = re.compile(r"HTTP/1\.([01]) ([0-9]{3})(?=[ \r]|$)")
_HEADER = re.compile(r"\r\n([^:\r\n]+):[ \t]*((?:[^\r]*[^\r\n \t])?)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?")
_WITHOUT_BODY = (204, 304)
_ZIPPED = ("gzip", "x-gzip", "deflate")
_PATIENCE = re.compile(r"timeout=(\d{1,6})")


class Broken(ConnectionError):
    """The reply did not come, or not as HTTP has it."""


@dataclass(frozen=True, slots=True)
class Response:
    """A reply as it came. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection(asyncio.BufferedProtocol):
    """One connection to a server, ready for the next exchange or closed.

    What arrives is read into a `buffer` that all connections of a loop share: it is taken out in the same step. An
    asyncio protocol without one has 256 KiB allocated for every read, which takes longer than the read.
    """

    def __init__(self, buffer: memoryview | None = None) -> None:
        self._buffer = memoryview(bytearray(READ_BYTES)) if buffer is None else buffer
        self.idle_since = 0.0
        self.patience_s: float | None = None
        """So long the server keeps it while it is idle, if the server said so."""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[Response] | None = None
        self._waiting: select.poll | None = None
        self._until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._received = bytearray()
        self._begin_anew()

    @property
    def is_open(self) -> bool:
        """Whether another exchange may begin."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came since the last reply: neither what the loop has read nor what still waits to be read.

        A loop that is busy does not know of a farewell yet. Nothing may be sent into a connection that is over: that
        could not be told from a call that arrived and was lost.
        """
        if self._transport is None or self._transport.is_closing():
            return False
        if self._waiting is None:
            self._waiting = select.poll()
            self._waiting.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not self._waiting.poll(0)

    async def exchange(self, request: bytes, *, until: float) -> Response:
        """Write the request and wait for its reply. Raises Broken (E2); TimeoutError at this time of the loop."""
        if self._transport is None or self._transport.is_closing():
            raise Broken("the server closed it before the request was sent")
        reply = self._reply = self._loop.create_future()
        self._transport.write(request)
        self._expect_by(until)
        try:
            return await reply
        finally:
            if not reply.done() or reply.cancelled() or isinstance(reply.exception(), TimeoutError):
                self.abort()
            self._reply = None

    def _expect_by(self, until: float) -> None:
        """Have the reply be late at this time. The timer outlives the exchange: most replies come minutes before their
        time-out, and one timer serves all that the connection has until then."""
        self._until = until
        if self._alarm is None or until < self._alarm.when():
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(until, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        self._alarm = None
        if self._reply is None or self._reply.done():
            return
        if self._loop.time() < self._until:
            self._expect_by(self._until)
        else:
            self._reply.set_exception(TimeoutError())

    def abort(self) -> None:
        """Close at once, whatever was under way."""
        if self._transport is not None:
            self._transport.abort()

    # --- what the loop calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._buffer[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        if self._reply is None or self._reply.done():
            self.abort()  # a server that speaks unasked, such as one that says farewell to an idle client
            return
        self._received += data
        try:
            while self._take():
                pass
        except Broken as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            if exc is None and self._status and self._left is None and not self._is_chunked:
                try:
                    self._finish()  # a body without a length ends with the connection
                except Broken as error:
                    self._fail(error)
            else:
                self._fail(Broken(str(exc) if exc else "the server closed it"))
        if self._alarm is not None:
            self._alarm.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _begin_anew(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._left: int | None = None
        """Bytes of the body that are still to come; None where nobody said."""
        self._is_chunked = False
        self._is_kept = True

    def _take(self) -> bool:
        """One step through what was received. Returns whether there may be another."""
        if not self._status:
            return self._take_head()
        if self._is_chunked:
            return self._take_chunk()
        if not self._received:
            return False
        piece = self._received if self._left is None else self._received[: self._left]
        self._keep(bytes(piece))
        del self._received[: len(piece)]
        if self._left is not None:
            self._left -= len(piece)
            if not self._left:
                self._finish()
        return False

    def _take_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _LARGEST_HEAD:
                raise Broken("its headers do not end")
            return False
        head = self._received[:end].decode("latin-1")
        del self._received[: end + 4]
        found = _STATUS.match(head)
        if found is None:
            raise Broken("it does not speak HTTP/1.1")
        status = int(found[2])
        if status < 200:
            if status == 101:
                raise Broken("it switched to another protocol")
            return True  # there is more to come before the reply
        self._status = status
        lines = _HEADER.findall(head)
        if len(lines) != head.count("\r\n"):
            raise Broken("one of its headers has no value")
        self._headers = {name.lower(): value for name, value in lines}
        if len(self._headers) != len(lines):
            self._headers = _joined(lines)
        return self._learn_length(is_old=found[1] == "0")

    def _learn_length(self, *, is_old: bool) -> bool:
        """How the body ends, and what becomes of the connection then."""
        headers = self._headers
        wishes = headers.get("connection", "").lower()
        self._is_kept = "close" not in wishes and (not is_old or "keep-alive" in wishes)
        if (said := _PATIENCE.search(headers.get("keep-alive", ""))) is not None:
            self.patience_s = float(said[1])
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower().strip() != "chunked":
                raise Broken("its body comes in a way that was not asked for")
            self._is_chunked = True
            return True
        length = headers.get("content-length")
        if self._status in _WITHOUT_BODY or length == "0":
            self._finish()
            return False
        if length is None:
            self._is_kept = False
            return True
        if not (length.isascii() and length.isdigit() and len(length) < 16):
            raise Broken("the length of its body makes no sense")
        self._left = int(length)
        if self._left > LARGEST_BODY:
            raise Broken(_too_large())
        return self._left > 0 or self._finish()

    def _take_chunk(self) -> bool:
        received = self._received
        end = received.find(b"\r\n")
        if end < 0:
            if len(received) > _LARGEST_HEAD:
                raise Broken("a piece of its body does not begin")
            return False
        found = _CHUNK.fullmatch(received[:end])
        if found is None:
            raise Broken("a piece of its body has no length")
        size = int(found[1], 16)
        if not size:
            stop = received.find(b"\r\n\r\n", end)
            if stop < 0:
                if len(received) > _LARGEST_HEAD:
                    raise Broken("its trailers do not end")
                return False
            del received[: stop + 4]
            return self._finish()
        if size > LARGEST_BODY:
            raise Broken(_too_large())
        begin = end + 2
        if len(received) < begin + size + 2:
            return False
        if not received.startswith(b"\r\n", begin + size):
            raise Broken("a piece of its body is longer than it said")
        self._keep(bytes(received[begin : begin + size]))
        del received[: begin + size + 2]
        return True

    def _keep(self, piece: bytes) -> None:
        self._body.append(piece)
        self._size += len(piece)
        if self._size > LARGEST_BODY:
            raise Broken(_too_large())

    def _finish(self) -> bool:
        """The reply is whole."""
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        encoding = self._headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            body = _unzipped(body, encoding)
        response = Response(self._status, self._headers, body)
        if self._received or not self._is_kept or self._is_sending:
            self.abort()
        self._begin_anew()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(response)
        return False

    def _fail(self, error: Broken) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)
        self.abort()

    @property
    def _is_sending(self) -> bool:
        """Whether a part of the request is still here; the rest would be read as the beginning of the next one."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0


def _joined(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers of which some come more than once."""
    headers: dict[str, str] = {}
    for name, value in lines:
        known = headers.get(name.lower())
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    return headers


def _unzipped(body: bytes, encoding: str) -> bytes:
    """The body of a server that packs it although nobody asked."""
    if encoding not in _ZIPPED:
        raise Broken(f"its body is packed as {encoding[:40]}, which was not asked for")
    opener = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        unzipped = opener.decompress(body, LARGEST_BODY)
    except zlib.error as error:
        raise Broken(f"its body cannot be unpacked: {error}") from error
    if opener.unconsumed_tail:
        raise Broken(_too_large())
    if not opener.eof:
        raise Broken("its packed body is cut")
    return unzipped


def _too_large() -> str:
    return f"the reply is larger than {LARGEST_BODY >> 20} MiB"
