"""Exit codes: 0 only when every planned trial is done."""

from enum import IntEnum

from trialrun.core import errors as e


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
