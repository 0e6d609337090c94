"""What the tests of batches share: an emulator whose time stands still, and batches of OpenAI with its SDK."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import openai

from trialrun.testing.clock import ManualClock
from trialrun.testing.emulator import Emulator

DAY_S = 86_400.0
STEADY: dict[str, Any] = {
    "validating_s": 10,
    "queued_s": 10,
    "running_s": 100,
    "finalizing_s": 10,
    "cancelling_s": 20,
    "jitter": 0,
}


def emulator(*faults: dict[str, Any], batches: dict[str, Any] | None = None, **script: Any) -> Emulator:
    """Time moves only when it is wound. A batch runs from second 20 to 120, and ends at 130."""
    given = {"batches": {**STEADY, **(batches or {})}, "faults": faults, **script}
    return Emulator(given, clock=ManualClock())


def openai_at(server: Emulator, provider: str = "openai", key: str = "sk-one") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.base_url(provider), api_key=key, max_retries=0)


def chat(number: int, **more: Any) -> dict[str, Any]:
    content = f"This is the day number {number}. How was it?"
    messages = [{"role": "user", "content": content}]
    return {"model": "gpt-4.1-mini", "messages": messages, "max_completion_tokens": 60, **more}


def ids(count: int) -> list[str]:
    return [f"r{number}" for number in range(count)]


def openai_file(
    bodies: Sequence[dict[str, Any]], *, url: str = "/v1/chat/completions", custom: Sequence[str] = ()
) -> bytes:
    names = custom or ids(len(bodies))
    lines = [
        {"custom_id": name, "method": "POST", "url": url, "body": body}
        for name, body in zip(names, bodies, strict=True)
    ]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


async def openai_batch(
    client: openai.AsyncOpenAI, count: int = 5, *, input_: bytes = b"", **more: Any
) -> Any:
    """Upload so many requests, and begin a batch with them."""
    content = input_ or openai_file([chat(number) for number in range(count)])
    file = await client.files.create(file=("pack.jsonl", content), purpose="batch")
    settings: dict[str, Any] = {"endpoint": "/v1/chat/completions", "completion_window": "24h", **more}
    return await client.batches.create(input_file_id=file.id, **settings)


async def lines_of(client: openai.AsyncOpenAI, file: str | None) -> list[dict[str, Any]]:
    """The results in a file, in their order; none if there is no file."""
    if file is None:
        return []
    content = await client.files.content(file)
    return [json.loads(line) for line in content.text.splitlines()]


async def look(client: openai.AsyncOpenAI, batch: str) -> Any:
    """The batch as it is now."""
    return await client.batches.retrieve(batch)
