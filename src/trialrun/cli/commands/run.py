"""`trialrun run`: runs what is unfinished of a study."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("run", short_help="Run what is unfinished; the same command continues it.")
@options.study
@options.travel
@options.batches
@options.design
@options.running
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    lane: options.Lane | None,
    detach: bool,
    deadline: float | None,
    then: str | None,
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
    """Run what is unfinished of STUDY, and end with the table of its conditions.

    The same command continues a study that was stopped, killed or out of money: what is paid for is never asked
    again. Ctrl-C lets calls in flight settle and stops; a second Ctrl-C stops at once.

    With `--lane batch` all calls travel in the providers' half-price batches, in waves if they need each other; with
    `--detach` it ends when everything is handed in, and the same command, or `collect`, goes on from there.
    """
    from trialrun.app.environment import read_env
    from trialrun.app.running import Options
    from trialrun.app.studies import load
    from trialrun.cli.execution import carried_out

    read_env(study)
    flags = options.flags(
        sets=sets,
        replicates=replicates,
        budget=budget,
        seed=seed,
        open_trials=open_trials,
        deadline_s=deadline,
        then=then,
    )
    plan = load(study, lane=lane, folder=folder, overrides=flags(study))
    wishes = Options(consent=consent or "ask", retry_failed=retry_failed, wait=wait, detach=detach)
    return carried_out(screen, plan, wishes, named=str(folder or study))
