"""`trialrun batch`: batches as files, the batches of a study, and what to do about one in doubt."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

import click

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Batches as files": (
            "create", "submit", "check", "monitor", "download", "press", "retry", "process", "cancel", "status", "cost",
        ),
        "Batches of a study": ("list", "resolve"),
    }
)  # fmt: skip
ACTIONS: Mapping[str, str] = MappingProxyType({"create": "submit"})
"""What `--action` calls a command, where it has another name here: a batch is created by submitting it."""
_ACTION = "--action"


class BatchCommands(click.Group):
    """Names without modules, until one is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return cast("click.Command", import_module(f"trialrun.cli.batch.{cmd_name}").command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_command(args))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                found = [(name, self.get_command(ctx, name)) for name in names]
                rows = [(name, command.get_short_help_str(limit=90)) for name, command in found if command]
                formatter.write_dl(rows)


def _with_command(args: list[str]) -> list[str]:
    """`--provider openai --action check --batch-id X` is `check --provider openai --batch-id X`."""
    for place, word in enumerate(args):
        name, sign, value = word.partition("=")
        if name == _ACTION and (sign or place + 1 < len(args)):
            action = value if sign else args[place + 1]
            rest = args[:place] + args[place + (1 if sign else 2) :]
            return [ACTIONS.get(action, action), *rest]
    return args


@click.group(
    "batch",
    cls=BatchCommands,
    short_help="Provider batches as files, the batches of a study, and doubts about them.",
    epilog="`--action create|check|monitor|download` in place of a command works, too: create is `submit`.",
)
def command() -> None:
    """Work with provider batches: as files that you hold, or those that a study made (`run STUDY --lane batch`)."""
