"""`trialrun new`: something to start from."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Shown

_into = click.option(
    "--in",
    "into",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where; here unless given.",
)


@click.group(
    "new", short_help="Write a study, or a procedure of your own, to start from.", no_args_is_help=True
)
def command() -> None:
    """Write files to start from. Nothing that exists is overwritten."""


@command.command("study", short_help="Write a commented study with its prompts.")
@click.argument("name", metavar="NAME")
@_into
@options.output
def study(name: str, into: Path) -> Shown:
    """Write a folder NAME with a commented study file and its prompts; it can be rehearsed at once."""
    from trialrun.app.scaffolding import new_study
    from trialrun.cli.scaffold import shown, templates

    return shown(new_study(name, templates("study"), into=into))


@command.command("scenario", short_help="Write a small scenario, and a study that runs it.")
@click.argument("name", metavar="NAME")
@_into
@options.output
def scenario(name: str, into: Path) -> Shown:
    """Write a folder NAME with a small scenario and a study that runs it; it can be rehearsed at once."""
    from trialrun.app.scaffolding import new_study
    from trialrun.cli.scaffold import shown, templates

    return shown(new_study(name, templates("scenario"), into=into))


@command.command("procedure", short_help="Write a procedure of your own, and a study that uses it.")
@click.argument("name", metavar="NAME")
@_into
@options.output
def procedure(name: str, into: Path) -> Shown:
    """Write NAME.py, a procedure in twenty lines, and NAME.yaml, a study that uses it; it can be rehearsed at once."""
    from trialrun.app.scaffolding import new_procedure
    from trialrun.cli.scaffold import shown, templates

    texts = templates("procedure")
    return shown(new_procedure(name, code=texts["procedure.py.txt"], study=texts["study.yaml"], into=into))


@command.command("client", short_help="Write a therapy client of your own, and a study that uses it.")
@click.argument("name", metavar="NAME")
@_into
@options.output
def client(name: str, into: Path) -> Shown:
    """Write NAME.py, a simulated client, and NAME.yaml, a study that uses it; it can be rehearsed at once."""
    from trialrun.app.scaffolding import new_procedure
    from trialrun.cli.scaffold import shown, templates

    texts = templates("client")
    return shown(new_procedure(name, code=texts["client.py.txt"], study=texts["study.yaml"], into=into))
