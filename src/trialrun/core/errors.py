"""Every error that a user or a trial can meet, as one tree.

    TrialrunError                     says what, where, and the fix
    ├── StudyMistakes                 the study file is wrong; all mistakes together, before anything is spent
    ├── UsageError                    the command cannot be carried out as given
    ├── ConsentNeeded                 the plan changed under finished trials; the user has to say what to do
    ├── StoreError                    the study's folder or database cannot be used as it is
    │   ├── StudyLocked               another process works on it
    │   └── StoreCorrupt              a stored row does not read back as it was written
    ├── StudyStop                     ends the run for a reason outside the trials; nothing is lost
    │   ├── BudgetExhausted           the next call could pass a cap
    │   ├── QuotaExhausted            the account's own limit; the study pauses
    │   ├── AuthRefused               the key is wrong or revoked
    │   └── BreakerOpen               the same failure again and again
    └── TrialError                    fails one trial and touches no other; carries the boundary that broke
        ├── ProcedureError            the procedure raised, or broke a rule of the lab
        │   └── ReplayMismatch        a replayed trial asked something else than what is recorded
        ├── ActFailed                 a side effect raised; a replay hears the same
        ├── ReplyUnreadable           paid, but not what was asked for
        ├── TrialTimeout              a time limit of the study
        └── CallError                 one attempt of a call failed; `core.retry` says what follows
            ├── Throttled             429: too many; not billed
            ├── Unavailable           5xx, overload, no connection
            ├── CallTimedOut          no reply in time; nobody knows whether it was billed
            └── RequestRefused        4xx: the body is wrong; the same body will fail again

`Parked` and `Drained` are not errors: they unwind a trial that waits for something slow, or that a user stopped.
`KernelBug` is an error of ours. All three derive from BaseException, so that a procedure's `except Exception` cannot
swallow them.
"""

from dataclasses import dataclass
from typing import Literal

Boundary = Literal["procedure", "provider", "judge", "workspace", "limit", "store"]
Billing = Literal["no", "unknown"]


class TrialrunError(Exception):
    """What is wrong, where, and what to do about it."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        # Who meets the error in a notebook or a script reads a traceback, which shows notes and not our report.
        if place_and_fix := TrialrunError.report(self).partition("\n")[2]:
            self.add_note(place_and_fix)

    def __str__(self) -> str:
        return self.what

    def report(self) -> str:
        """The error as a user reads it."""
        lines = [f"error: {self.what}"]
        lines += [f"  --> {line}" if i == 0 else line for i, line in enumerate(self.where.splitlines())]
        if self.fix:
            lines.append(f" fix: {self.fix}")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One thing that is wrong in a study file."""

    what: str
    file: str = ""
    line: int | None = None
    source: str = ""
    fix: str = ""

    def report(self) -> str:
        lines = [f"error: {self.what}"]
        if self.file:
            lines.append(f"  --> {self.file}" + (f":{self.line}" if self.line else ""))
        if self.line and self.source:
            lines.append(f"{self.line:>3} | {self.source.rstrip()}")
        if self.fix:
            lines.append(f" fix: {self.fix}")
        return "\n".join(lines)


class StudyMistakes(TrialrunError):
    """All mistakes of a study file at once."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        first = mistakes[0]
        where = first.file + (f":{first.line}" if first.line else "")
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(first.what + more, where=where, fix=first.fix)
        self.mistakes: tuple[Mistake, ...] = mistakes
        self.__notes__ = [self.report()]

    def report(self) -> str:
        return "\n\n".join(mistake.report() for mistake in self.mistakes)


class UsageError(TrialrunError):
    """The command cannot be carried out as given."""


class ConsentNeeded(TrialrunError):
    """The plan changed under trials that already ran."""


class StoreError(TrialrunError):
    """The study's folder or database cannot be used as it is."""


class StudyLocked(StoreError):
    """Another process works on this study."""


class StoreCorrupt(StoreError):
    """A stored row does not read back as it was written."""


class StudyStop(TrialrunError):
    """Ends the run for a reason outside the trials; unfinished trials stay unfinished."""


class BudgetExhausted(StudyStop):
    """The next call could pass a cap. `level` is study, condition or trial."""

    def __init__(self, what: str, *, level: str, where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.level = level


class QuotaExhausted(StudyStop):
    """The account's own spending or usage limit is reached."""


class AuthRefused(StudyStop):
    """The provider does not accept the key."""


class BreakerOpen(StudyStop):
    """The same failure came again and again; going on would only repeat it."""


class TrialError(TrialrunError):
    """Fails one trial. `boundary` names the part that broke."""

    boundary: Boundary = "procedure"


class ProcedureError(TrialError):
    """The procedure raised, or broke a rule of the lab."""


class ReplayMismatch(ProcedureError):
    """A replayed trial asked something else than what its journal holds."""


class ActFailed(TrialError):
    """A side effect of the procedure (`lab.act`) raised."""

    boundary: Boundary = "workspace"


class ReplyUnreadable(TrialError):
    """A reply that was paid for cannot be read as what was asked.

    `text` is what the model wrote, where that much could be read and another form of it would do.
    """

    boundary: Boundary = "provider"

    def __init__(self, what: str, *, where: str = "", fix: str = "", text: str | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.text = text


class TrialTimeout(TrialError):
    """A time limit of the study was reached."""

    boundary: Boundary = "limit"


class CallError(TrialError):
    """One attempt of a call failed. `billed` says whether it may have cost money."""

    boundary: Boundary = "provider"

    def __init__(
        self, what: str, *, billed: Billing = "no", status: int | None = None, where: str = "", fix: str = ""
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.billed: Billing = billed
        self.status = status


class Throttled(CallError):
    """Too many requests or tokens for this minute."""

    def __init__(self, what: str, *, retry_after_s: float | None = None, status: int | None = 429) -> None:
        super().__init__(what, billed="no", status=status)
        self.retry_after_s = retry_after_s


class Unavailable(CallError):
    """The provider is overloaded, broken or out of reach."""

    def __init__(
        self,
        what: str,
        *,
        billed: Billing = "no",
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(what, billed=billed, status=status)
        self.retry_after_s = retry_after_s


class CallTimedOut(CallError):
    """No reply in time: nobody knows whether the provider ran and billed it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, billed="unknown")


class RequestRefused(CallError):
    """The provider refuses this body; the same body will be refused again."""


class Parked(BaseException):
    """Unwinds a trial that waits for something slow; it is replayed onward when that has come."""

    def __init__(self, waiting_for: str) -> None:
        super().__init__(waiting_for)
        self.waiting_for = waiting_for


class Drained(BaseException):
    """Unwinds a trial because the run is stopping; the trial stays unfinished and goes on with the next run."""


class KernelBug(BaseException):
    """Something broke in Trialrun itself. It stops the run, loudly."""
