"""Keeps Python's garbage collector from walking everything again and again while a study runs.

A run makes much garbage and few cycles. With the usual thresholds the collector walks all modules, prices and open
trials many times a second, for a fifth of the CPU of a call.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_YOUNG = 20_000
_OLDER = 20


@contextmanager
def collected_seldom() -> Generator[None]:
    """What exists now is not looked at until the end, and what comes is looked at less often."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
