"""Runs one trial and turns its ending into a fact.

T1. A trial is finished only when everything that it recorded is durable before it.
T2. What ends a trial from outside (budget, quota, a stop, parking) leaves it unfinished, never failed.
T3. Whatever a procedure raises fails that trial alone. An error of ours is not caught here: it stops the run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.ports import Outcome, Procedure
from trialrun.core.study import Trial
from trialrun.engine.lab import PASSING, StudyLab, raised_by
from trialrun.engine.sitting import Sitting
from trialrun.engine.time_limit import finish

GRACE_S = 5.0
"""So long a procedure may take to leave after it was cancelled."""


async def run_trial(sitting: Sitting, procedure: Procedure) -> f.TrialFact | None:
    """Run the trial from its beginning; what is recorded is answered from the record.

    Returns the fact that ends or parks it, not yet appended; None when the run is draining. Raises what stops the
    study: StudyStop, StoreError, KernelBug.
    """
    lab = StudyLab(sitting)
    limit_s = sitting.time_limit.seconds
    # Not in a TaskGroup: one that waits for a procedure which swallows its cancellation would wait for ever.
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_procedure(procedure, sitting.trial, lab, over))  # noqa: TID251
    try:
        await sitting.time_limit.wait(over)
    except asyncio.CancelledError:
        await _end(task, sitting)
        raise
    if task.done():
        return _ending(task, sitting)
    left = await _end(task, sitting)
    reason = f"the trial took longer than {limit_s} s"
    if not left:
        reason += f", and its procedure did not stop within {GRACE_S:.0f} s of being cancelled"
    return f.TimedOut(scope="trial", limit_s=limit_s or 0.0, reason=reason)


async def _procedure(
    procedure: Procedure, trial: Trial, lab: StudyLab, over: "asyncio.Future[None]"
) -> Outcome | e.Parked:
    """What the procedure returns. Says that it is over in its last step, whatever comes of it."""
    try:
        outcome = outcome_of(await procedure.run(trial, lab))
        lab.take_measures()
    except e.Parked as parked:
        # As a value and without its frames, which hold the task: what waits must go, and the collector comes seldom.
        return parked.with_traceback(None)
    except (*PASSING, Exception):
        raise
    except BaseException as error:
        raise e.ProcedureError(raised_by(error, __file__), fix="return, or raise an Exception") from error
    finally:
        finish(over)
    return outcome


async def _end(task: "asyncio.Task[Outcome | e.Parked]", sitting: Sitting) -> bool:
    """Close the lab to the procedure, cancel it, and give it a moment to leave."""
    sitting.is_revoked = True
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_S)
    # What it raises now or later is nobody's business any more.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task.done()


def _ending(task: "asyncio.Task[Outcome | e.Parked]", sitting: Sitting) -> f.TrialFact | None:
    raised = asyncio.CancelledError() if task.cancelled() else task.exception()
    # A procedure with a broad `except` may have swallowed the stop and gone on without the answer.
    error = sitting.stop or raised
    if error is None:
        outcome = task.result()
        if isinstance(outcome, e.Parked):
            return f.Waiting(waiting_for=outcome.waiting_for)
        return f.Finished(values=dict(outcome.values), end_reason=outcome.end_reason)
    if isinstance(error, e.StudyStop | e.StoreError):
        return _stopped(error)
    if isinstance(error, e.Drained):
        return None
    if isinstance(error, e.TrialTimeout):
        return f.TimedOut(scope="turn", limit_s=sitting.limits.turn_timeout_s or 0.0, reason=error.what)
    if isinstance(error, e.TrialError):
        reason = f"{error.what}; {error.fix}" if error.fix else error.what
        return _failed(error.boundary, type(error).__name__, reason, error.where)
    if isinstance(error, asyncio.CancelledError):
        return _failed("procedure", "CancelledError", "the procedure cancelled itself")
    if isinstance(error, Exception):
        return _failed("procedure", type(error).__name__, raised_by(error, __file__))
    raise error


def _stopped(error: e.StudyStop | e.StoreError) -> f.TrialFact:
    """A condition's or a trial's own cap ends only this trial; everything else stops the study."""
    if isinstance(error, e.BudgetExhausted) and error.level != "study":
        return f.StoppedByBudget(level=error.level)
    raise error


def _failed(boundary: e.Boundary, error: str, reason: str, at: str = "") -> f.Failed:
    return f.Failed(boundary=boundary, error=error, reason=reason, at=at)


def outcome_of(returned: object) -> Outcome:
    """What a procedure may return: an Outcome, a mapping of values, or nothing; with values that are plain data."""
    outcome = _as_outcome(returned)
    if outcome.values == {}:
        return outcome
    try:
        values = msgspec.json.decode(msgspec.json.encode(dict(outcome.values)), type=dict[str, object])
    except (TypeError, ValueError) as error:
        raise e.ProcedureError(
            f"the outcome is not plain data: {error}", fix="use numbers, texts, lists and mappings as values"
        ) from error
    return Outcome(values=values, end_reason=outcome.end_reason)


def _as_outcome(returned: object) -> Outcome:
    match returned:
        case None:
            return Outcome()
        case Outcome():
            return returned
        case Mapping():
            return Outcome(values={str(name): value for name, value in returned.items()})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            raise e.ProcedureError(
                f"the procedure returned a {type(returned).__name__}",
                fix="return an Outcome, a dict, or nothing",
            )


class Plain:
    """A plain async function as a Procedure."""

    def __init__(self, function: Callable[..., Awaitable[object]]) -> None:
        self._function = function

    async def run(self, trial: Trial, lab: object) -> Outcome:
        return _as_outcome(await self._function(trial, lab))
