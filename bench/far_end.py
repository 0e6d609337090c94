"""A far end that costs next to nothing: chat completions over raw asyncio, so that what is measured is the client.

The path says how long a reply takes: `/200ms/v1/chat/completions`. Sums are printed for every line that comes in on
stdin, and reach from one line to the next.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass

from bench.common import REPLY

_DELAY = re.compile(rb"^POST /(\d+)ms/")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BODY = json.dumps(
    {
        "id": "chatcmpl-000000000000",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m-2026-01-01",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": REPLY, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 160,
            "completion_tokens": 150,
            "total_tokens": 310,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_far_end",
    }
).encode()
_REPLY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_000000000000\r\n"
    b"x-ratelimit-limit-requests: 30000000\r\nx-ratelimit-remaining-requests: 29999999\r\n"
    b"x-ratelimit-reset-requests: 2ms\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


@dataclass(slots=True)
class Sums:
    """What arrived since the last line on stdin. Times are monotonic seconds, comparable between processes."""

    calls: int = 0
    open: int = 0
    most_open: int = 0
    first_at: float = 0.0
    last_at: float = 0.0


class _Connection(asyncio.Protocol):
    """One kept-alive connection; a client sends its next request when it has its reply."""

    def __init__(self, sums: list[Sums]) -> None:
        self._sums = sums
        self._received = b""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, end) if end >= 0 else None
        if length is None or len(self._received) < end + 4 + int(length[1]):
            return
        delay = _DELAY.match(self._received)
        self._received = b""
        sums = self._sums[0]
        sums.first_at = sums.first_at or time.monotonic()
        sums.calls += 1
        sums.open += 1
        sums.most_open = max(sums.most_open, sums.open)
        if delay is not None and int(delay[1]):
            self._loop.call_later(int(delay[1]) / 1000, self._reply)
        else:
            self._reply()

    def _reply(self) -> None:
        sums = self._sums[0]
        sums.open -= 1
        sums.last_at = time.monotonic()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_REPLY)


async def _serve() -> None:
    sums = [Sums()]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(sums), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        done, sums[0] = sums[0], Sums()
        print(json.dumps(asdict(done)), flush=True)


class FarEnd:
    """The server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._port = int(self._line())

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, delay_s: float) -> str:
        """The base URL under which every reply takes so long."""
        return f"http://127.0.0.1:{self._port}/{round(1000 * delay_s)}ms/v1"

    def sums(self) -> Sums:
        """What arrived since this was last asked."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Sums(**json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextlib.contextmanager
def far_end() -> Generator[FarEnd, None, None]:
    command = [sys.executable, "-m", "bench.far_end"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield FarEnd(process)
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_serve())
