"""The Python API: declare a study, plan it, run it, and have its results as data frames.

`run` works in a script and in a notebook, where an event loop runs already: then the study gets a thread and a loop of
its own. Ctrl-C lets calls in flight settle, and only then raises KeyboardInterrupt; a second one stops at once.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO, cast, get_args

import msgspec

from trialrun.app import studies
from trialrun.app.changes import Consent
from trialrun.app.environment import read_env
from trialrun.app.findings.results import Results
from trialrun.app.live import Live
from trialrun.app.loops import waited_for
from trialrun.app.previewing import preview_of_news
from trialrun.app.running import Control, Options, Ran, run_study
from trialrun.app.studies import Lane, Plan
from trialrun.core.errors import UsageError
from trialrun.core.near import pick

Function = Callable[..., Awaitable[object]]

__all__ = ["Draft", "Planned", "Results", "load", "plan", "run", "study"]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A study that was declared in Python."""

    document: Mapping[str, object]
    procedures: Mapping[str, Function] = field(default_factory=dict[str, Function])
    home: Path = field(default_factory=Path)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a study would run. Ranges are from short replies to long ones."""

    study: str
    conditions: int
    trials: int
    calls: tuple[float, float]
    cost_usd: tuple[float, float] | None
    """None: some price is not known."""
    ceiling_usd: float | None
    duration_s: tuple[float, float]
    budget_usd: Decimal | None
    folder: Path
    notes: tuple[str, ...]


def study(
    document: Mapping[str, object], *, procedure: Function | None = None, home: str | os.PathLike[str] = "."
) -> Draft:
    """A study from a dict with the keys of a study file. `procedure` is an `async def f(trial, lab)`.

    Relative paths, and the folder `results`, start from `home`.
    """
    if procedure is None:
        return Draft(document=dict(document), home=Path(home))
    name = procedure.__name__
    return Draft(document={**document, "procedure": name}, procedures={name: procedure}, home=Path(home))


def plan(study: Any, *, lane: Lane = "live", set: Mapping[str, object] | None = None) -> Planned:  # noqa: A002  # as the flag
    """What the study would run and cost. Raises when it cannot work, before anything is spent."""
    from trialrun.app.clock import SystemClock
    from trialrun.app.lanes import Lanes
    from trialrun.app.previewing import preview

    made = _plan_of(study, lane=lane, folder=None, overrides=set or {})
    found = waited_for(lambda: preview(made, Lanes(made, SystemClock()).prices))
    whole, cost = found.all_trials, found.all_trials.cost_usd
    return Planned(
        study=made.study.name,
        conditions=found.conditions,
        trials=found.trials,
        calls=(whole.calls.low, whole.calls.high),
        cost_usd=(cost.low, cost.high) if cost else None,
        ceiling_usd=whole.ceiling_usd,
        duration_s=(found.duration_s.low, found.duration_s.high),
        budget_usd=made.study.budget.study_usd,
        folder=made.folder,
        notes=found.notes,
    )


def run(
    study: Any,
    *,
    lane: Lane = "live",
    folder: str | os.PathLike[str] | None = None,
    replicates: int | None = None,
    budget_usd: "Decimal | float | str | None" = None,
    seed: int | None = None,
    open_trials: int | None = None,
    set: Mapping[str, object] | None = None,  # noqa: A002  # as the flag
    on_change: Consent = "ask",
    retry_failed: bool = False,
    wait: bool = False,
    progress: bool | Callable[[Live], None] = True,
) -> Results:
    """Run what is unfinished of a study: a path, a dict, or what `tr.study` returned.

    The arguments are the flags of `trialrun run`, and go before the study file. `set` puts values at dotted paths;
    `on_change` says what to do when the plan changed under trials that ran: "ask" raises, "redo", "keep". `progress`
    prints a line every few seconds on stderr, or is called with each moment of the run. What ended the run early is
    in `exit` and `stopped_by` of the results.
    """
    from trialrun.app.flags import overrides

    _one_of("on_change", on_change, get_args(Consent))
    flags = overrides(
        _declared(study),
        replicates=replicates,
        budget=None if budget_usd is None else str(budget_usd),
        seed=seed,
        open_trials=open_trials,
    )
    made = _plan_of(
        study, lane=lane, folder=Path(folder) if folder else None, overrides={**(set or {}), **flags}
    )
    ran = carry_out(made, Options(consent=on_change, retry_failed=retry_failed, wait=wait), progress=progress)
    return Results(made.folder, plan=made, exit_=ran.exit, stopped_by=ran.stopped_by)


def carry_out(plan: Plan, options: Options, *, progress: bool | Callable[[Live], None] = True) -> Ran:
    """Run what is unfinished of a plan, from a program that waits for it."""
    watch = progress if callable(progress) else _Printer(sys.stderr).update if progress else None
    control = Control()
    return waited_for(lambda: _carried_out(plan, options, watch, control), control)


async def _carried_out(
    plan: Plan, options: Options, watch: Callable[[Live], None] | None, control: Control
) -> Ran:
    """A study that cannot work is refused before anything is spent."""
    found = await preview_of_news(plan)
    options = replace(options, trial_usd=found.trial_usd) if found is not None else options
    return await run_study(plan, options, watch=watch, control=control)


def load(
    folder: str | os.PathLike[str], *, lane: Lane | None = None, procedure: Function | None = None
) -> Results:
    """The results of a study that ran: its folder, or its study file. `procedure` is needed to verify a study whose
    procedure is a function in your program."""
    if lane is not None:
        _one_of("lane", lane, get_args(Lane))
    given = {procedure.__name__: procedure} if procedure else {}
    return Results(studies.results_of(Path(folder), lane=lane), procedures=given)


def _declared(study: Any) -> Path | Mapping[str, object]:
    """What the user wrote, where a flag has to look into it."""
    if isinstance(study, Draft):
        return study.document
    return cast("Mapping[str, object]", study) if isinstance(study, Mapping) else Path(study)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """A word that nobody knows must not be taken for another one: a misspelled lane would cost money."""
    if value not in known:
        raise UsageError(f"`{name}` cannot be `{value}`", where="the arguments", fix=pick(value, known))


def _plan_of(study: Any, *, lane: Lane, folder: Path | None, overrides: Mapping[str, object]) -> Plan:
    _one_of("lane", lane, get_args(Lane))
    match study:
        case str() | os.PathLike():
            path = Path(study)  # pyright: ignore[reportUnknownArgumentType]  # a path-like of str
            read_env(path)
            return studies.load(path, lane=lane, folder=folder, overrides=overrides)
        case Draft():
            draft = study
        case Mapping():
            draft = Draft(document=study)  # pyright: ignore[reportUnknownArgumentType]  # checked by the parser
        case _:
            raise UsageError(
                f"a {type(study).__name__} is no study",
                fix="give a path, a dict, or what `tr.study(...)` returns",
            )
    read_env(draft.home)
    try:
        text = msgspec.json.encode(draft.document).decode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the study is not plain data: {error}",
            fix="use texts, numbers, lists and dicts; a function is `procedure=`",
        ) from error
    return studies.plan_of(
        text,
        file="the study",
        home=draft.home,
        lane=lane,
        folder=folder,
        overrides=overrides,
        given=draft.procedures,
    )


class _Printer:
    """A line on stderr every few seconds."""

    def __init__(self, stream: TextIO, every_s: float = 5.0) -> None:
        self._stream = stream
        self._every_s = every_s
        self._next = time.monotonic() + 1.0

    def update(self, live: Live) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        mark = "rehearsal, " if live.lane == "rehearsal" else ""
        failed = f", {live.failed} failed" if live.failed else ""
        line = f"{mark}{live.done} of {live.planned} trials done{failed}, {live.spent_usd:.4f} USD spent"
        print(line, file=self._stream, flush=True)  # asked for with `progress=True`
