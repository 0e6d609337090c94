"""What the emulator costs for each call, asked by a bare client over many connections: the far end of other benches."""

import asyncio
import subprocess
import sys

from bench.common import is_short, report

_BODY = (
    b'{"model":"gpt-4o-mini","max_completion_tokens":300,"messages":[{"role":"user","content":"'
    + b"Describe what would be different next week. " * 12
    + b'"}]}'
)
_REQUEST = (
    b"POST /openai/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer bench\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY
_CONNECTIONS = 50
_WARM_UP = 500
_SERVER = """
import asyncio, sys, time
from trialrun.testing.emulator import Emulator

async def main():
    async with Emulator({"replies": sys.argv[1]}) as server:
        print(server.url.rpartition(":")[2], flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await server.book.quiet.wait()
            print(time.process_time(), flush=True)

asyncio.run(main())
"""


def main() -> None:
    calls = 2_000 if is_short() else 20_000
    for replies in ("canned", "rehearsal"):
        # 200 µs are 5,000 calls a second on one core.
        report(f"emulator, CPU of a call, {replies} replies", _cpu_us(replies, calls), "µs", 200)


def _cpu_us(replies: str, calls: int) -> float:
    """CPU microseconds of the server for each call."""
    command = [sys.executable, "-c", _SERVER, replies]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        to_server, from_server = server.stdin, server.stdout
        assert to_server
        assert from_server

        def cpu_s() -> float:
            to_server.write("\n")
            to_server.flush()
            return float(from_server.readline())

        port = int(from_server.readline())
        asyncio.run(_ask(port, _WARM_UP))
        before = cpu_s()
        asyncio.run(_ask(port, calls))
        return (cpu_s() - before) / calls * 1e6


async def _ask(port: int, calls: int) -> None:
    """So many calls over kept-alive connections, the next one as soon as the last is answered."""
    left = iter(range(calls))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(_REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            size = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            await reader.readexactly(int(size))
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(connection())


if __name__ == "__main__":
    main()
