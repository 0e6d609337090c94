"""What a user may want to do next, given where a study stands: commands to copy, each with its reason."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from trialrun.app.exits import Exit
from trialrun.app.findings.tables import StudyTable
from trialrun.core.reading.flags import BUDGET, flag_words

_OF_A_LANE = ("rehearsal.", "batch.")
Step = tuple[str, str]
"""A command, and what it is good for."""


def next_steps(table: StudyTable, named: str, most: int = 4) -> list[Step]:
    """The commands that fit best, the most urgent first. `named` is how the user calls the study."""
    return list(_steps(table, named))[:most]


def carrying_out(command: str, named: str, overrides: Mapping[str, object], *more: str) -> str:
    """`plan`, `rehearse` or `run` with the flags by which a study became what it is, as far as the command has them."""
    known = {"plan": (), "rehearse": ("rehearsal.",), "run": ("batch.",)}[command]
    words = [
        word
        for path, value in sorted(overrides.items())
        if not path.startswith(_OF_A_LANE) or path.startswith(known)
        for word in flag_words(path, value)
    ]
    return shlex.join(["trialrun", command, named, *words, *more])


def _steps(table: StudyTable, named: str) -> Iterator[Step]:
    study = shlex.quote(named)
    command = "rehearse" if table.is_rehearsal else "run"
    again = carrying_out(command, named, table.overrides)
    if table.worked_on_by is not None:
        yield f"trialrun watch {study}", "follow the run"
        yield f"trialrun stop {study}", "end it in good order"
        return
    if table.in_batches:
        trials = _so_many(table.in_batches, "trial waits", "trials wait")
        yield f"trialrun collect {study}", f"look at the batches once, and hand in what follows; {trials}"
    if table.for_people:
        yield (
            f"trialrun answer {study}",
            _so_many(table.for_people, "trial waits", "trials wait") + " for an answer",
        )
    match table.exit:
        case Exit.BUDGET if table.capped and "budget_usd.study" not in table.capped:
            raised = {
                **table.overrides,
                **{path: float(2 * cap) for path, cap in table.capped.items() if cap},
            }
            yield carrying_out(command, named, raised), "go on with a higher limit"
        case Exit.BUDGET:
            capped = {path: value for path, value in table.overrides.items() if path not in BUDGET}
            raised = carrying_out(command, named, capped, "--budget", _more_than(table))
            yield raised, "go on with a higher budget"
        case Exit.SOME_FAILED:
            broken = table.failed + table.forks_with("failed", "timed_out", "cancelled")
            failed = _so_many(broken, "failed trial", "failed trials")
            yield f"{again} --retry-failed", f"take up {failed} again"
        case Exit.INTERRUPTED if table.done == table.planned:
            yield again, "carry out " + _so_many(table.forks_unfinished, "fork", "forks")
        case Exit.INTERRUPTED:
            yield again, "go on where it stopped; nothing is paid twice"
        case Exit.DONE if table.is_rehearsal and not _is_folder(named):
            yield carrying_out("run", named, table.overrides), "the same with real models"
        case _:
            pass
    if unanswered := sum(row.unanswered for row in table.passes):
        ratings = _so_many(unanswered, "rating", "ratings")
        yield (
            f"trialrun judge {study} --retry-failed",
            f"ask raters again for {ratings} without a usable answer",
        )
    if table.exit == Exit.DONE:
        yield f"trialrun analyze {study} --report", "what the factors do to the measures, with intervals"
    if table.done:
        yield f"trialrun export {study}", "tables of trials, messages, calls and measures"
    if table.exit == Exit.DONE:
        yield f"trialrun verify {study}", "replay everything offline and compare"
    if table.money.doubts:
        calls = _so_many(table.money.doubts, "call", "calls")
        yield f"trialrun doctor {study}", f"{calls} may or may not have been billed"


def _is_folder(named: str) -> bool:
    """A results folder stays in its lane; a study file can be run in both."""
    return Path(named).is_dir()


def _more_than(table: StudyTable) -> str:
    budget = table.money.budget_usd
    return f"{2 * budget:f}" if budget else "USD"


def _so_many(number: int, one: str, several: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {several}"
