"""A child process that runs a study until somebody kills it. Its far end keeps a book that no kill can touch.

    python child_study.py STUDY_FILE FOLDER BOOK [DELAY_S]

The book has one line when an attempt reaches the far end (`sent`) and one when the far end bills it (`billed`), written
with a single system call each, as a provider's own records would be.
"""

import asyncio
import os
import sys
from pathlib import Path

from trialrun.app.running import run_study
from trialrun.app.studies import load
from trialrun.core.calls import Call, RawReply
from trialrun.providers.rehearsal import RehearsalProvider


class Booking(RehearsalProvider):
    """The rehearsal, with a book and with a latency that depends on the call."""

    def __init__(self, book: Path, delay_s: float) -> None:
        super().__init__()
        self._book = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._delay_s = delay_s

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        os.write(self._book, f"sent {call.place} {attempt}\n".encode())
        await asyncio.sleep(self._delay_s * (0.5 + call.key[0] / 255))
        raw = await super().send(call, body, attempt=attempt, timeout_s=timeout_s)
        os.write(self._book, f"billed {call.place} {attempt}\n".encode())
        return raw


async def main() -> int:
    file, folder, book = (Path(argument) for argument in sys.argv[1:4])
    delay_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.005
    plan = load(file, lane="rehearsal", folder=folder)
    provider = Booking(book, delay_s)
    ran = await run_study(plan, route=lambda _: provider)
    return int(ran.exit)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
