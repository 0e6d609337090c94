"""A child process that runs a study in batches until somebody kills it, on a clock that is in a hurry.

    python child_batches.py STUDY_FILE FOLDER

The far end is where the environment says. An hour of waiting takes eighteen seconds: pauses that are right for a
provider are none for a test.
"""

import asyncio
import sys
from pathlib import Path

from trialrun.app.clock import SystemClock
from trialrun.app.running import run_study
from trialrun.app.studies import load

HASTE = 200.0


class HastyClock(SystemClock):
    """Sleeps shorter than it is asked to."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / HASTE)


async def main() -> int:
    file, folder = (Path(argument) for argument in sys.argv[1:3])
    plan = load(file, lane="batch", folder=folder)
    return int((await run_study(plan, clock=HastyClock())).exit)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
