"""When batches are not waited for any more. One deadline for all waves of a study, counted from its first batch.

A run that continues counts on: what is out belongs to the same wait, and so does what came back while it lasted.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from trialrun.core.batches import PackStore
from trialrun.core.packs import Pack
from trialrun.core.ports import Clock, Journal
from trialrun.core.study import Batching

REASON = "the deadline has passed"
_PAUSE_S = 600.0
"""So long nothing may have been out, and it is still one wait."""
_ROWS_AT_ONCE = 500


class Deadline:
    """Whether the time of the batches is up."""

    def __init__(self, settings: Batching, clock: Clock, announce: Callable[[], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._announce = announce
        self._began_at: float | None = None
        self._is_over = False
        self._is_announced = False

    def begin(self, at: float) -> None:
        """A batch was made."""
        self._began_at = at if self._began_at is None else min(at, self._began_at)

    def go_on(self, packs: Iterable[Pack]) -> None:
        """Count on from where earlier runs began to wait for what is out."""
        made = [pack for pack in packs if pack.created_at is not None]
        for pack in sorted(made, key=_created_at, reverse=True):
            if (pack.is_open and pack.stage != "doubted") or (
                self._began_at is not None and (pack.closed_at or 0.0) >= self._began_at - _PAUSE_S
            ):
                self.begin(_created_at(pack))

    async def recall(self, packs: Iterable[Pack], files: PackStore, journal: Journal) -> None:
        """A run that was stopped after the deadline goes on live with what it had pulled out of batches."""
        if self._settings.deadline_s is None or self._settings.then != "live":
            return
        for pack in packs:
            if pack.is_open or not pack.is_cancelled:
                continue
            rows = files.rows(pack.id)
            while not self._is_over and (some := list(islice(rows, _ROWS_AT_ONCE))):
                states = await journal.states([row.trial for row in some])
                self._is_over = any(not state.is_ended for state in states.values())

    @property
    def left_s(self) -> float:
        """Seconds until then; without a deadline, or before the first batch, for ever."""
        if self._is_over:
            return 0.0
        if self._settings.deadline_s is None or self._began_at is None:
            return float("inf")
        return max(0.0, self._began_at + self._settings.deadline_s - self._clock.now())

    @property
    def is_past(self) -> bool:
        is_past = self.left_s <= 0
        if is_past and not self._is_announced:
            self._is_announced = True
            self._announce()
        return is_past


def _created_at(pack: Pack) -> float:
    return pack.created_at or 0.0
