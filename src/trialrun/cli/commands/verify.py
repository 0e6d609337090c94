"""`trialrun verify`: replays a finished study offline."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("verify", short_help="Replay a finished study offline and report any difference.")
@options.study
@options.lane
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, lane: options.Lane | None) -> Shown:
    """Replay every finished trial of STUDY from its journal, asking no model, and report any difference.

    The exit code is 0 when everything that could be compared is the same, and 10 when something differs or nothing
    could be compared. Trials that were kept when the plan changed are replayed under the plan they ran under.
    """
    from trialrun.app.existing import plan_of_results
    from trialrun.app.exits import Exit
    from trialrun.app.loops import run_to_end
    from trialrun.app.verifying import verify
    from trialrun.cli import amounts
    from trialrun.cli.blocks import GAP, Block, Column, Line, Table
    from trialrun.cli.defuse import one_line

    plan = plan_of_results(study, lane=lane)
    screen.folder = plan.folder
    found = run_to_end(verify(plan))

    def blocks() -> list[Block]:
        same = found.trials - len({each.trial for each in found.differences})
        lines: list[Block] = [
            Line(
                f"{same:,} of {amounts.plural(found.trials, 'finished trial')} replay exactly"
                if found.trials
                else "there was nothing to compare",
                "good" if found.is_exact else "bad",
            )
        ]
        if found.skipped:
            lines.append(
                Line(
                    f"{amounts.plural(found.skipped, 'trial')} not compared: not done, or its code changed",
                    "dim",
                )
            )
        if found.differences:
            rows = [(each.trial, one_line(each.what)) for each in found.differences[:100]]
            lines += [GAP, Table([Column("trial"), Column("difference", is_prose=True)], rows)]
        return lines

    data = {
        "folder": str(plan.folder),
        "trials": found.trials,
        "skipped": found.skipped,
        "differences": [{"trial": each.trial, "what": each.what} for each in found.differences],
    }
    return Shown(data=data, blocks=blocks, exit=Exit.DONE if found.is_exact else Exit.DIFFERENT)
