"""Which failed attempts are worth another one, and when it may leave."""

import pytest

from trialrun.core.errors import CallError, CallTimedOut, RequestRefused, Throttled, Unavailable
from trialrun.core.retry import LONGEST_WAIT_S, next_wait


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("asked_s", [0.5, 30.0, 3600.0])
@pytest.mark.parametrize("kind", [Throttled, Unavailable])
def test_what_a_provider_asks_for_is_never_cut_short(
    kind: type[Throttled | Unavailable], asked_s: float, jitter: float
) -> None:
    wait = next_wait(kind("later", retry_after_s=asked_s), attempt=1, attempts=6, jitter=jitter)
    assert wait is not None
    assert asked_s <= wait <= asked_s + 1


@pytest.mark.parametrize("error", [Throttled("busy"), Unavailable("down"), CallTimedOut("no reply")])
def test_without_such_a_word_the_waits_grow_and_end(error: CallError) -> None:
    waits = [next_wait(error, attempt=attempt, attempts=12, jitter=0.0) for attempt in range(1, 13)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[10] == LONGEST_WAIT_S / 2, "they stop to grow"
    assert waits[11] is None, "attempts are finite"


def test_a_refusal_is_final() -> None:
    assert next_wait(RequestRefused("no", status=400), attempt=1, attempts=6, jitter=0.5) is None
