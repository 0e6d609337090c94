"""Where a lab is in its trial: which address comes next, what the record has there, and whether it is the same.

L1. Positions are numbered in the order of the procedure's own code; branches get theirs before they start. So an
    address means the same thing in every replay, whatever the timing.
L3. What is recorded at an address is given only to the same deed. Anything else is reported, never answered.
"""

from asyncio import Task, current_task
from collections.abc import Mapping
from typing import Any

import msgspec

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.engine.sitting import Sitting


class Bearings:
    """The place of one task of one trial."""

    def __init__(self, sitting: Sitting, *, scope: str = "") -> None:
        self.sitting = sitting
        self.scope = scope
        self._position = 0
        self._owner: Task[Any] | None = None

    def next(self) -> str:
        """The address of what happens now."""
        self.check_owner()
        if self.sitting.is_over:
            raise e.Drained
        address = f"{self.scope}.{self._position}" if self.scope else str(self._position)
        self._position += 1
        self.sitting.visited.add(address)
        return address

    def check_owner(self) -> None:
        task = current_task()
        if self._owner is None:
            self._owner = task
        elif task is not self._owner:
            raise e.ProcedureError(
                "a lab was used from another task than its own, so the order of what happens depends on timing",
                where=self.sitting.trial.id,
                fix="run work side by side with `lab.together(...)`: each branch gets a lab of its own; "
                "bound time with `asyncio.timeout`, not `asyncio.wait_for`",
            )

    def record(self, fact: f.TrialFact, texts: Mapping[str, str | bytes] | None = None) -> None:
        """Write a fact, or, if the record has one at this address, make sure that it is the same."""
        address: str = getattr(fact, "at")  # noqa: B009 - every deed has one; the union is wider than the deeds
        known = self.sitting.record.deeds.get(address)
        if known is None:
            if self.sitting.mode == "verify":
                raise self.not_recorded(address, f.tag_of(fact))
            self.sitting.write(fact, texts)
        elif known != fact:
            self.differs(address, f"{_words(known)} became {_words(fact)}")

    def differs(self, address: str, how: str) -> None:
        if self.sitting.mode == "verify":
            self.sitting.differences.append(f"{self.place(address)}: {how}")
            return
        raise e.ReplayMismatch(
            f"the trial does something else than before: {how}",
            where=self.place(address),
            fix="a procedure may depend on nothing but its trial and its lab: no clock, set order, or global random; "
            "if you changed it on purpose, run with `--redo`",
        )

    def not_recorded(self, address: str, what: str) -> e.ReplayMismatch:
        return e.ReplayMismatch(f"{what} is not in the journal", where=self.place(address))

    def place(self, address: str) -> str:
        return f"{self.sitting.trial.id}/{address}"


def _words(fact: f.TrialFact) -> str:
    return f"{f.tag_of(fact)} {msgspec.json.encode(fact).decode()[:120]}"
