"""A child process that writes to a journal until somebody kills it, or until the disk refuses.

    python child_store.py FOLDER WRITERS [FILE_LIMIT_BYTES]

Every fact carries its number in the order of all appends. A line on stdout says, after each commit, up to which number
the writer's own facts are acknowledged.
"""

import asyncio
import os
import resource
import sys
import time
from itertools import count
from pathlib import Path

from trialrun.core import facts as f
from trialrun.core.errors import StoreError, StudyLocked
from trialrun.core.identity import text_hash
from trialrun.store.journal import SqliteJournal


class Clock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def write(journal: SqliteJournal, numbers: "count[int]") -> None:
    for own in count():
        trial = f"t{next(numbers)}"
        number = int(trial[1:])
        text = f"text of {trial}"
        journal.append(
            trial,
            [
                f.Started(
                    condition="c", levels={}, replicate=own, block=0, planned=number, actual=number, spec=""
                ),
                f.Ticked(at="n", now=number),
            ],
            {text_hash(text): text},
        )
        journal.append(trial, [f.Said(at="s", turn=1, party="a", text=text_hash(text))])
        await journal.commit()
        if own % 3:
            journal.append(trial, [f.Ticked(at="m", now=(number := next(numbers))), f.Cancelled(reason="")])
            await journal.commit()
        os.write(1, f"{number}\n".encode())


async def main() -> int:
    folder, writers = Path(sys.argv[1]), int(sys.argv[2])
    try:
        journal = SqliteJournal.open(folder, clock=Clock())
    except StudyLocked as error:
        sys.stderr.write(error.report())
        return 1
    if len(sys.argv) > 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
    numbers = count(1)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(writers):
                group.create_task(write(journal, numbers))
    except* StoreError as errors:
        first = errors.exceptions[0]
        sys.stderr.write(f"{first}\n{getattr(first, 'fix', '')}\n")
    await journal.close()
    return 3


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
