"""`trialrun status`: where a study stands."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("status", short_help="Where a study stands, and what to do next.")
@options.study
@click.option(
    "--by",
    metavar="FACTORS",
    help="Pool the table over all factors but these (`--by model,tactic`).",
)
@options.lane
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, by: str | None, lane: options.Lane | None) -> Shown:
    """Show where STUDY stands, also while another process runs it.

    The exit code is 0 only when every planned trial is done. For a study file the live results are meant if there are
    any, and else the rehearsed ones; --lane chooses. With --by, the intervals allow for trials of one level of a pooled
    factor being alike.
    """
    from trialrun.app.studies import results_of
    from trialrun.cli.conditions import shown

    screen.folder = results_of(study, lane=lane)
    factors = [name.strip() for name in by.split(",") if name.strip()] if by else []
    return shown(screen.folder, str(study), by=factors)
