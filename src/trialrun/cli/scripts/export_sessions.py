"""`python -m examples.export`: the session files of a batch as CSV."""

import sys
from pathlib import Path
from typing import Literal

import click

from trialrun.cli import amounts, options
from trialrun.cli.blocks import GAP, Block, Column, Line, Table
from trialrun.cli.screen import Shown

CALLED = "python -m examples.export"


@click.command("export", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--input_dir",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Output folder of a batch.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The CSV file to write."
)
@click.option(
    "--level",
    type=click.Choice(["session", "turn", "state"]),
    default="session",
    show_default=True,
    help="A row for each session, each message, or each hidden value.",
)
@click.option("--stats", is_flag=True, help="Show mean and spread of the sessions, by combination.")
@options.output
def command(
    *, input_dir: Path, output: Path, level: Literal["session", "turn", "state"], stats: bool
) -> Shown:
    """Convert the session files of a batch to CSV. Runs that failed have no session and are left out."""
    from trialrun.compat.patienthub.export import failed_in, load_sessions, statistics_of, write_csv
    from trialrun.core.errors import UsageError

    sessions, failed = load_sessions(input_dir), failed_in(input_dir)
    if not sessions and not failed:
        raise UsageError(
            f"`{input_dir}` holds no session", where=str(input_dir), fix="name the output folder of a batch"
        )
    rows = write_csv(sessions, output, level=level)
    found = statistics_of(sessions) if stats else []
    data = {
        "output": str(output),
        "level": level,
        "rows": rows,
        "sessions": len(sessions),
        "failed": failed,
        "statistics": found,
    }

    def blocks() -> list[Block]:
        left_out = f"; {amounts.plural(failed, 'failed run')} left out" if failed else ""
        lines: list[Block] = [
            Line(
                f"wrote {output}: {amounts.plural(rows, 'row')} of {amounts.plural(len(sessions), 'session')}"
                + left_out
            )
        ]
        return [*lines, GAP, _table(found)] if found else lines

    return Shown(data=data, blocks=blocks)


def _table(found: "list[dict[str, object]]") -> Table:
    columns = [
        Column("combination"),
        Column("number"),
        *(Column(name, "right") for name in ("n", "mean", "std", "min", "max")),
    ]
    return Table(columns, [[_cell(value) for value in row.values()] for row in found])


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.2f}"
    return str(value)


def main() -> None:
    """The script."""
    from trialrun.cli.entry import run

    sys.exit(run(sys.argv[1:], command, CALLED))
