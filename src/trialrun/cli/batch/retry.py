"""`trialrun batch retry`: the requests that have no answer, as a file to submit again."""

from pathlib import Path

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Shown


@click.command("retry", short_help="Write the requests that have no answer into a file.")
@click.option(
    "--input",
    "input_",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The requests that were submitted.",
)
@click.option(
    "--results",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The answers that came. May be repeated.",
)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Where to write."
)
@batches.tracking
@options.output
def command(*, input_: Path, results: tuple[Path, ...], output: Path, tracking: Path) -> Shown:
    """Write the requests that failed, expired, were cancelled or are missing, as they were, to be submitted again.

    `process` takes both results together: an answer goes before an error with the same id.
    """
    from trialrun.cli.amounts import plural
    from trialrun.cli.blocks import Line
    from trialrun.compat.batch_files.following import retry_files
    from trialrun.compat.batch_files.tracking import Ledger

    made = batches.reading(
        lambda routes: retry_files(Ledger(tracking), routes, requests=input_, results=results, output=output)
    )
    if made is None:
        return Shown(data={"path": None, "requests": 0}, blocks=lambda: [Line("every request has an answer")])
    return Shown(
        data={"path": made.path, "requests": made.requests},
        blocks=lambda: [Line(f"{plural(made.requests, 'request')} in {made.path}")],
    )
