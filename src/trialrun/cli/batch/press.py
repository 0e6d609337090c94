"""`trialrun batch press`: the next level of pressure, on the model's own answers."""

from pathlib import Path

import click

from trialrun.app.exits import Exit
from trialrun.cli import batches, options
from trialrun.cli.screen import Screen, Shown


@click.command("press", short_help="Write the next level of pressure, on the model's own answers.")
@click.option(
    "--input",
    "input_",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The requests that were answered.",
)
@click.option(
    "--results",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Their answers. May be repeated.",
)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Where to write."
)
@click.option("--tactic", default="", metavar="NAME", help="How to press; five general lines unless given.")
@click.option("--tactics", default="trialrun:tactics.yaml", metavar="FILE", help="Where the tactic is from.")
@click.option(
    "--lines", default="", metavar="FILE", help="Lines of your own, one a level, in place of a tactic."
)
@click.option(
    "--questions",
    default="",
    metavar="FILE",
    help="What is known of the questions: claims, expected answers.",
)
@click.option(
    "--analysis",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Press only what `process` found worth it: right first answers that have not flipped.",
)
@batches.tracking
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    input_: Path,
    results: tuple[Path, ...],
    output: Path,
    tactic: str,
    tactics: str,
    lines: str,
    questions: str,
    analysis: Path | None,
    tracking: Path,
) -> Shown:
    """Write the requests of the next level: each talk so far, the model's own answer, and a line of pressure on it.

    A question without a whole answer is left out, and named. Submit what is written like any other file.
    """
    from trialrun.cli.amounts import plural
    from trialrun.cli.blocks import Block, Line
    from trialrun.compat.batch_files.following import press_files
    from trialrun.compat.batch_files.tracking import Ledger

    made = batches.reading(
        lambda routes: press_files(
            Ledger(tracking),
            routes,
            requests=input_,
            results=results,
            output=output,
            tactic=tactic,
            tactics=tactics,
            lines=lines,
            questions=questions,
            analysis=analysis,
        )
    )
    for id_, why in made.left_out.items():
        screen.note(f"{id_} is left out: {why}")

    for id_, why in made.not_worth_it.items():
        screen.note(f"{id_} is not pressed: {why}")

    def blocks() -> list[Block]:
        if not made.lines:
            return [Line("no answer is worth pressing")]
        left = f", {len(made.left_out):,} left out" if made.left_out else ""
        return [Line(f"{plural(len(made.lines), 'request')} of level {made.level} in {output}{left}")]

    data = {
        "path": str(output) if made.lines else None,
        "level": made.level,
        "requests": len(made.lines),
        "left_out": dict(made.left_out),
        "not_pressed": dict(made.not_worth_it),
    }
    return Shown(data=data, blocks=blocks, exit=Exit.SOME_FAILED if made.left_out else Exit.DONE)
