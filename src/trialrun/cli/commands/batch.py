"""`trialrun batch`: the batches of a study, and what to do about one in doubt."""

from importlib import import_module
from typing import cast

import click

COMMANDS = ("list", "resolve")


class BatchCommands(click.Group):
    """Names without modules, until one is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"trialrun.cli.batch.{cmd_name}").command)


@click.group("batch", cls=BatchCommands, short_help="The provider batches of a study, and doubts about them.")
def command() -> None:
    """Work with provider batches: those that a study made (`trialrun run STUDY --lane batch` makes them)."""
