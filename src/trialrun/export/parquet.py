"""Parquet, through polars, which is imported only here and only when it is needed.

A Parquet column has one type, and rows come one by one: the type of a column is known when the last row was seen. So
rows are spooled to a temporary file while each column's kinds are noted, then read back in batches and handed to
polars, which writes them as they come (E4). The path not taken, a type guessed from the first batch, loses the
measure that is missing in the first ten thousand trials.

Whole numbers and fractions together are fractions, if no whole number is too large to be one exactly; amounts and whole
numbers are amounts. Any other mixture is text, spelled as in CSV; so are lists, records, and what fits no type.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal

import msgspec

from trialrun.core.errors import UsageError
from trialrun.export.rows import Cell, Row, in_order, opened, spelled, valid

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["truth", "whole", "fraction", "amount", "time", "text"]

_BATCH_ROWS = 10_000
_BATCH_BYTES = 8_000_000
_LENGTH_BYTES = 8
_INT64 = 2**63
_EXACT_IN_FLOAT = 2**53
_DIGITS = 38


@dataclass(frozen=True)
class ParquetWriter:
    """Parquet with typed columns, compressed."""

    name: str = "parquet"

    def write(self, columns: Sequence[str], rows: Iterable[Row], target: Path | BinaryIO) -> int:
        _check_polars()
        with opened(target) as stream, tempfile.TemporaryFile() as spool:
            seen = [_Column() for _ in columns]
            count = _spool(in_order(columns, rows), seen, spool)
            kinds: dict[str, Kind] = {
                valid(name): column.kind for name, column in zip(columns, seen, strict=True)
            }
            schema = {name: _type(column) for name, column in zip(kinds, seen, strict=True)}
            spool.seek(0)
            _sink(_batches(spool), kinds, schema, stream)
        return count


@dataclass
class _Column:
    """What was seen in one column so far."""

    kinds: set[Kind] = field(default_factory=set[Kind])
    largest: int = 0
    digits: int = 0
    """Of an amount, before the point."""
    places: int = 0
    """After it."""

    def take(self, cell: Cell) -> object:
        """Note what the cell is; the cell as it is spooled."""
        match cell:
            case None:
                pass
            case str():
                self.kinds.add("text")
            case bool():
                self.kinds.add("truth")
            case int() if -_INT64 <= cell < _INT64:
                self.kinds.add("whole")
                self.largest = max(self.largest, abs(cell))
            case float():
                self.kinds.add("fraction")
            case datetime():
                self.kinds.add("time")
            case Decimal():
                self.kinds.add("amount")
                # Not abs(): arithmetic rounds to 28 digits.
                before, _, after = spelled(cell.copy_abs()).partition(".")
                self.digits, self.places = max(self.digits, len(before)), max(self.places, len(after))
                return spelled(cell)
            case _:
                self.kinds.add("text")
                return spelled(cell)
        return cell

    @property
    def kind(self) -> Kind:
        """The kind that holds every cell of the column exactly."""
        if self.kinds == {"whole", "fraction"} and self.largest <= _EXACT_IN_FLOAT:
            return "fraction"
        if "amount" in self.kinds and self.kinds <= {"whole", "amount"}:
            return "amount" if max(self.digits, len(str(self.largest))) + self.places <= _DIGITS else "text"
        return next(iter(self.kinds)) if len(self.kinds) == 1 else "text"


def _spool(rows: Iterable[list[Cell]], columns: Sequence[_Column], spool: IO[bytes]) -> int:
    encoder = msgspec.msgpack.Encoder()
    count = 0
    for cells in rows:
        data = encoder.encode([column.take(cell) for column, cell in zip(columns, cells, strict=True)])
        spool.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
        spool.write(data)
        count += 1
    return count


def _batches(spool: IO[bytes]) -> Iterator[list[list[object]]]:
    """The spooled rows, so many at a time that a batch fits easily into memory."""
    decoder = msgspec.msgpack.Decoder(list[object])
    batch: list[list[object]] = []
    size = 0
    while length := int.from_bytes(spool.read(_LENGTH_BYTES), "big"):
        batch.append(decoder.decode(spool.read(length)))
        size += length
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _sink(
    batches: Iterator[list[list[object]]],
    kinds: dict[str, Kind],
    schema: "dict[str, pl.DataType]",
    stream: BinaryIO,
) -> None:
    import polars as pl
    from polars.io.plugins import register_io_source

    def frames(*_: object) -> "Iterator[pl.DataFrame]":
        for batch in batches:
            columns = zip(*batch, strict=True)
            cells = {
                name: _cast(kind, column) for (name, kind), column in zip(kinds.items(), columns, strict=True)
            }
            yield pl.DataFrame(cells, schema=schema)

    register_io_source(frames, schema=schema).sink_parquet(stream)


def _cast(kind: Kind, column: Sequence[object]) -> Sequence[object]:
    casts: dict[Kind, Callable[..., object]] = {"fraction": float, "amount": Decimal, "text": spelled}
    cast = casts.get(kind)
    return [None if cell is None else cast(cell) for cell in column] if cast else column


def _type(column: _Column) -> "pl.DataType":
    import polars as pl

    match column.kind:
        case "truth":
            return pl.Boolean()
        case "whole":
            return pl.Int64()
        case "fraction":
            return pl.Float64()
        case "amount":
            return pl.Decimal(_DIGITS, column.places)
        case "time":
            return pl.Datetime("us", "UTC")
        case "text":
            return pl.String()


def _check_polars() -> None:
    if find_spec("polars") is None:
        raise UsageError(
            "Parquet is written with polars, which is not installed",
            fix="`pip install 'trialrun[frames]'`, or export to csv or jsonl",
        )
