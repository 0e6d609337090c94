"""`trialrun fork`: branches a trial at a turn."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("fork", short_help="Branch a trial at a turn, with something changed.")
@options.study
@click.argument("trial", metavar="TRIAL")
@click.option(
    "--at",
    "turn",
    type=options.Whole(min=1),
    required=True,
    metavar="TURN",
    help="The first turn that differs.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    required=True,
    metavar="PATH=VALUE",
    help="What is different from there on, such as parties.client.values.mood=angry. May be repeated.",
)
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen, *, study: Path, trial: str, turn: int, sets: tuple[str, ...], lane: options.Lane | None
) -> Shown:
    """Plan a branch of TRIAL: everything before TURN is shared, and from there on the given values are in force.

    The next run carries it out. A fork is outside the table of conditions; `export` has it, with the trial that it
    branches off in the column `forked_from`.
    """
    import asyncio
    import shlex

    from trialrun.app.existing import plan_of_results
    from trialrun.app.flags import overrides
    from trialrun.app.forks import fork
    from trialrun.cli.blocks import GAP, Line, Pairs

    plan = plan_of_results(study, lane=lane)
    screen.folder = plan.folder
    values = overrides(study, sets=sets)
    id_ = asyncio.run(fork(plan, trial, turn=turn, overrides=values))
    # The folder, which keeps the plan that its trials ran under, whatever the study file says by now.
    again = f"trialrun run {shlex.quote(str(plan.folder))}"
    data = {
        "folder": str(plan.folder),
        "trial": id_,
        "forked_from": trial,
        "turn": turn,
        "set": values,
        "next": again,
    }
    steps = Pairs([(again, "carry it out")], are_commands=True)
    return Shown(data=data, blocks=lambda: [Line(f"planned {id_}"), GAP, Line("next", "title"), steps])
