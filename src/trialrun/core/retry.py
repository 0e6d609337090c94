"""Which failed attempt is worth another one, and when."""

from trialrun.core.errors import CallError, CallTimedOut, Throttled, Unavailable

LONGEST_WAIT_S = 60.0


def next_wait(error: CallError, *, attempt: int, attempts: int, jitter: float) -> float | None:
    """Seconds to wait before the next attempt, or None to give up. `jitter` is the caller's draw from [0, 1).

    A provider's own Retry-After is obeyed even when it is longer than our longest wait: coming back earlier would
    only be refused again.
    """
    if attempt >= attempts:
        return None
    backoff = min(LONGEST_WAIT_S, 2.0 ** (attempt - 1)) * (0.5 + jitter / 2)
    match error:
        case (
            Throttled(retry_after_s=float() | int() as asked)
            | Unavailable(retry_after_s=float() | int() as asked)
        ):
            return asked + min(1.0, backoff) * jitter
        case Throttled() | Unavailable() | CallTimedOut():
            return backoff
        case _:
            return None
