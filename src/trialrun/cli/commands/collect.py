"""`trialrun collect`: fetches what came back in batches, hands in what follows, and ends."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("collect", short_help="Fetch what came back in batches, hand in what follows, and end.")
@options.study
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path) -> Shown:
    """Look once at every batch of STUDY that is out: settle what came back, hand in the calls that follow, and end.

    Good for a cron job: run it every hour until its exit code is 0. The flags that the study was run with stay in
    force. `trialrun run` with these flags does the same and stays.
    """
    from trialrun.app.environment import read_env
    from trialrun.app.existing import plan_to_collect
    from trialrun.app.running import Options
    from trialrun.cli.execution import carried_out

    read_env(study)
    return carried_out(screen, plan_to_collect(study), Options(detach=True), named=str(study))
