"""Our own HTTP: what a reply is, however its bytes arrive, and what happens to connections."""

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.core.calls import RawReply
from trialrun.core.errors import CallTimedOut, Unavailable
from trialrun.providers.http.client import HttpClient
from trialrun.providers.http.exchange import LARGEST_BODY, Broken, Connection, Response

BODY = b'{"choices": []}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PLAIN = OK + b"Content-Length: 15\r\n\r\n" + BODY
CHUNKED = (
    OK
    + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n"
    + BODY[:5]
    + b"\r\nA\r\n"
    + BODY[5:]
    + b"\r\n0\r\n\r\n"
)
TRAILERS = CHUNKED.removesuffix(b"\r\n") + b"X-Sum: 1\r\n\r\n"
ZIPPED = gzip.compress(BODY)
DEFLATED = zlib.compress(BODY)
WHOLE = {
    "length": PLAIN,
    "chunks": CHUNKED,
    "chunks and trailers": TRAILERS,
    "after a word of patience": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    + PLAIN,
    "gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(ZIPPED) + ZIPPED,
    "deflate": OK + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(DEFLATED) + DEFLATED,
}
BROKEN = {
    "length said twice": OK + b"Content-Length: 15\r\nContent-Length: 15\r\n\r\n" + BODY,
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version": b"HTTP/2 200\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "two lengths": OK + b"Content-Length: 15\r\nContent-Length: 16\r\n\r\n" + BODY,
    "negative length": OK + b"Content-Length: -1\r\n\r\n" + BODY,
    "length of many digits": OK + b"Content-Length: " + b"9" * 6000 + b"\r\n\r\n",
    "absurd length": OK + b"Content-Length: %d\r\n\r\n" % (LARGEST_BODY + 1),
    "absurd chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    "chunk without a length": OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "negative chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
    "chunk longer than said": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "packed in an unknown way": OK + b"Content-Encoding: br\r\nContent-Length: 15\r\n\r\n" + BODY,
    "not packed at all": OK + b"Content-Encoding: gzip\r\nContent-Length: 15\r\n\r\n" + BODY,
    "packed and cut": OK + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + ZIPPED[:20],
    "header without a name": b"HTTP/1.1 200 OK\r\n: nonsense\r\n\r\n",
    "header without a value": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "endless headers": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
    "endless trailers": OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nx: " + b"y" * 300_000,
}


class Transport:
    """A transport that only remembers."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False
        self.unsent = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


async def exchanged(pieces: list[bytes], *, then_closed: bool = False) -> tuple[Response, Transport]:
    """What a connection makes of bytes that arrive in these pieces."""
    connection, transport = Connection(), Transport()
    connection.connection_made(cast("Any", transport))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        asking = group.create_task(
            connection.exchange(b"request", until=asyncio.get_running_loop().time() + 5)
        )
        await asyncio.sleep(0)
        for piece in pieces:
            if not transport.is_closed:
                connection.data_received(piece)
        if then_closed:
            connection.connection_lost(None)
    return asking.result(), transport


async def failure(pieces: list[bytes], *, then_closed: bool = False) -> str:
    with pytest.raises(BaseExceptionGroup) as caught:
        await exchanged(pieces, then_closed=then_closed)
    (error,) = caught.value.exceptions
    assert isinstance(error, Broken), error
    return str(error)


@pytest.mark.parametrize("name", WHOLE)
@given(cuts=st.lists(st.integers(1, 400), max_size=8))
def test_a_reply_is_the_same_in_whatever_pieces_it_arrives(name: str, cuts: list[int]) -> None:
    stream = WHOLE[name]
    edges = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    response, transport = asyncio.run(exchanged(pieces))
    assert (response.status, response.body) == (200, BODY)
    assert response.headers["content-type"] == "application/json"
    assert not transport.is_closed, "the connection can be used again"


@pytest.mark.parametrize("name", BROKEN)
@given(cut=st.integers(0, 200))
def test_what_is_no_reply_is_broken_and_the_connection_with_it(name: str, cut: int) -> None:
    stream = BROKEN[name]
    assert asyncio.run(failure([part for part in (stream[:cut], stream[cut:]) if part]))


@given(cut=st.integers(0, len(PLAIN) - 1))
def test_a_reply_that_is_cut_is_broken_wherever_that_was(cut: int) -> None:
    assert asyncio.run(failure([PLAIN[:cut]] if cut else [], then_closed=True)) == "the server closed it"


async def test_without_a_length_a_reply_ends_with_the_connection() -> None:
    response, transport = await exchanged([OK + b"\r\n" + BODY], then_closed=True)
    assert response.body == BODY
    assert transport.is_closed


@pytest.mark.parametrize("body", [BODY, ZIPPED[:20]])
async def test_a_packed_body_that_ends_with_the_connection_and_cannot_be_unpacked_is_told_at_once(
    body: bytes,
) -> None:
    stream = OK + b"Connection: close\r\nContent-Encoding: gzip\r\n\r\n" + body
    assert "packed" in await failure([stream], then_closed=True)
    async with asyncio.timeout(5), Server([stream], closes=True).running() as server, client() as post:
        with pytest.raises(Unavailable, match="packed") as caught:
            await post(server.url)
        assert caught.value.billed == "unknown"


@pytest.mark.parametrize(
    "stream",
    [
        PLAIN + b"HTTP/1.1 200 OK\r\n",
        PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
async def test_a_connection_is_not_used_again_after_more_than_was_asked_or_a_farewell(stream: bytes) -> None:
    response, transport = await exchanged([stream])
    assert response.body == BODY
    assert transport.is_closed


async def test_a_server_that_speaks_unasked_loses_its_connection() -> None:
    connection, transport = Connection(), Transport()
    connection.connection_made(cast("Any", transport))
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert not connection.is_open


@dataclass
class Server:
    """Answers each request with the next of these, and counts."""

    replies: list[bytes] = field(default_factory=lambda: [PLAIN] * 1000)
    delay_s: float = 0.0
    closes: bool = False
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list[bytes])
    open: int = 0
    most_open: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat?x=1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                await asyncio.sleep(self.delay_s)
                self.open -= 1
                writer.write(self.replies.pop(0))
                if self.closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncGenerator["Server", None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await asyncio.sleep(0.01)


@asynccontextmanager
async def client(*, concurrency: int = 8) -> AsyncGenerator[Callable[..., Any], None]:
    http = HttpClient(concurrency=concurrency)

    async def post(url: str, *, timeout_s: float = 5.0, **headers: str) -> RawReply:
        return await http.post(url, b'{"a": 1}', headers=headers, timeout_s=timeout_s)

    try:
        yield post
    finally:
        await http.close()


async def test_connections_are_kept_bounded_and_opened_no_more_than_needed() -> None:
    async with Server(delay_s=0.02).running() as server, client(concurrency=3) as post:
        for _ in range(5):
            assert (await post(server.url)).status == 200
        assert server.connections == 1
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(post(server.url))
    assert server.most_open == server.connections == 3
    assert len(server.requests) == 17


async def test_the_request_is_one_line_the_headers_and_the_body() -> None:
    async with Server().running() as server, client() as post:
        await post(server.url, Authorization="Bearer k")
    (request,) = server.requests
    assert request.startswith(b"POST /v1/chat?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
    assert b"\r\nAuthorization: Bearer k\r\nContent-Length: 8\r\n\r\n" in request
    assert request.endswith(b'\r\n\r\n{"a": 1}')


async def test_a_header_cannot_begin_another_one() -> None:
    async with Server().running() as server, client() as post:
        with pytest.raises(ValueError, match="a header holds a line break") as caught:
            await post(server.url, Authorization="Bearer k\r\nX-Other: 1")
        assert "Bearer" not in str(caught.value)
    assert server.requests == []


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async with Server(closes=True).running() as server, client() as post:
        for _ in range(3):
            await post(server.url)
            await asyncio.sleep(0.01)
    assert server.connections == 3


def answers_and_closes(listening: socket.socket) -> None:
    """A far end in a thread: one connection, one reply, and the end of the connection without a word."""
    connection, _ = listening.accept()
    with connection:
        request = b""
        while not request.endswith(b'{"a": 1}'):
            request += connection.recv(65536)
        connection.sendall(PLAIN)


async def test_a_farewell_that_nobody_has_read_yet_is_seen_before_the_next_request() -> None:
    """Sent into a connection that is over, a call would be in doubt, though nothing of it arrived."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        listening.settimeout(5)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with client() as post:
            for _ in range(3):
                far_end = thread.submit(answers_and_closes, listening)
                assert (await post(url)).status == 200
                far_end.result(5)  # this loop stands still, as it does while much else is to be done


async def test_a_reply_to_a_request_that_is_not_all_sent_ends_the_connection() -> None:
    """The rest of it would be read as the beginning of the next request."""
    connection, transport = Connection(), Transport()
    connection.connection_made(cast("Any", transport))
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(
            connection.exchange(b"request", until=asyncio.get_running_loop().time() + 5)
        )
        await asyncio.sleep(0)
        transport.unsent = 3
        connection.data_received(PLAIN)
    assert asking.result().status == 200
    assert transport.is_closed


async def test_who_refuses_a_large_request_unread_gets_the_next_one_whole() -> None:
    heads: list[bytes] = []

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(PLAIN.replace(b"200 OK", b"413 Content Too Large"))
                await reader.read(1)
        writer.close()

    server, http = await asyncio.start_server(refuses, "127.0.0.1", 0), HttpClient(concurrency=1)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    for _ in range(2):
        reply = await http.post(url, b"x" * 30_000_000, headers={}, timeout_s=5)
        assert reply.status == 413
    await http.close()
    server.close()
    assert [head[:5] for head in heads] == [b"POST ", b"POST "]


@pytest.mark.parametrize(("said", "connections"), [("timeout=5, max=100", 1), ("timeout=1", 2)])
async def test_a_connection_is_kept_no_longer_than_the_server_says(said: str, connections: int) -> None:
    reply = PLAIN.replace(b"OK\r\n", f"OK\r\nKeep-Alive: {said}\r\n".encode())
    async with Server(replies=[reply] * 2).running() as server, client() as post:
        await post(server.url)
        await asyncio.sleep(0.1)
        await post(server.url)
    assert server.connections == connections


async def test_who_waits_for_a_connection_until_the_time_is_over_was_not_billed() -> None:
    async with Server(delay_s=0.5).running() as server, client(concurrency=1) as post:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(post(server.url))
            await asyncio.sleep(0.05)
            with pytest.raises(Unavailable) as caught:
                await post(server.url, timeout_s=0.1)
        assert caught.value.billed == "no"
        assert first.result().status == 200
        with pytest.raises(CallTimedOut) as timed_out:
            await post(server.url, timeout_s=0.1)
        assert timed_out.value.billed == "unknown"
        assert (await post(server.url)).status == 200, "and the place is free again"


async def test_each_reply_has_a_time_of_its_own_on_a_connection_that_is_kept() -> None:
    async with Server(delay_s=0.15).running() as server, client(concurrency=1) as post:
        await post(server.url, timeout_s=0.25)
        server.delay_s = 0.4
        assert (await post(server.url, timeout_s=5)).status == 200, (
            "the time of the first one is over meanwhile"
        )
        began = asyncio.get_running_loop().time()
        with pytest.raises(CallTimedOut):
            await post(server.url, timeout_s=0.1)
        assert asyncio.get_running_loop().time() - began < 0.3, (
            "and a shorter one ends before a longer one's would"
        )
        assert server.connections == 1


@pytest.mark.parametrize("url", ["ftp://x/y", "http:///y", "http://127.0.0.1:99999/"])
async def test_what_is_no_address_is_said_and_was_not_billed(url: str) -> None:
    async with client() as post:
        with pytest.raises(Unavailable) as caught:
            await post(url)
    assert caught.value.billed == "no"


async def test_it_reads_what_aiohttp_reads() -> None:
    """The general client as an oracle, for replies that servers really send."""
    for name, stream in WHOLE.items():
        async with Server(replies=[stream, stream]).running() as server, client() as post:
            ours = await post(server.url)
            async with aiohttp.ClientSession() as session, session.post(server.url, data=b"{}") as response:
                assert (ours.status, ours.body) == (response.status, await response.read()), name
