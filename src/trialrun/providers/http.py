"""One pooled HTTP client for all adapters: raw bytes out, raw bytes back, no retry that nobody asked for.

H1. One `post` is one request on the wire: redirects are not followed, and aiohttp repeats only idempotent methods.
H2. A failure says whether the provider may have billed: "no" only if the request surely never reached it.
H3. A key is in a header and nowhere else; an address is shown without the user and password that it may hold.
"""

import asyncio
import re
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from trialrun.core.calls import RawReply
from trialrun.core.errors import CallTimedOut, Unavailable
from trialrun.providers.limits import kept_headers

if TYPE_CHECKING:
    import aiohttp

_CONNECT_TIMEOUT_S = 15.0
_LARGEST_BODY = 64 * 1024 * 1024
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class HttpClient:
    """A pool of kept-alive connections. Opens at the first request, in the event loop that uses it."""

    def __init__(self, *, concurrency: int = 64, proxy: str | None = None) -> None:
        self._concurrency = concurrency
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float) -> RawReply:
        """Send once. Any status is a reply here; only a failure to get one raises."""
        import aiohttp

        began = monotonic()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().post(
                    url,
                    data=body,
                    headers=headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                    # A connection that takes most of the time is given up first, so that it is known to be unbilled.
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=min(_CONNECT_TIMEOUT_S, 0.9 * timeout_s)
                    ),
                ) as response,
            ):
                content = await _read(response)
                return RawReply(
                    body=content,
                    status=response.status,
                    latency_s=monotonic() - began,
                    request_id=_first(response.headers, _REQUEST_ID_HEADERS),
                    headers=kept_headers(response.headers),
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise Unavailable(f"no connection to {_host(url)} within the time-out") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise Unavailable(f"no connection to {_host(url)}: {_reason(error)}") from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise Unavailable(f"{without_credentials(url)} is not an address that can be called") from None
        except TimeoutError as error:
            raise CallTimedOut(f"no reply from {_host(url)} in {timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            # The request may have arrived and run: only the reply is missing.
            what = (
                f"the connection to {_host(url)} was lost before the whole reply was there: {_reason(error)}"
            )
            raise Unavailable(what, billed="unknown") from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._concurrency, ttl_dns_cache=300),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return self._session


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    """The whole body, if it is not absurdly large."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > _LARGEST_BODY:
            raise Unavailable(f"the reply is larger than {_LARGEST_BODY >> 20} MiB", billed="unknown")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if name in headers), "")


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url


def without_credentials(url: str) -> str:
    """The address as it may be shown."""
    return _CREDENTIALS.sub("//", url)


def _reason(error: Exception) -> str:
    return without_credentials(str(error)) or type(error).__name__
