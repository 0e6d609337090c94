"""Answers from a recorded study: the same question gets the replies that it got then, in their planned order.

A question is recognised by its model and its messages. Parameters, seeds and schemas are left out, as each protocol
spells them in its own way; system texts are joined, and so are messages that one side sent in a row.
"""

from collections.abc import Sequence
from pathlib import Path

from trialrun.core import identity
from trialrun.core.calls import Message, Usage
from trialrun.core.errors import UsageError
from trialrun.providers.reading import tokens_in_of, tokens_of
from trialrun.store.archive import Archive
from trialrun.store.tables import CallAttempt
from trialrun.testing.emulator.asked import Answer, Asked, refused


class Recorded:
    """The replies of one study's folder. A question that was put more often than it was answered begins again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[str, list[tuple[CallAttempt, str]]] = {}
        self._asked: dict[str, int] = {}
        with Archive(folder) as archive:
            for row in archive.calls():
                if row.status in ("settled", "confirmed") and row.text and not row.superseded:
                    request = archive.request_of(row.trial, row.at)
                    question = _question(request.model.partition("/")[2], request.messages)
                    text = archive.texts([row.text]).get(row.text, "")
                    self._replies.setdefault(question, []).append((row, text))
        if not self._replies:
            raise UsageError(
                "the study holds no reply", where=str(folder), fix="run or rehearse the study first"
            )

    async def answer(self, asked: Asked, key: bytes) -> Answer:
        question = _question(asked.model, asked.messages)
        replies = self._replies.get(question)
        if replies is None:
            raise refused(f"No reply to this request is recorded in {self._folder}.")
        times = self._asked[question] = self._asked.get(question, 0) + 1
        row, text = replies[(times - 1) % len(replies)]
        finish = row.finish or "stop"
        return Answer(
            text=text,
            usage=_usage(row, text, asked),
            finish="tool" if asked.tool is not None and finish == "stop" else finish,
            seconds=row.latency_s or 0.0,
        )


def _usage(row: CallAttempt, text: str, asked: Asked) -> Usage:
    """The tokens as they were counted then; our own count where nobody counted."""
    if row.tokens_in is None or row.tokens_out is None:
        return Usage(tokens_in=tokens_in_of(asked.request), tokens_out=tokens_of(text))
    return Usage(
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        tokens_cached=row.tokens_cached or 0,
        tokens_cache_write=row.tokens_cache_write or 0,
        tokens_reasoning=row.tokens_reasoning or 0,
    )


def _question(model: str, messages: Sequence[Message]) -> str:
    joined: list[tuple[str, str]] = [
        ("system", "\n\n".join(message.text for message in messages if message.role == "system"))
    ]
    for message in messages:
        if message.role == "system":
            continue
        if joined[-1][0] == message.role:
            joined[-1] = (message.role, f"{joined[-1][1]}\n\n{message.text}")
        else:
            joined.append((message.role, message.text))
    return identity.digest([model, joined])
