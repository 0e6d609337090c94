"""`python -m examples.batch_simulate`: PatientHub's batch of therapy sessions, as a study in its output folder."""

import sys
from pathlib import Path
from typing import Literal

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown

CALLED = "python -m examples.batch_simulate"


@click.command(
    "batch_simulate", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--clients", metavar="NAMES", help="Comma-separated client types; patientPsi.")
@click.option("--therapists", metavar="NAMES", help="Comma-separated therapist types; CBT.")
@click.option("--num_runs", type=options.Whole(min=1), metavar="N", help="Runs per combination; 5.")
@click.option("--max_turns", type=options.Whole(min=1), metavar="N", help="Max turns per session; 20.")
@click.option("--max_workers", type=options.Whole(min=1), metavar="N", help="Parallel workers; 4.")
@click.option("--output_dir", metavar="DIR", help="Output directory; outputs/batch/<timestamp>.")
@click.option("--seed", type=int, metavar="N", help="Random seed for reproducibility; one is drawn and kept.")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="YAML config file with these keys."
)
@click.option("--budget", metavar="USD", help="What the batch may cost at most.")
@click.option(
    "--lane",
    type=click.Choice(["live", "batch", "rehearsal"]),
    help="How calls travel: at once, in half-price batches, or played; live unless given.",
)
@click.option(
    "--redo", "consent", flag_value="redo", help="The batch changed: run the runs that it touches anew."
)
@click.option(
    "--keep", "consent", flag_value="keep", help="The batch changed: keep the runs that ended, and note it."
)
@click.option("--retry-failed", "retry_failed", is_flag=True, help="Take up failed runs again.")
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    clients: str | None,
    therapists: str | None,
    num_runs: int | None,
    max_turns: int | None,
    max_workers: int | None,
    output_dir: str | None,
    seed: int | None,
    config: Path | None,
    budget: str | None,
    lane: Literal["live", "batch", "rehearsal"] | None,
    consent: options.Consent | None,
    retry_failed: bool,
) -> Shown:
    """Run every client type against every therapist type, several times, and write a file for each session.

    A flag goes before the config file, the file before the default. The output folder is a study: the same command with
    the same --output_dir continues it, and `trialrun run`, `status`, `judge`, `export` and `verify` take it.
    """
    from trialrun.app.environment import read_env
    from trialrun.app.running import Options
    from trialrun.app.studies import find
    from trialrun.cli.execution import carried_out
    from trialrun.compat.patienthub.batch import plan_of

    file = find(config) if config is not None else None
    read_env(file)
    flags: dict[str, object] = {
        "clients": clients,
        "therapists": therapists,
        "num_runs": num_runs,
        "max_turns": max_turns,
        "max_workers": max_workers,
        "output_dir": output_dir,
        "seed": seed,
        "budget_usd": budget,
    }
    text = file.read_text(encoding="utf-8") if file is not None else ""
    plan = plan_of(flags, lane=lane, text=text, file=str(file or "the batch"))
    wishes = Options(consent=consent or "ask", retry_failed=retry_failed)
    return carried_out(screen, plan, wishes, named=str(plan.folder))


def main() -> None:
    """The script."""
    from trialrun.cli.entry import run

    sys.exit(run(sys.argv[1:], command, CALLED))
