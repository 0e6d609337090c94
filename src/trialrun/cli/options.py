"""Arguments and flags that several commands share. A flag goes before the study file, the file before the default."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Lane = Literal["live", "batch", "rehearsal"]
Consent = Literal["redo", "keep"]


class Whole(click.IntRange):
    """A whole number, called so when it is none."""

    name = "whole number"


def _ignored(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """The screen reads these flags itself, before anything else can go wrong."""


def output(command: F) -> F:
    """`--json` and `--quiet`."""
    command = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_ignored,
        help="Print one JSON document, errors included, and nothing else.",
    )(command)
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_ignored,
        help="No progress and no notes on stderr.",
    )(command)


study = click.argument("study", type=click.Path(path_type=Path), metavar="STUDY")

lane = click.option(
    "--lane",
    type=click.Choice(["live", "rehearsal"]),
    help="Whether models are asked for real or played; live unless given.",
)

travel = click.option(
    "--lane",
    type=click.Choice(["live", "batch", "rehearsal"]),
    help="How calls travel: at once, in half-price batches, or played; as the study says, or live.",
)


class Duration(click.ParamType[float]):
    """`90s`, `30m`, `6h`, `2d`."""

    name = "duration"
    _SECONDS: ClassVar[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        unit = self._SECONDS.get(text[-1:].lower())
        try:
            seconds = float(text[:-1]) * (unit or 0)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            self.fail(f"`{value}` is no duration; write `90s`, `30m`, `6h` or `2d`", param, ctx)
        return seconds


def batches(command: F) -> F:
    """How long to stay with what travels in batches."""
    options = [
        click.option(
            "--detach", is_flag=True, help="End when everything is handed in; a later run collects it."
        ),
        click.option(
            "--deadline",
            type=Duration(),
            metavar="TIME",
            help="So long after the first batch left, cancel what is still out; what is done by then is kept.",
        ),
        click.option(
            "--then",
            type=click.Choice(["live", "wait"]),
            help="What becomes of that rest: it goes live at the live price (the default), or waits.",
        ),
    ]
    return _with(options, command)


def design(command: F) -> F:
    """What changes the plan: `--set`, `--replicates`, `--budget`, `--seed`."""
    options = [
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="PATH=VALUE",
            help="Put a value at a dotted path of the study file, such as settings.max_turns=5. May be repeated.",
        ),
        click.option("--replicates", type=Whole(min=1), metavar="N", help="Trials per condition."),
        click.option("--budget", metavar="USD", help="What the whole study may cost."),
        click.option("--seed", type=int, metavar="N", help="Root of all chance."),
    ]
    return _with(options, command)


def running(command: F) -> F:
    """What a run may be told beyond the plan."""
    options = [
        click.option("--open", "open_trials", type=Whole(min=1), metavar="N", help="Trials side by side."),
        click.option(
            "--redo",
            "consent",
            flag_value="redo",
            help="The plan changed: run the trials that it touches anew.",
        ),
        click.option(
            "--keep",
            "consent",
            flag_value="keep",
            help="The plan changed: keep the trials that ended, and note the change.",
        ),
        click.option(
            "--retry-failed",
            "--resume",
            "retry_failed",
            is_flag=True,
            help="Take up failed and timed-out trials again.",
        ),
        click.option("--wait", is_flag=True, help="Stay for answers to open questions instead of ending."),
        click.option(
            "--folder",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Where results go; results/NAME beside the study file unless given.",
        ),
    ]
    return _with(options, command)


def _with(options: list[Callable[[Any], Any]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def flags(
    *,
    sets: tuple[str, ...] = (),
    replicates: int | None = None,
    budget: str | None = None,
    seed: int | None = None,
    open_trials: int | None = None,
    rehearsal: Mapping[str, float | None] | None = None,
    deadline_s: float | None = None,
    then: str | None = None,
) -> "partial[dict[str, object]]":
    """The flags as `app.flags.overrides` takes them; the study file is still to come."""
    from trialrun.app.flags import overrides

    return partial(
        overrides,
        sets=sets,
        replicates=replicates,
        budget=budget,
        seed=seed,
        open_trials=open_trials,
        rehearsal=rehearsal or {},
        batch={"deadline_h": None if deadline_s is None else deadline_s / 3600, "then": then},
    )
