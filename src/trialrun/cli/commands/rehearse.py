"""`trialrun rehearse`: runs a study on a built-in model, for nothing."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("rehearse", short_help="Run a study on a built-in model, for nothing.")
@options.study
@click.option(
    "--speed",
    type=float,
    metavar="X",
    help="So many times faster than the real models; without it, no waiting.",
)
@click.option(
    "--errors", type=float, metavar="SHARE", help="Share of attempts that fail as the real ones do, 0 to 1."
)
@click.option("--words", type=float, metavar="X", help="Scales the length of replies.")
@click.option("--fresh", is_flag=True, help="Begin anew even if the plan is the same.")
@options.design
@options.running
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    speed: float | None,
    errors: float | None,
    words: float | None,
    fresh: bool,
    sets: tuple[str, ...],
    replicates: int | None,
    budget: str | None,
    seed: int | None,
    open_trials: int | None,
    consent: options.Consent | None,
    retry_failed: bool,
    wait: bool,
    folder: Path | None,
) -> Shown:
    """Run STUDY on a built-in model that plays the real ones, with their prices, and end with its table.

    The whole study runs as it would live, but nothing leaves this machine and nothing is paid; its data is marked as
    rehearsal everywhere and has a folder of its own. When trials that were rehearsed changed in the plan, that
    rehearsal is moved aside and a new one begins, unless --redo or --keep says otherwise.
    """
    from trialrun.app.running import Options
    from trialrun.app.studies import load
    from trialrun.cli.execution import begin_anew, carried_out
    from trialrun.core.errors import ConsentNeeded

    flags = options.flags(
        sets=sets,
        replicates=replicates,
        budget=budget,
        seed=seed,
        open_trials=open_trials,
        rehearsal={"speed": speed, "errors": errors, "words": words},
    )
    plan = load(study, lane="rehearsal", folder=folder, overrides=flags(study))
    screen.folder = plan.folder
    wishes = Options(consent=consent or "ask", retry_failed=retry_failed, wait=wait)
    if fresh:
        begin_anew(screen, plan)
    try:
        return carried_out(screen, plan, wishes, named=str(folder or study))
    except ConsentNeeded:
        if consent is not None:
            raise
        begin_anew(screen, plan)
        return carried_out(screen, plan, wishes, named=str(folder or study))
