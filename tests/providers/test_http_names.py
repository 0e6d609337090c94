"""Whom our own HTTP reaches: names with several addresses, and servers that have to be who they say."""

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.providers.test_http import BODY, Server, client
from trialrun.core.errors import Unavailable
from trialrun.providers.http.pool import Names


@pytest.fixture
def certified(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS for the name `localhost`, and the certificate that clients have to trust."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *named], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    return tls, certificate


async def test_over_tls_the_server_has_to_be_who_it_says(
    certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, certificate = certified
    async with Server().running(tls) as server:
        url = f"https://localhost:{server.port}/v1"
        async with client() as post:
            with pytest.raises(Unavailable, match="certificate verify failed") as caught:
                await post(url)
            assert caught.value.billed == "no"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with client() as post:
            assert (await post(url)).body == BODY
            assert (await post(url)).body == BODY
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await post(f"https://127.0.0.1:{server.port}/v1")
    assert len(server.requests) == 2


async def test_a_name_whose_first_address_is_dead_is_reached_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    found = [(2, 1, 6, "", ("127.0.0.9", 0)), (2, 1, 6, "", ("127.0.0.1", 0))]
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def resolve(host: str, port: int, **more: Any) -> Any:
        if host != "two.example":
            return await real(host, port, **more)
        asked.append(host)
        return found

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    async with Server(closes=True).running() as server, client() as post:
        for _ in range(3):
            assert (await post(f"http://two.example:{server.port}/")).status == 200
            await asyncio.sleep(0.01)
    assert asked == ["two.example"], "asked once, and remembered"


async def test_the_addresses_of_a_name_may_change_while_it_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names of large providers do, every few minutes; who is on the way to an old address goes there all the same."""
    loop = asyncio.get_running_loop()
    answers, now = [["127.0.0.9", "127.0.0.1"], ["127.0.0.8", "127.0.0.7"]], 1000.0

    async def resolve(*_: Any, **__: Any) -> Any:
        return [(2, 1, 6, "", (address, 0)) for address in answers.pop(0)]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    monkeypatch.setattr(loop, "time", lambda: now)
    names = Names()
    begun = iter(await names.of("two.example", 443))
    assert next(begun) == "127.0.0.9"
    names.prefer("two.example", "127.0.0.1")
    assert next(begun) == "127.0.0.1", "whoever goes from one to the next misses none"
    assert await names.of("two.example", 443) == ("127.0.0.1", "127.0.0.9")
    now += 1000
    assert await names.of("two.example", 443) == ("127.0.0.8", "127.0.0.7")
    names.prefer("two.example", "127.0.0.1")
    assert await names.of("two.example", 443) == ("127.0.0.8", "127.0.0.7")
