"""Exit codes: 0 only when every planned trial is done."""

from enum import IntEnum
from typing import TYPE_CHECKING

from trialrun.core import errors as e

if TYPE_CHECKING:
    from trialrun.engine.parts import Progress


class Exit(IntEnum):
    """What the process says when it ends; documented in docs/command-line.md."""

    DONE = 0
    BUG = 1
    USAGE = 2
    SOME_FAILED = 3
    BUDGET = 4
    PARKED = 5
    INTERRUPTED = 6
    STOPPED = 7
    CONSENT = 8
    STORE = 9
    DIFFERENT = 10


def exit_of(error: BaseException) -> Exit:
    """The code for an error that ends a command."""
    match error:
        case e.StudyMistakes() | e.UsageError():
            return Exit.USAGE
        case e.ConsentNeeded():
            return Exit.CONSENT
        case e.StoreError():
            return Exit.STORE
        case e.BudgetExhausted():
            return Exit.BUDGET
        case e.StudyStop():
            return Exit.STOPPED
        case e.TrialrunError():
            return Exit.USAGE
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            return Exit.BUG


def exit_after(progress: "Progress", planned: int, stopped_by: e.TrialrunError | None) -> Exit:
    """0 only when every planned trial is done, forks included; else the reason that most needs the user."""
    if stopped_by is not None:
        return exit_of(stopped_by)
    if progress.done_in_plan == planned and not progress.forks_left and not progress.forks_failed:
        return Exit.DONE
    if progress.stop:
        return Exit.INTERRUPTED
    if progress.stopped_by_budget:
        return Exit.BUDGET
    if progress.parked:
        return Exit.PARKED
    return Exit.SOME_FAILED
