"""What a careful script does, for comparison: aiohttp, one row a call in SQLite, a commit every 50 ms. No budget, no
retries, no limits, no transcript, no way to go on after a kill."""

import asyncio
import sqlite3
import time
from pathlib import Path

import aiohttp
import msgspec

from bench.common import SYSTEM, question_of

_COMMIT_EVERY_S = 0.05
_PARTIES = ("therapist", "client")


class _Message(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Message


class _Reply(msgspec.Struct):
    choices: list[_Choice]


_READ = msgspec.json.Decoder(_Reply)


class _Journal:
    """Rows wait in a list; one transaction writes them."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "journal.db", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE call (id INTEGER PRIMARY KEY, trial INTEGER, turn INTEGER, body BLOB, at REAL)"
        )
        self._waiting: list[tuple[int, int, bytes, float]] = []

    def put(self, trial: int, turn: int, body: bytes) -> None:
        self._waiting.append((trial, turn, body, time.time()))

    def commit(self) -> None:
        rows, self._waiting = self._waiting, []
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO call (trial, turn, body, at) VALUES (?, ?, ?, ?)", rows)
        self._db.execute("COMMIT")

    async def keep_committing(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_EVERY_S)
            self.commit()


async def main(url: str, folder: Path, *, trials: int, turns: int, open_trials: int) -> int:
    """As many calls as Trialrun makes for the same study. Returns how many were stored."""
    journal, numbers, stored = _Journal(folder), iter(range(trials)), 0
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=open_trials),
        headers={"Authorization": "Bearer bench", "Content-Type": "application/json"},
    )

    async def ask(messages: list[dict[str, str]]) -> bytes:
        body = msgspec.json.encode({"model": "m", "messages": messages, "max_tokens": 300})
        async with session.post(f"{url}/chat/completions", data=body) as response:
            content = await response.read()
            assert response.status == 200, content
            return content

    async def trial(number: int) -> None:
        nonlocal stored
        said: list[str] = []
        for turn in range(2 * turns or 1):
            body = await ask(_messages(number, turn, said))
            said.append(_READ.decode(body).choices[0].message.content)
            journal.put(number, turn, body)
            stored += 1

    async def worker() -> None:
        for number in numbers:
            await trial(number)

    async with asyncio.TaskGroup() as group:
        committing = group.create_task(journal.keep_committing())
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(open_trials, trials)):
                workers.create_task(worker())
        committing.cancel()
    journal.commit()
    await session.close()
    return stored


def _messages(number: int, turn: int, said: list[str]) -> list[dict[str, str]]:
    messages = [
        {"role": "system", "content": f"{SYSTEM}warm"},
        {"role": "user", "content": question_of(number)},
    ]
    for place, text in enumerate(said):
        messages.append({"role": "assistant" if place % 2 == turn % 2 else "user", "content": text})
    return messages
