"""Large bodies on their way up and down: never in memory, never cut without a word, never with a key elsewhere."""

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from trialrun.core.errors import CallTimedOut, Unavailable
from trialrun.providers.http.client import HttpClient
from trialrun.providers.http.uploads import FileBody, listed, multipart

OK = b"HTTP/1.1 200 OK\r\n"
ENDINGS = {
    "whole, with its length": (OK + b"Content-Length: 16\r\n\r\n" + b'{"a":1}\n{"b":2}\n', True),
    "cut before its length": (OK + b"Content-Length: 99\r\n\r\n" + b'{"a":1}\n{"b":2}\n', False),
    "whole, in chunks": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + b'{"a":1}\n{"b":2}\n\r\n0\r\n\r\n',
        True,
    ),
    "cut between chunks": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + b'{"a":1}\n{"b":2}\n\r\n',
        False,
    ),
    "whole, to the end": (OK + b"Connection: close\r\n\r\n" + b'{"a":1}\n{"b":2}', True),
    "cut where the server thinks it whole": (OK + b"Content-Length: 13\r\n\r\n" + b'{"a":1}\n{"b":', False),
    "cut in a line": (OK + b"Connection: close\r\n\r\n" + b'{"a":1}\n{"b":', False),
}


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncGenerator[str, None]:
    """A server whose connections are closed when they have been served."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """Sends these bytes, one connection after the other, and hangs up. Keeps the heads of the requests."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers[min(len(heads), len(answers)) - 1])
        await writer.drain()

    async with serving(serve) as url:
        yield url, heads


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begins an answer to a GET, says nothing to anything else, and waits for the other side to hang up."""
    if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /f"):
        writer.write(OK + b"Content-Length: 99\r\n\r\n{")
    await reader.read()


async def downloaded(url: str, *, silence_s: float = 5.0) -> bytes:
    client = HttpClient()
    try:
        async with client.download(f"{url}/f", headers={"x-key": "secret"}, silence_s=silence_s) as download:
            return b"".join([lines async for lines in download.lines()])
    finally:
        await client.close()


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_download_is_whole_or_unavailable(ending: str):
    answer, is_whole = ENDINGS[ending]
    async with raw_server(answer) as (url, _):
        if is_whole:
            assert (await downloaded(url)).split() == [b'{"a":1}', b'{"b":2}']
        else:
            with pytest.raises(Unavailable) as caught:
                await downloaded(url)
            assert caught.value.billed == "no"


async def test_a_download_that_falls_silent_is_given_up():
    async with serving(silent) as url:
        with pytest.raises(Unavailable):
            await downloaded(url, silence_s=0.2)


async def test_a_redirect_is_followed_without_the_key_when_it_leads_elsewhere():
    whole = ENDINGS["whole, with its length"][0]
    async with (
        raw_server(whole) as (there, there_heads),
        raw_server(
            b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + there.encode() + b"/g\r\n\r\n"
        ) as (
            here,
            here_heads,
        ),
    ):
        assert (await downloaded(here)).count(b"\n") == 2
    assert b"x-key: secret" in here_heads[0]
    assert b"secret" not in there_heads[0]
    assert there_heads[0].startswith(b"GET /g ")
    circle = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: /f\r\n\r\n"
    async with raw_server(circle) as (url, heads):
        with pytest.raises(Unavailable, match="circles"):
            await downloaded(url)
    assert all(b"x-key: secret" in head for head in heads)


async def test_lines_come_whole_however_the_bytes_are_cut():
    content = b"".join(b'{"n":%d,"text":"%b"}\n' % (n, b"x" * n) for n in range(300))
    async with raw_server(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content) as (url, _):
        client = HttpClient()
        async with client.download(url, headers={}, silence_s=5) as download:
            async for lines in download.lines():
                assert lines.endswith(b"\n")
                assert lines.startswith(b"{")
        await client.close()


async def whole(body: FileBody) -> bytes:
    return b"".join([chunk async for chunk in body])


@pytest.mark.parametrize("lines", [1, 2, 150_000])
async def test_bodies_from_a_file_have_the_length_that_they_say(tmp_path: Path, lines: int):
    path = tmp_path / "pack.jsonl"
    path.write_bytes(content := b"".join(b'{"n":%d}\n' % n for n in range(lines)))
    kind, form = multipart(path, len(content), name="p1", fields={"purpose": "batch"})
    sent = await whole(form)
    assert len(sent) == form.length
    assert content in sent
    assert kind.partition("boundary=")[2].encode() in sent
    as_list = listed(path, len(content), head=b'{"requests":[', tail=b"]}")
    sent = await whole(as_list)
    assert len(sent) == as_list.length
    assert sent == b'{"requests":[' + content[:-1].replace(b"\n", b",") + b"]}"
    assert await whole(as_list) == sent


async def test_a_large_file_goes_up_and_comes_down_without_being_in_memory(tmp_path: Path):
    size = 64 << 20
    path = tmp_path / "pack.jsonl"
    line = b'{"text":"' + b"y" * 1012 + b'"}\n'
    with path.open("wb") as file:
        for _ in range(size // len(line)):
            file.write(line)
    received = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            while received < size:
                received += len(await reader.read(1 << 20))
            writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        else:
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
            for _ in range(64):
                writer.write(line * 1024)
                await writer.drain()
        await writer.drain()

    client = HttpClient()
    tracemalloc.start()
    try:
        async with serving(serve) as url:
            body = FileBody(path=path, size_bytes=size)
            raw = await client.request("POST", url, body, headers={}, timeout_s=60)
            assert raw.body == b"{}"
            came = 0
            async with client.download(url, headers={}, silence_s=10) as download:
                async for lines in download.lines():
                    came += len(lines)
            _, peak = tracemalloc.get_traced_memory()
            await client.close()
    finally:
        tracemalloc.stop()
    assert came == received == size
    assert peak < 24 << 20


async def test_what_is_lost_on_the_way_may_have_begun_something_only_where_that_is_possible(tmp_path: Path):
    async with raw_server(b"") as (url, _):
        client = HttpClient()
        for billed in ("no", "unknown"):
            with pytest.raises(Unavailable) as caught:
                await client.request("POST", url, b"{}", headers={}, timeout_s=5, billed=billed)
            assert caught.value.billed == billed
        await client.close()


async def test_a_late_answer_is_timed_out_only_where_something_may_have_begun():
    async with serving(silent) as url:
        client = HttpClient()
        with pytest.raises(CallTimedOut):
            await client.request("POST", url, b"{}", headers={}, timeout_s=0.2)
        with pytest.raises(Unavailable):
            await client.request("GET", url, headers={}, timeout_s=0.2, billed="no")
        await client.close()
