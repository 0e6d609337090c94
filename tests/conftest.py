"""Guards around every test: nothing leaves this machine, and no key is there with which a call could be paid.

The guard is an audit hook and not a patched `socket`: it also sees connections made from C code of the standard
library, needs no cooperation from the library under test, and cannot be undone by it. It does not reach into child
processes; the missing keys do.
"""

import ipaddress
import os
import socket
import sys
from typing import Any

import pytest
from hypothesis import settings

SECRETS = ("_API_KEY", "_CREDENTIALS", "_SECRET", "_TOKEN")


class NetworkTouched(BaseException):
    """A test tried to leave this machine. Not an Exception: no retry and no boundary may take it for a failure."""


def numeric(host: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `host` spells out, or None if it is a name."""
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return None


def is_this_machine(host: object) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    address = numeric(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    match event, args:
        case "socket.connect" | "socket.sendto" | "socket.sendmsg", (socket.socket() as sock, (host, *_)):
            refused = sock.family in (socket.AF_INET, socket.AF_INET6) and not is_this_machine(host)
        case "socket.getaddrinfo" | "socket.gethostbyname", (host, *_):
            # To look up a number asks nobody.
            refused = not is_this_machine(host) and numeric(host) is None
        case _:
            return
    if refused:
        raise NetworkTouched(f"{event} {host}: replace the far end by a server on loopback")


sys.addaudithook(refuse_network)

for name in [name for name in os.environ if name.endswith(SECRETS)]:
    del os.environ[name]
for name in [name for name in os.environ if name.startswith(("OTEL_", "TRIALRUN_"))]:
    del os.environ[name]

# A busy machine is not a bug: no wall-clock limit per example.
settings.register_profile("trialrun", deadline=None)
settings.load_profile("trialrun")

MOST_WORKERS = 4


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs side by side. A part that somebody looks at runs here, and so do the long forms, which
    measure. Bars are CPU seconds, or ratios of one run: neighbours do not move them."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    is_long = config.getoption("markexpr") != "not long"
    return min(os.cpu_count() or 1, MOST_WORKERS) if is_whole and not is_long else 0
