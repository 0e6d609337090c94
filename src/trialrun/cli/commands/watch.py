"""`trialrun watch`: follows a run of another process until it ends."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("watch", short_help="Follow a run in another process until it ends.")
@options.study
@options.lane
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, lane: options.Lane | None) -> Shown:
    """Follow the process that runs STUDY until it ends, and show the table then. Ctrl-C ends only the watching."""
    import time

    from trialrun.app.studies import results_of
    from trialrun.app.watching import followed
    from trialrun.cli.conditions import shown
    from trialrun.cli.progress import progress_on

    screen.folder = results_of(study, lane=lane)
    seen = False
    with progress_on(screen) as progress:
        try:
            for live in followed(screen.folder, sleep=time.sleep):
                progress.update(live)
                seen = True
        except KeyboardInterrupt:
            progress.note("no longer watching; the run goes on", "dim")
        else:
            if not seen:
                progress.note("no process runs this study now", "dim")
    return shown(screen.folder, str(study))
