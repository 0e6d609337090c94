"""Calls through an HTTP proxy: plain ones are handed to it, those over TLS go through a tunnel."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.providers.test_http import PLAIN, Server
from tests.providers.test_http_names import certified
from trialrun.core.errors import Unavailable
from trialrun.providers.http.client import HttpClient

__all__ = ["certified"]

KEY = {"Authorization": "Bearer sk-a-long-key"}


class Proxy:
    """Opens tunnels to one far end, whatever name is asked for, and answers plain requests itself."""

    def __init__(self, port: int = 0, *, refuses: bool = False, drops: bool = False) -> None:
        self._far_port = port
        self._refuses = refuses
        self._drops = drops
        self.heads: list[str] = []
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self._refuses:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            elif head.startswith("CONNECT"):
                await self._tunnel(reader, writer)
            elif not self._drops:
                writer.write(PLAIN)
                await writer.drain()
        writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, far_writer))
            group.create_task(self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                writer.write(piece)
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Proxy", None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await asyncio.sleep(0.01)


@asynccontextmanager
async def through(proxy: Proxy) -> AsyncGenerator[HttpClient, None]:
    http = HttpClient(proxy=proxy.url)
    try:
        yield http
    finally:
        await http.close()


async def test_a_plain_call_is_handed_to_the_proxy() -> None:
    async with Proxy().running() as proxy, through(proxy) as http:
        reply = await http.post("http://far.example/v1/chat", b"{}", headers=KEY, timeout_s=5)
    assert reply.status == 200
    (head,) = proxy.heads
    assert head.startswith("POST http://far.example/v1/chat HTTP/1.1\r\n")
    assert head.count("sk-a-long-key") == 1


async def test_over_tls_the_proxy_sees_a_name_and_no_key(
    certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, certificate = certified
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with Server().running(tls) as server, Proxy(server.port).running() as proxy, through(proxy) as http:
        for _ in range(2):
            reply = await http.post("https://localhost/v1/chat", b'{"a": 1}', headers=KEY, timeout_s=5)
            assert reply.status == 200
    (head,) = proxy.heads
    assert head.startswith("CONNECT localhost:443 HTTP/1.1\r\n")
    assert "sk-a-long-key" not in head
    assert [b"sk-a-long-key" in request for request in server.requests] == [True, True]


async def test_what_a_proxy_lost_is_in_doubt_and_what_it_refused_is_not() -> None:
    async with Proxy(drops=True).running() as proxy, through(proxy) as http:
        with pytest.raises(Unavailable) as lost:
            await http.post("http://far.example/v1", b"{}", headers=KEY, timeout_s=5)
    async with Proxy(refuses=True).running() as proxy, through(proxy) as http:
        with pytest.raises(Unavailable) as refused:
            await http.post("https://far.example/v1", b"{}", headers=KEY, timeout_s=5)
    assert (lost.value.billed, refused.value.billed) == ("unknown", "no")
