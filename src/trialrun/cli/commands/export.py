"""`trialrun export`: a study's tables as files."""

import sys
from pathlib import Path
from typing import Literal

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown

_TABLES = ("trials", "messages", "calls", "measures", "states", "artefacts", "ratings")


@click.command("export", short_help="Write trials, messages, calls, measures as tables.")
@options.study
@click.option(
    "--table",
    type=click.Choice([*_TABLES, "all"]),
    default="all",
    show_default=True,
    help="Which table.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
    help="Parquet needs polars: pip install 'trialrun[frames]'.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="DIR",
    help="Folder for the files; `tables` in the results folder unless given. With one table, - is stdout.",
)
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    table: str,
    form: Literal["csv", "jsonl", "parquet"],
    out: Path | None,
    lane: options.Lane | None,
) -> Shown | int:
    """Write the tables of STUDY as files, also while it runs.

    A row of `trials` has everything about one trial: its levels (factor.*), outcome (outcome.*) and measures
    (measure.*). The other tables name the trial. Text that a spreadsheet would run as a formula is defused in CSV.
    """
    from trialrun.app.findings.exporting import export, export_to, tables_in
    from trialrun.app.findings.rows import TABLES, TableName
    from trialrun.app.studies import results_of
    from trialrun.cli import amounts
    from trialrun.cli.blocks import Column, Table

    screen.folder = results_of(study, lane=lane)
    only: list[TableName] = [name for name in TABLES if name == table]
    names = tables_in(screen.folder) if table == "all" else only
    if str(out) == "-":
        if len(names) > 1 or screen.as_json:
            raise click.UsageError("Only one table fits into stdout: give --table, and no --json")
        export_to(screen.folder, names[0], form, sys.stdout.buffer)
        return 0
    written = export(screen.folder, names, form, to=out)
    rows = [(each.table, amounts.count(each.rows), str(each.file)) for each in written]
    data = {
        "folder": str(screen.folder),
        "tables": [{"table": each.table, "rows": each.rows, "file": str(each.file)} for each in written],
    }
    return Shown(
        data=data,
        blocks=lambda: [
            Table([Column("table"), Column("rows", "right"), Column("file", is_prose=True)], rows)
        ],
    )
