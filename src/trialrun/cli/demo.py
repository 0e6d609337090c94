"""`./dev demo`: the example study of the checkout from beginning to end, on the built-in model or a small real one.

Always begins anew, in a folder of its own; nothing is paid and nothing leaves this machine.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from trialrun.cli.screen import Screen, Shown
from trialrun.core.errors import StudyLocked, UsageError

_STUDY = Path("examples/warmth/study.yaml")
_PROGRAM = "./dev trialrun"
# Not all trials at once, so that there is something to see.
_REHEARSED: Mapping[str, object] = {"rehearsal.speed": 20.0, "limits.open_trials": 8}
# A model of this size writes little, and not much of it is sense: enough to see every part work.
_REAL: Mapping[str, object] = {
    "parties.listener.model": "local/smollm2",
    "parties.client.model": "local/smollm2",
    "judges.disclosure.model": "local/smollm2",
    "parties.listener.max_tokens": 40,
    "parties.client.max_tokens": 40,
    "judges.disclosure.max_tokens": 120,
    "settings.max_turns": 2,
    "replicates": 2,
    "limits.open_trials": 4,
}


def main() -> None:
    """`python -m trialrun.cli.demo`."""
    from trialrun.cli.entry import run

    sys.exit(run(sys.argv[1:], command))


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--real", is_flag=True, help="A real language model that runs on this machine, offline; takes minutes."
)
@click.option("--json", is_flag=True, expose_value=False, help="Print one JSON document and nothing else.")
@click.option("-q", "--quiet", is_flag=True, expose_value=False, help="No progress and no notes.")
@click.pass_obj
def command(screen: Screen, *, real: bool) -> Shown:
    """Run the example study of this checkout."""
    from trialrun.app.running import Options
    from trialrun.app.studies import load
    from trialrun.cli.execution import carried_out

    study = _study()
    folder = study.parent / "results" / ("demo-real" if real else "demo")
    _clear(folder)
    plan = load(
        study,
        lane="live" if real else "rehearsal",
        folder=_short(folder),
        overrides=_REAL if real else _REHEARSED,
    )
    model = (
        "local/smollm2, a small language model on this machine"
        if real
        else "a built-in model that plays the real ones"
    )
    screen.note(f"{_short(study)}: {plan.study.question}", "title")
    screen.note(f"on {model}; no key, no network, no cost", "dim")
    return carried_out(screen, plan, Options(), named=str(_short(folder)), steps=_steps(_short(folder)))


def _steps(folder: Path) -> list[tuple[str, str]]:
    return [
        (
            f"{_PROGRAM} plan {_short(_study())} --prompts",
            "what was sent, and what each factor changes in it",
        ),
        (f"{_PROGRAM} export {folder}", "the trials, messages, calls and measures as tables"),
        (f"{_PROGRAM} new study mine", "a study of your own to start from"),
    ]


def _study() -> Path:
    checkout = Path(__file__).resolve().parents[3]
    study = checkout / _STUDY
    if not study.is_file():
        raise UsageError(
            "the demo needs the examples of a checkout",
            where=str(checkout),
            fix="`trialrun new study NAME` writes one",
        )
    return study


def _clear(folder: Path) -> None:
    """The last demo goes; its folder is the demo's own."""
    from trialrun.store.lock import holder_of

    if holder_of(folder) is not None:
        raise StudyLocked(
            "another demo is running", where=str(folder), fix="wait for it, or stop it with Ctrl-C"
        )
    if (folder / "study.db").exists():
        shutil.rmtree(folder)


def _short(path: Path) -> Path:
    """The path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    main()
