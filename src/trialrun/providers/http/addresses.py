"""Addresses: whom they mean, and how they may be shown."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_PLAIN = re.compile(r"[!-~]+")
"""Printable ASCII without a space: what may stand in the first line of a request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Whom to connect to."""

    host: str
    port: int
    is_tls: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What an address means: whom to connect to, and what to ask there."""

    origin: Origin
    host: str
    """As the request names it, with the port if the address has one."""
    path: str


def target_of(url: str) -> Target | None:
    """None for what a general client shall look at: a user in the address, another scheme, odd characters."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not (_PLAIN.fullmatch(path) and _PLAIN.fullmatch(parts.netloc)):
        return None
    is_tls = parts.scheme == "https"
    origin = Origin(host=parts.hostname, port=port or (443 if is_tls else 80), is_tls=is_tls)
    return Target(origin=origin, host=parts.netloc, path=path)


def host_of(url: str) -> str:
    """The host alone, for messages."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url


def without_credentials(url: str) -> str:
    """The address as it may be shown."""
    return _CREDENTIALS.sub("//", url)


def reason_of(error: Exception) -> str:
    """What an error says, fit to be shown."""
    return without_credentials(str(error)) or type(error).__name__
