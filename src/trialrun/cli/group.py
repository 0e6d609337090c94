"""The commands by name, each in a module that is imported when somebody asks for it."""

from importlib import import_module
from typing import cast

import click

from trialrun.core.version import VERSION

SECTIONS: dict[str, tuple[str, ...]] = {
    "Before": ("new", "plan", "prices", "schema", "rehearse", "emulate"),
    "While it runs": ("run", "collect", "batch", "status", "watch", "stop", "answer"),
    "With results": ("judge", "analyze", "export", "verify", "fork", "select", "doctor"),
}


class Commands(click.Group):
    """Names without modules, until one is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return cast("click.Command", import_module(f"trialrun.cli.commands.{cmd_name}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            near = _near(name, self.list_commands(ctx))
            hint = f"; did you mean `{near}`?" if near else ""
            raise click.UsageError(f"There is no command `{name}`{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                found = [(name, self.get_command(ctx, name)) for name in names]
                rows = [(name, command.get_short_help_str(limit=90)) for name, command in found if command]
                formatter.write_dl(rows)


def _near(name: str, known: list[str]) -> str | None:
    from trialrun.core.near import nearest

    return nearest(name, known)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="STUDY is a study file, a results folder or another tool's plan, everywhere. Every command takes --json.",
    subcommand_metavar="COMMAND [ARGUMENT]...",
)
@click.version_option(VERSION, "-V", "--version", prog_name="trialrun", message="%(prog)s %(version)s")
def commands() -> None:
    """Runs experiments on language models as experiments: planned, budgeted, resumable."""
