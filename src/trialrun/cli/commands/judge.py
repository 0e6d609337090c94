"""`trialrun judge`: rates finished trials by a rubric."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("judge", short_help="Rate finished trials by a rubric, as often as you like.")
@options.study
@click.option(
    "--with",
    "rubric",
    type=click.Path(path_type=Path),
    metavar="RUBRIC",
    help="The rubric file. Without it, every earlier pass goes on.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Who rates, as provider/model; the rubric's `models` unless given. May be repeated.",
)
@click.option(
    "--repeats", type=options.Whole(min=1), metavar="K", help="Times that each rater rates the same; 1."
)
@click.option("--seed", type=int, metavar="N", help="Root of the pass's chance; the study's unless given.")
@click.option("--forks", is_flag=True, help="Rate forks too.")
@click.option(
    "--calibrate",
    "labelled",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rate these labelled talks instead, and compare with their labels (.yaml, .jsonl).",
)
@click.option("--plan", "is_plan", is_flag=True, help="Show what it would take, and spend nothing.")
@click.option("--prompts", is_flag=True, help="With --plan: what a rater is asked first.")
@click.option("--budget", metavar="USD", help="What the whole study may cost, judging included.")
@click.option("--open", "open_trials", type=options.Whole(min=1), metavar="N", help="Trials side by side.")
@click.option("--retry-failed", is_flag=True, help="Ask again what has no usable answer.")
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    rubric: Path | None,
    models: tuple[str, ...],
    repeats: int | None,
    seed: int | None,
    forks: bool,
    labelled: Path | None,
    is_plan: bool,
    prompts: bool,
    budget: str | None,
    open_trials: int | None,
    retry_failed: bool,
    lane: options.Lane | None,
) -> Shown:
    """Rate the finished trials of STUDY by a rubric, in the same folder and from the same budget.

    Raters see who said what by role: no model, no level, no condition. A changed rubric is another pass beside the
    earlier ones; the same command goes on with its pass, also with new trials, raters or repeats.
    """
    from trialrun.app.environment import read_env
    from trialrun.app.judging.wishes import Wish, judging_plans
    from trialrun.app.running import Options
    from trialrun.app.studies import results_of
    from trialrun.cli import judging

    read_env(study)
    screen.folder = results_of(study, lane=lane)
    flags = options.flags(budget=budget, open_trials=open_trials)
    wish = Wish(
        rubric=rubric,
        models=models,
        repeats=repeats,
        seed=seed,
        forks=forks,
        labelled=labelled,
        overrides=flags(screen.folder),
    )
    plans = judging_plans(study, wish, lane=lane)
    if is_plan:
        return judging.planned(plans, with_prompts=prompts)
    return judging.carried_out(
        screen, plans, Options(retry_failed=retry_failed), named=str(study), labelled=labelled
    )
