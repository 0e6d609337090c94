"""`trialrun plan`: what would run, and what it would cost."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("plan", short_help="What would run: trials, calls, money, time, prompts.")
@options.study
@click.option(
    "--prompts", is_flag=True, help="Show the prompts as they would leave, and what each factor changes."
)
@click.option("--list", "is_list", is_flag=True, help="List every trial in planned order.")
@options.travel
@options.design
@click.option("--open", "open_trials", type=options.Whole(min=1), metavar="N", help="Trials side by side.")
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    prompts: bool,
    is_list: bool,
    lane: options.Lane | None,
    sets: tuple[str, ...],
    replicates: int | None,
    budget: str | None,
    seed: int | None,
    open_trials: int | None,
) -> Shown:
    """Show what STUDY would run, before anything is spent: trials, calls, tokens, and money and time as ranges.

    Every condition is walked once with short and once with long replies of a built-in model. That finds mistakes that
    reading does not: a factor that changes nothing, a procedure that fails.
    """
    from trialrun.app.clock import SystemClock
    from trialrun.app.lanes import Lanes
    from trialrun.app.loops import run_to_end
    from trialrun.app.previewing import preview
    from trialrun.app.studies import load
    from trialrun.cli.preview import blocks_of, data_of

    flags = options.flags(sets=sets, replicates=replicates, budget=budget, seed=seed, open_trials=open_trials)
    plan = load(study, lane=lane, overrides=flags(study))
    found = run_to_end(preview(plan, Lanes(plan, SystemClock()).prices))
    return Shown(
        data=data_of(found, with_prompts=prompts, with_trials=is_list) if screen.as_json else {},
        blocks=lambda: blocks_of(found, str(study), with_prompts=prompts, with_trials=is_list),
    )
