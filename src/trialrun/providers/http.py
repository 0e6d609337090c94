"""One pooled HTTP client for all adapters: raw bytes out, raw bytes back, no retry that nobody asked for.

H1. One `post` is one request on the wire: redirects are not followed, and aiohttp repeats only idempotent methods.
H2. A failure says whether the provider may have billed: "no" only if the request surely never reached it.
H3. A key is in a header and nowhere else: not in a repr, an error or a log.
"""

import asyncio
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import TYPE_CHECKING

from trialrun.core.calls import RawReply
from trialrun.core.errors import CallError, CallTimedOut, Unavailable

if TYPE_CHECKING:
    import aiohttp

_CONNECT_TIMEOUT_S = 15.0
_LARGEST_BODY = 64 * 1024 * 1024
_LONGEST_RETRY_AFTER_S = 24 * 3600.0
_KEPT_HEADERS = ("retry-after", "retry-after-ms", "content-type")
_KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
_REQUEST_ID_HEADERS = ("x-request-id", "request-id")


class Secret:
    """A key that does not print."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def hide_in(self, text: str) -> str:
        """The text without the key; providers like to quote it back."""
        return text.replace(self._value, "<key>") if self._value else text

    def __repr__(self) -> str:
        return "Secret(...)"


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
                    headers=_kept(response.headers),
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise Unavailable(f"no connection to {_host(url)} within the time-out") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise Unavailable(f"no connection to {_host(url)}: {_reason(error)}") from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Unavailable(f"{url} is not an address that can be called") from error
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


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks to wait: in milliseconds, in seconds, or until a date."""
    try:
        if "retry-after-ms" in headers:
            return _bounded(float(headers["retry-after-ms"]) / 1000)
        return _bounded(float(headers["retry-after"]))
    except KeyError:
        return None
    except ValueError:
        pass
    try:
        return _bounded(parsedate_to_datetime(headers["retry-after"]).timestamp() - time())
    except (ValueError, TypeError, OverflowError):
        return None


def error_at_gateway(status: int, what: str, headers: Mapping[str, str]) -> CallError | None:
    """The error for a status that means the same with every provider: not here now, try again later."""
    if status in (408, 409, 425) or status >= 500:
        # 504 and 524 come from a proxy that gave up waiting: behind it the model may have run.
        billed = "unknown" if status in (504, 524) else "no"
        return Unavailable(what, billed=billed, status=status, retry_after_s=retry_after_s(headers))
    return None


def _bounded(seconds: float) -> float | None:
    if seconds != seconds or seconds > _LONGEST_RETRY_AFTER_S:  # noqa: PLR0124 - not a number
        return None
    return max(0.0, seconds)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say something about limits."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {
        name: value
        for name, value in lower.items()
        if name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIXES)
    }


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if name in headers), "")


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
