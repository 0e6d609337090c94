"""docs/command-line.md and the command line say the same: commands, flags, exit codes."""

import re
from pathlib import Path

import click

from trialrun.app.exits import Exit
from trialrun.cli.group import commands

PAGE = (Path(__file__).parents[2] / "docs/command-line.md").read_text(encoding="utf-8")
SECTIONS = {
    found[1]: found[2]
    for found in re.finditer(r"^## `trialrun ([^`]+)`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
EVERYWHERE = {"--json", "--quiet"}


def leaves(group: click.Group, path: str = "") -> dict[str, click.Command]:
    """Every command that does something, by the words that call it."""
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= leaves(command, f"{path}{name} ")
        else:
            found[path + name] = command
    return found


def documented(section: str) -> set[str]:
    """The flags in the first column of a section's table."""
    cells = re.findall(r"^\| (`--[^|]*(?:\\\|[^|]*)*)\|", section, re.MULTILINE)
    return {flag for cell in cells for flag in re.findall(r"--[a-z-]+", cell)}


def test_every_command_is_documented_with_its_arguments():
    spelled = {
        " ".join(
            [
                name,
                *(
                    param.make_metavar(click.Context(command))
                    for param in command.params
                    if isinstance(param, click.Argument)
                ),
            ]
        )
        for name, command in leaves(commands).items()
    }
    assert set(SECTIONS) == spelled


def test_every_flag_is_documented_and_every_documented_flag_exists():
    by_name = {
        " ".join(word for word in title.split() if word.islower()): text for title, text in SECTIONS.items()
    }
    for name, command in leaves(commands).items():
        flags = {max(param.opts, key=len) for param in command.params if isinstance(param, click.Option)}
        assert flags >= EVERYWHERE, f"{name} has no --json"
        assert documented(by_name[name]) == flags - EVERYWHERE, name
    for flag in EVERYWHERE:
        assert f"`{flag}`" in PAGE


def test_every_exit_code_is_documented():
    rows = dict(re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", PAGE, re.MULTILINE))
    assert {int(code): name for code, name in rows.items()} == {int(each): each.name for each in Exit}


def test_every_command_that_is_shown_exists():
    for line in re.findall(r"^trialrun ([a-z]+(?: [a-z]+)?)", PAGE, re.MULTILINE):
        words = line.split()
        assert words[0] in {name.split()[0] for name in leaves(commands)}
