"""`trialrun answer`: open questions to people, and their answers."""

import sys
from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("answer", short_help="Answer the questions that wait for a person.")
@options.study
@click.argument("number", type=int, required=False, metavar="[NUMBER]")
@click.argument("text", required=False, metavar="[TEXT]")
@click.option("--list", "is_list", is_flag=True, help="Show the open questions and take no answer.")
@click.option("--by", default="", metavar="NAME", help="Who answers; goes into the journal.")
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    number: int | None,
    text: str | None,
    is_list: bool,
    by: str,
    lane: options.Lane | None,
) -> Shown:
    """Answer the questions of STUDY that wait for a person.

    With a NUMBER and a TEXT, answers that question. On a terminal without them, asks one question after another; an
    empty line skips. Elsewhere, lists the open questions. A run that is going on takes an answer at once, else the next
    run does.
    """
    from trialrun.app.answers import open_questions
    from trialrun.app.studies import results_of
    from trialrun.cli.asking import answered, interviewed, listed

    screen.folder = results_of(study, lane=lane)
    if number is not None and text is None:
        raise click.UsageError("An answer has a NUMBER and a TEXT")
    if number is not None and text is not None:
        return answered(screen.folder, number, text, by=by)
    questions = open_questions(screen.folder)
    if is_list or screen.as_json or not (screen.is_terminal and sys.stdin.isatty()):
        return listed(questions, str(study))
    return interviewed(screen, questions, by=by)
