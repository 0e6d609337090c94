"""What the two batch APIs of Google share: the words for states, and errors by the codes of its procedure calls."""

from collections.abc import Mapping
from types import MappingProxyType

from trialrun.core.batches import Phase
from trialrun.providers.batches.route import phase_in

_PHASES: Mapping[str, Phase] = MappingProxyType(
    {
        "QUEUED": "queued",
        "PENDING": "queued",
        "RUNNING": "running",
        "UPDATING": "running",
        "PAUSED": "running",
        "CANCELLING": "cancelling",
        "SUCCEEDED": "ended",
        "PARTIALLY_SUCCEEDED": "ended",
        "CANCELLED": "ended",
        "EXPIRED": "ended",
        "FAILED": "failed",
    }
)
_STOPPED = ("CANCELLED", "EXPIRED")
# 1 is CANCELLED: not a failure, see `never_ran`.
_STATUSES: Mapping[int, int] = MappingProxyType(
    {
        2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503,
        15: 500, 16: 401,
    }
)  # fmt: skip
CANCELLED = 1


def bare(word: str) -> str:
    """A state without its prefix: `BATCH_STATE_RUNNING` on the wire is `JOB_STATE_RUNNING` in the client."""
    return word.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")


def phase_of(word: str, *, has_results: bool) -> Phase:
    """The phase for a state."""
    phase = phase_in(_PHASES, bare(word))
    return "ended" if phase == "failed" and has_results else phase


def is_stopped(word: str) -> bool:
    """Whether it ended before all of it ran: no line is written for what did not."""
    return bare(word) in _STOPPED


def status_of(code: int) -> int:
    """The status that a live call would have had."""
    return _STATUSES.get(code, code if 400 <= code < 600 else 500)


def count(value: int | str | None) -> int | None:
    """A count, which Google writes as text; below zero it stands for one that nobody knows."""
    try:
        number = int(value) if value is not None else None
    except ValueError:
        return None
    return number if number is None or number >= 0 else None
