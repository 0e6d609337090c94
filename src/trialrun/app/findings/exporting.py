"""A study's tables as files: one per table, and the contents of artefacts beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from trialrun.app.findings.rows import TABLES, TableName, table
from trialrun.app.studies import last_declared
from trialrun.core.errors import UsageError
from trialrun.export.rows import Writer
from trialrun.store.archive import Archive

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
FOLDER = "tables"


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One table that is now a file."""

    table: TableName
    rows: int
    file: Path


def export(
    results: Path, tables: Sequence[TableName], form: Format, *, to: Path | None = None
) -> list[Written]:
    """Write tables into a folder; into `tables/` of the results if none is named. What is there is replaced."""
    folder = to or results / FOLDER
    writer = writer_of(form)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to `{folder}`: {error.strerror}",
            fix="name a folder that you may write to with `--out`",
        ) from error
    written: list[Written] = []
    with Archive(results) as archive:
        lane = lane_of(archive)
        for name in tables:
            made = table(archive, name, lane)
            file = folder / f"{name}.{form}"
            written.append(Written(table=name, rows=writer.write(made.columns, made.rows, file), file=file))
        if "artefacts" in tables:
            _keep_contents(archive, folder / "artefacts")
    return written


def tables_in(results: Path) -> list[TableName]:
    """The tables that a study has: ratings only where something was judged."""
    with Archive(results) as archive:
        is_judged = next(archive.judging(), None) is not None
    return [name for name in TABLES if name != "ratings" or is_judged]


def export_to(results: Path, name: TableName, form: Format, stream: BinaryIO) -> int:
    """Write one table to an open stream."""
    with Archive(results) as archive:
        made = table(archive, name, lane_of(archive))
        return writer_of(form).write(made.columns, made.rows, stream)


def lane_of(archive: Archive) -> str:
    """The lane in which the study's data came about."""
    declared = last_declared(archive.facts_of(""))
    return declared.lane if declared else "live"


def writer_of(form: Format) -> Writer:
    """The writer of a format; its module is imported only now."""
    match form:
        case "csv":
            from trialrun.export.csv import CsvWriter

            return CsvWriter()
        case "jsonl":
            from trialrun.export.jsonl import JsonlWriter

            return JsonlWriter()
        case "parquet":
            from trialrun.export.parquet import ParquetWriter

            return ParquetWriter()


def _keep_contents(archive: Archive, folder: Path) -> None:
    """Each content once, under its hash: the names that a trial gave are not trusted as paths."""
    for artefact in archive.artefacts():
        folder.mkdir(exist_ok=True)
        file = folder / artefact.content
        if not file.exists():
            file.write_bytes(archive.content_of(artefact.content))
