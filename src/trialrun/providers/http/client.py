"""One pooled HTTP client for all adapters: raw bytes out, raw bytes back, no retry that nobody asked for.

H1. One `post` is one request on the wire: redirects are not followed, and nothing is sent twice. Only downloads follow
    redirects, as some providers keep results elsewhere.
H2. A failure says whether the provider may have billed: "no" only if the request surely never reached it.
H3. A key is in a header and nowhere else; an address is shown without the user and password that it may hold.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import msgspec

from trialrun.core.calls import RawReply
from trialrun.core.errors import Billing, CallTimedOut, Unavailable
from trialrun.providers.http.addresses import host_of, reason_of, without_credentials
from trialrun.providers.http.direct import DirectClient
from trialrun.providers.http.exchange import LARGEST_BODY
from trialrun.providers.http.pool import CONNECT_TIMEOUT_S, IDLE_S
from trialrun.providers.http.uploads import FileBody
from trialrun.providers.limits import kept_headers

if TYPE_CHECKING:
    import aiohttp

_MOST_REDIRECTS = 4
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id")


class HttpClient:
    """A pool of kept-alive connections. Opens at the first request, in the event loop that uses it."""

    def __init__(self, *, concurrency: int = 64, proxy: str | None = None) -> None:
        self._concurrency = concurrency
        self._proxy = proxy
        self._direct = DirectClient(concurrency)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float) -> RawReply:
        """Send a call once. Any status is a reply here; only a failure to get one raises."""
        if self._proxy is not None or not self._direct.can_reach(url):
            return await self.request("POST", url, body, headers=headers, timeout_s=timeout_s)
        response, latency_s = await self._direct.post(url, body, headers=headers, timeout_s=timeout_s)
        return RawReply(
            body=response.body,
            status=response.status,
            latency_s=latency_s,
            request_id=_first(response.headers, _REQUEST_ID_HEADERS),
            headers=kept_headers(response.headers),
        )

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | FileBody = b"",
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        kept: Sequence[str] = (),
        billed: Billing = "unknown",
    ) -> RawReply:
        """One request. `kept` names headers of the reply that are wanted beside those about limits.

        `billed` is what a failure says of a request that may have arrived: "no" for one that never costs anything.
        """
        began = monotonic()
        with _failures(url, timeout_s, billed):
            async with (
                asyncio.timeout(timeout_s),
                self._sent(method, url, body, headers, connect_s=0.9 * timeout_s) as response,
            ):
                content = await _read(response)
                return RawReply(
                    body=content,
                    status=response.status,
                    latency_s=monotonic() - began,
                    request_id=_first(response.headers, _REQUEST_ID_HEADERS),
                    headers=_kept(response.headers, kept),
                )

    @asynccontextmanager
    async def download(
        self, url: str, *, headers: Mapping[str, str], silence_s: float
    ) -> "AsyncGenerator[Download, None]":
        """Something large, read as it comes. A redirect is followed, without our headers if it leads elsewhere."""
        with _failures(url, silence_s, "no"):
            for _ in range(_MOST_REDIRECTS):
                async with self._sent("GET", url, b"", headers, silence_s=silence_s) as response:
                    onward = response.headers.get("Location", "")
                    if not (300 <= response.status < 400 and onward):
                        yield Download(response, silence_s)
                        return
                there = urljoin(url, onward)
                if urlsplit(there)[:2] != urlsplit(url)[:2]:
                    headers = {}
                url = there
            raise Unavailable(f"{host_of(url)} redirects in circles")

    async def close(self) -> None:
        await self._direct.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _sent(
        self,
        method: str,
        url: str,
        body: bytes | FileBody,
        headers: Mapping[str, str],
        *,
        connect_s: float = CONNECT_TIMEOUT_S,
        silence_s: float | None = None,
    ) -> "AbstractAsyncContextManager[aiohttp.ClientResponse]":
        import aiohttp

        if isinstance(body, FileBody):
            headers = {**headers, "Content-Length": str(body.length)}
        return self._open().request(
            method,
            url,
            data=body or None,
            headers=headers,
            proxy=self._proxy,
            allow_redirects=False,
            # A connection that takes most of the time is given up first, so that it is known to be unbilled.
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=min(CONNECT_TIMEOUT_S, connect_s), sock_read=silence_s
            ),
        )

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._concurrency,
                    ttl_dns_cache=300,
                    keepalive_timeout=IDLE_S,
                    ssl=ssl.create_default_context(),
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return self._session


class Download:
    """A reply that is read as it comes."""

    def __init__(self, response: "aiohttp.ClientResponse", silence_s: float) -> None:
        self.status = response.status
        self._response = response
        self._silence_s = silence_s

    async def whole(self) -> RawReply:
        """All of it, for what is small, such as an error."""
        async with asyncio.timeout(self._silence_s):
            content = await _read(self._response)
        return RawReply(body=content, status=self.status, headers=_kept(self._response.headers, ()))

    async def lines(self) -> AsyncIterator[bytes]:
        """Whole lines, many at a time. Raises Unavailable if the last one is cut."""
        rest: list[bytes] = []
        async for chunk in self._response.content.iter_any():
            whole, is_cut, after = chunk.rpartition(b"\n")
            if not is_cut:
                rest.append(chunk)
                continue
            yield b"".join((*rest, whole, b"\n"))
            rest = [after] if after else []
        last = b"".join(rest)
        if last.strip():
            # A server that was cut off itself may have counted what it had, and call that the whole.
            if not _is_json(last):
                raise Unavailable("the results broke off in the middle of a line")
            yield last


@contextmanager
def _failures(url: str, timeout_s: float, billed: Billing) -> Generator[None, None, None]:
    """What goes wrong on the way, as our errors."""
    import aiohttp

    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise Unavailable(f"no connection to {host_of(url)} within the time-out") from error
    except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
        raise Unavailable(f"no connection to {host_of(url)}: {reason_of(error)}") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
        raise Unavailable(f"{without_credentials(url)} is not an address that can be called") from None
    except TimeoutError as error:
        late = f"no reply from {host_of(url)} in {timeout_s:g} s"
        raise (CallTimedOut(late) if billed == "unknown" else Unavailable(late)) from error
    except (aiohttp.ClientError, OSError) as error:
        # The request may have arrived and run: only the reply is missing.
        what = (
            f"the connection to {host_of(url)} was lost before the whole reply was there: {reason_of(error)}"
        )
        raise Unavailable(what, billed=billed) from error


def _kept(headers: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    return {**kept_headers(headers), **{name: headers[name] for name in wanted if name in headers}}


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    """The whole body, if it is not absurdly large."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_BODY:
            raise Unavailable(f"the reply is larger than {LARGEST_BODY >> 20} MiB", billed="unknown")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if name in headers), "")
