"""Lists as Google and xAI give them: so many objects, and a word with which to go on."""

from collections.abc import Sequence
from typing import TypeVar

from trialrun.testing.emulator.asked import refused
from trialrun.testing.emulator.batches.door import Caller

T = TypeVar("T")


def paged(
    found: Sequence[T], caller: Caller, *, usual: int, size: str = "pageSize", word: str = "pageToken"
) -> tuple[Sequence[T], str]:
    """The page that is asked for, and the word for the next one; empty if this is the last."""
    wanted, token = caller.asked(size) or str(usual), caller.asked(word) or "0"
    if not wanted.isdigit() or not token.isdigit():
        raise refused("Request contains an invalid argument: a page.")
    begin, count = int(token), max(1, int(wanted))
    return found[begin : begin + count], str(begin + count) if begin + count < len(found) else ""
