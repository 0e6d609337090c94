"""`trialrun doctor`: can Trialrun work here, and is a study sound."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("doctor", short_help="Check installation, keys and a study's store; repair it.")
@click.argument("study", type=click.Path(path_type=Path), required=False, metavar="[STUDY]")
@click.option(
    "--rebuild", is_flag=True, help="Compute anew from the journal everything that follows from it."
)
@click.option("--quarantine", type=int, metavar="SEQ", help="Set a damaged fact aside; its trial runs anew.")
@click.option(
    "--confirm",
    nargs=2,
    metavar="CALL COST",
    help="Settle a call in doubt at what the provider's own records say, in USD; 0 if it was not billed. "
    "With `all` for CALL: all of them, at what they cost together.",
)
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path | None,
    rebuild: bool,
    quarantine: int | None,
    confirm: tuple[str, str] | None,
    lane: options.Lane | None,
) -> Shown:
    """Check whether Trialrun can work here: versions, and keys by name (never by value).

    With a STUDY, also check that its models can be reached and priced, read its store from end to end, and list the
    calls of which nobody knows whether they were billed. The exit code is 9 when something is wrong.
    """
    from trialrun.app.studies import results_of
    from trialrun.cli import checkup

    if study is None:
        if rebuild or quarantine is not None or confirm:
            raise click.UsageError("--rebuild, --quarantine and --confirm need a STUDY")
        return checkup.of_machine()
    folder = screen.folder = results_of(study, lane=lane)
    if confirm:
        return checkup.confirmed(folder, *confirm)
    if quarantine is not None:
        return checkup.quarantined(folder, quarantine)
    if rebuild:
        return checkup.rebuilt(folder)
    return checkup.of_study(study, folder, lane)
