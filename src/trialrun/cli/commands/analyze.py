"""`trialrun analyze`: what the results of a study say, as files and at a glance."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("analyze", short_help="Statistics, comparisons, effects of factors, failures; a report.")
@options.study
@click.option("--report", "with_report", is_flag=True, help="Also write a report for people, as Markdown.")
@options.lane
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, with_report: bool, lane: options.Lane | None) -> Shown:
    """Analyse the results of STUDY, also while it runs, into `analysis/` of its results folder.

    measures.json has the statistics of each measure, conditions.json those of each condition, patterns.json what
    stands out: effects of factors with intervals, failures, cost efficiency. What the data cannot carry is said to be
    not enough data. A batch of Scenario Lab has its own names of files.
    """
    from trialrun.app.analysis.files import analyse
    from trialrun.app.studies import results_of
    from trialrun.cli.analysis import shown
    from trialrun.core.errors import UsageError

    screen.folder = results_of(study, lane=lane)
    try:
        results, patterns, written = analyse(screen.folder, with_report=with_report)
    except OSError as error:
        raise UsageError(
            f"the analysis cannot be written: {error.strerror}",
            where=str(error.filename or screen.folder),
            fix="make room, or take leave to write there",
        ) from error
    return shown(results, patterns, written)
