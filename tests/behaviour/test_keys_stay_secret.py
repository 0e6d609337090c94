"""Keys reach the headers of requests and nothing else: everything that whole runs write and print is searched.

The far end is as bad as it can be: it quotes the key that it was given in every error, and echoes all headers of a
request beside each reply.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tests.contracts.wires import ANTHROPIC, CHAT, GEMINI, RESPONSES, Wire
from trialrun.store.archive import Archive

CANARIES = {
    "OPENAI_API_KEY": "sk-canary-one-3f9a1c",
    "OPENAI_API_KEY_2": "sk-canary-two-77be02",
    "ANTHROPIC_API_KEY": "sk-ant-canary-5d20e8",
    "GEMINI_API_KEY": "AIza-canary-90c4aa",
    "VERTEX_ACCESS_TOKEN": "ya29.canary-1be7f3",
    "MYLAB_API_KEY": "lab-canary-c8e655",
}
PASSWORD = "hunter-canary-2"
STUDY: dict[str, Any] = {
    "study": "canary",
    "procedure": "conversation",
    "parties": {
        "a": {"model": "openai/gpt-4.1-mini", "prompt": "You are A.", "max_tokens": 20},
        "b": {"model": "openai/gpt-4.1-mini", "prompt": "You are B.", "max_tokens": 20},
    },
    "factors": {
        "who": {
            "parties.a.model": [
                "openai/gpt-4.1-mini",
                "openai-responses/gpt-5-mini",
                "anthropic/claude-haiku-4-5",
                "google/gemini-2.5-flash",
                "vertex/gemini-2.5-flash",
                "mylab/llama",
            ]
        }
    },
    "judges": {"warm": {"model": "anthropic/claude-haiku-4-5", "question": "Warm?", "labels": ["yes", "no"]}},
    "replicates": 2,
    "settings": {"max_turns": 2},
    "limits": {"call_attempts": 2, "call_timeout_s": 2, "identical_failures": 500},
    "prices": {"*": {"input": 1, "output": 1}},
    "budget_usd": 5,
}


class NastyFarEnd:
    """Speaks all protocols, and gives every key away that it gets."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.urls: list[str] = []
        self._numbers = itertools.count()
        self.url = ""
        self.refuses_keys = False

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        self.urls.append(str(request.url))
        headers = dict(request.headers.items())
        names = ("x-api-key", "x-goog-api-key", "Authorization")
        key = next(headers[name] for name in names if name in headers).removeprefix("Bearer ")
        self.keys.add(key)
        told = f"your key {key} is in the wrong place"
        wire = _wire_of(request.path)
        number = next(self._numbers)
        if self.refuses_keys:
            return web.json_response(wire.problem(401, "invalid_api_key", told), status=401)
        match number % 11:
            case 2:
                return web.json_response(
                    wire.problem(429, "busy", told),
                    status=429,
                    headers={"Retry-After": "0", "x-ratelimit-remaining-requests": key},
                )
            case 4:
                return web.Response(status=500, text=f"<html>{told}</html>", content_type="text/html")
            case 6:
                return web.Response(text=f'{{"broken": "{told}', headers={"X-Request-Id": key})
            case 8:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case 9:
                return web.json_response(wire.problem(400, "invalid", told), status=400)
            case _:
                text = (
                    '{"reason": "r", "abstains": false, "label": "yes"}' if wire.wants_data(body) else "Hi."
                )
                reply = wire.reply(body, text, False)
                return web.json_response({**reply, "debug": {"headers": headers, "told": told}})

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["NastyFarEnd", None]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://user:{PASSWORD}@127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


def _wire_of(path: str) -> Wire:
    ends = {"/chat/completions": CHAT, "/responses": RESPONSES, "/messages": ANTHROPIC}
    return next((wire for end, wire in ends.items() if path.endswith(end)), GEMINI)


def _everything_in(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def test_no_key_is_in_anything_that_a_run_writes_or_prints(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_bytes(msgspec.json.encode(STUDY))
    printed: list[bytes] = []
    codes: list[int] = []

    async def trialrun(*arguments: str, far_end: NastyFarEnd) -> None:
        plain = far_end.url.replace(f"user:{PASSWORD}@", "")
        settings = {
            "OPENAI_BASE_URL": f"{plain}/v1",
            "ANTHROPIC_BASE_URL": plain,
            "GEMINI_BASE_URL": plain,
            "VERTEX_BASE_URL": plain,
            "GOOGLE_CLOUD_PROJECT": "p-1",
            "MYLAB_BASE_URL": f"{plain}/v1",
            **CANARIES,
            # Spans, with all texts, are printed too.
            "TRIALRUN_OTEL": "1",
            "OTEL_TRACES_EXPORTER": "console",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "trialrun",
            *arguments,
            cwd=tmp_path,
            env={**os.environ, **settings, "PYTHONFAULTHANDLER": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        printed.extend((out, err))
        codes.append(process.returncode or 0)

    async with NastyFarEnd().running() as far_end:
        await trialrun("run", "study.yaml", far_end=far_end)
        await trialrun("run", "study.yaml", "--retry-failed", "--json", far_end=far_end)
        for command in (
            ("status", "study.yaml", "--json"),
            ("doctor", "study.yaml"),
            ("export", "study.yaml"),
            ("export", "study.yaml", "--format", "jsonl", "--out", "lines"),
        ):
            await trialrun(*command, far_end=far_end)
        far_end.refuses_keys = True
        await trialrun("run", "study.yaml", "--replicates", "3", far_end=far_end)

    assert far_end.keys == set(CANARIES.values()), "every key was in use"
    assert not any(canary in url for url in far_end.urls for canary in CANARIES.values())
    written = _everything_in(tmp_path)
    written |= {f"output {number}": text for number, text in enumerate(printed)}
    with Archive(tmp_path / "results" / "canary") as archive:
        rows = [*archive.calls()]
        raws = [archive.raw_of(row.trial, row.at, row.attempt) for row in rows if row.status == "settled"]
        written |= {f"raw reply {number}": raw for number, raw in enumerate(raws)}
        written["rows"] = repr([*rows, *archive.trials(), *archive.messages(), *archive.artefacts()]).encode()
        extras = [archive.content_of(row.content) for row in archive.artefacts()]
        written |= {f"extras {number}": content for number, content in enumerate(extras)}
    everything = b"\0".join(written.values())
    assert extras, "the echoed headers were kept, without the keys in them"
    assert b"gen_ai.output.messages" in everything
    assert b"&lt;key&gt;" in everything or b"<key>" in everything
    assert len(rows) > 40
    found = {
        (name, canary)
        for name, text in written.items()
        for canary in CANARIES.values()
        if canary.encode() in text or canary.encode().hex().encode() in text
    }
    assert found == set()
