"""Tables as data frames: polars if it is installed, else pandas. Neither is imported before a frame is asked for.

Amounts are floats here, fit to calculate with; exports have them exactly. A column of the study that mixes numbers with
texts is text.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Literal

from trialrun.core.errors import UsageError

Library = Literal["polars", "pandas"]

_COUNTS = frozenset((
    "replicate", "block", "planned", "actual", "turns", "calls", "attempts", "tokens_in", "tokens_out",
    "tokens_cached", "tokens_cache_write", "tokens_reasoning", "unknown_costs", "in_doubt", "redone",
    "number", "unit", "repeat", "order", "turn", "attempt", "http_status", "size_bytes", "n", "missing",
))  # fmt: skip


def library(wanted: Library | None) -> Library:
    """The library to make frames with. Raises UsageError, with the fix, when it is not there."""
    for name in (wanted,) if wanted else ("polars", "pandas"):
        if name not in ("polars", "pandas"):
            raise UsageError(
                f"`{name}` makes no data frames here", fix='use frame="polars" or frame="pandas"'
            )
        if find_spec(name) is not None:
            return name
    missing = wanted or "polars"
    extra = "frames" if missing == "polars" else "pandas"
    raise UsageError(
        f"{missing} is not installed" if wanted else "neither polars nor pandas is installed",
        fix=f"`pip install 'trialrun[{extra}]'`, or take files with `trialrun export`",
    )


def frame_of(columns: Sequence[str], rows: Iterable[Sequence[object]], wanted: Library | None) -> Any:
    """A data frame of these rows."""
    cells = list(zip(*rows, strict=True)) or [() for _ in columns]
    return frame_of_columns({name: _alike(each) for name, each in zip(columns, cells, strict=True)}, wanted)


def frame_of_columns(data: Mapping[str, Sequence[object]], wanted: Library | None) -> Any:
    """A data frame of columns with values of one kind each. Numbers in a column `..._at` are seconds since 1970."""
    return _polars(data) if library(wanted) == "polars" else _pandas(data)


def _alike(column: Sequence[object]) -> Sequence[object]:
    """The column with values of one kind that both libraries have a type for."""
    kinds = set(map(type, column))
    kinds.discard(type(None))
    if len(kinds) <= 1 and not kinds & {Decimal, tuple, list, dict}:
        return column
    if kinds <= {int, float, Decimal}:
        return [None if cell is None else float(cell) for cell in column]  # pyright: ignore[reportArgumentType]  # these are numbers
    from trialrun.export.rows import spelled

    return [None if cell is None else spelled(cell) for cell in column]  # pyright: ignore[reportArgumentType]  # plain cells


def _polars(data: Mapping[str, Sequence[object]]) -> Any:
    import polars as pl

    # All rows decide on a column's type: a measure may be missing in the first ten thousand.
    return pl.DataFrame({name: _series(name, cells) for name, cells in data.items()})


def _series(name: str, cells: Sequence[object]) -> Any:
    import polars as pl

    series = pl.Series(name, cells, dtype=_type(name, cells))
    if name.endswith("_at") and series.dtype == pl.Float64:
        return (series * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
    return series


def _type(name: str, cells: Sequence[object]) -> Any:
    """The type of a column; of one without values, what its name promises, so that frames can be joined."""
    import polars as pl

    match next((cell for cell in cells if cell is not None), None):
        case bool():
            return pl.Boolean
        case int():
            return pl.Int64
        case float():
            return pl.Float64
        case datetime():
            return pl.Datetime("us", "UTC")
        case None if name.endswith("_at"):
            return pl.Datetime("us", "UTC")
        case None if name in _COUNTS:
            return pl.Int64
        case None if name == "value" or name.endswith(("_usd", "_s")):
            return pl.Float64
        case _:
            return pl.String


def _pandas(data: Mapping[str, Sequence[object]]) -> Any:
    import pandas as pd

    series = {name: pd.Series(list(cells)) for name, cells in data.items()}
    for name, each in series.items():
        if name.endswith("_at") and each.dtype == "float64":
            series[name] = pd.to_datetime((each * 1e6).round(), unit="us", utc=True)
    return pd.DataFrame(series)
