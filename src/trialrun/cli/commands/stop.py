"""`trialrun stop`: ends a run in another process in good order."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("stop", short_help="Ask the process that runs a study to stop in good order.")
@options.study
@options.lane
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, lane: options.Lane | None) -> Shown:
    """Ask the process that runs STUDY to stop: it starts nothing new and lets calls in flight settle.

    Returns when that process has acknowledged the wish.
    """
    import asyncio

    from trialrun.app.answers import stop
    from trialrun.app.studies import results_of
    from trialrun.cli.blocks import Line

    screen.folder = results_of(study, lane=lane)
    taken = asyncio.run(stop(screen.folder))
    return Shown(data={"folder": str(screen.folder), "answer": taken}, blocks=lambda: [Line(taken)])
