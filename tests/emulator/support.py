"""What the tests of the emulator share: plain requests, without any client library's help or opinion."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trialrun.testing.emulator import Emulator

HELLO: dict[str, Any] = {"role": "user", "content": "Hello. How was the wedding?"}
CHAT: dict[str, Any] = {"model": "gpt-4.1-mini", "messages": [HELLO], "max_completion_tokens": 300}
MESSAGES: dict[str, Any] = {"model": "claude-haiku-4-5", "messages": [HELLO], "max_tokens": 300}
GEMINI: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
    "generationConfig": {"maxOutputTokens": 300},
}
PATHS = {
    "openai": "/openai/v1/chat/completions",
    "anthropic": "/anthropic/v1/messages",
    "gemini": "/gemini/v1/models/gemini-2.0-flash:generateContent",
}
BODIES = {"openai": CHAT, "anthropic": MESSAGES, "gemini": GEMINI}


def key_header(provider: str, key: str = "sk-one") -> dict[str, str]:
    match provider:
        case "anthropic":
            return {"x-api-key": key}
        case "gemini":
            return {"x-goog-api-key": key}
        case _:
            return {"authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Reply:
    """What came over the wire until the connection ended or the body was whole."""

    status: int
    headers: dict[str, str]
    body: bytes
    wanted: int
    """The length that the headers promise."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def ask(
    server: Emulator,
    provider: str = "openai",
    body: Mapping[str, Any] | bytes | None = None,
    *,
    path: str = "",
    key: str = "sk-one",
    headers: Mapping[str, str] | None = None,
) -> Reply | None:
    """One request on a connection of its own; None if the connection ended without a reply."""
    given = BODIES.get(provider, CHAT) if body is None else body
    content = given if isinstance(given, bytes) else msgspec.json.encode(given)
    fields = {**key_header(provider, key), **(headers or {})}
    return await send(
        server, path or PATHS.get(provider, f"/{provider}/v1/chat/completions"), content, fields
    )


async def send(
    server: Emulator, path: str, content: bytes, headers: Mapping[str, str], *, method: str = "POST"
) -> Reply | None:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        fields = {"host": host, "content-length": str(len(content)), "connection": "close", **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        raw = bytearray()
        try:
            while piece := await reader.read(65536):
                raw += piece
        except ConnectionError:
            pass
        return _read(bytes(raw)) if raw else None
    finally:
        writer.close()


async def ask_many(server: Emulator, count: int, provider: str = "openai", **more: Any) -> list[Reply | None]:
    """Requests side by side, each with its own text."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                ask(server, provider, {**CHAT, "messages": [{**HELLO, "content": f"{n}"}]}, **more)
            )
            for n in range(count)
        ]
    return [task.result() for task in tasks]


def _read(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(int(first.split()[1]), headers, body, int(headers.get("content-length", len(body))))
