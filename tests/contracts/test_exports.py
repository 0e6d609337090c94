"""The contract of every export format: E1 to E5 of `trialrun.export.rows`, read back with other people's readers."""

import csv
import io
import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialrun.core.errors import UsageError
from trialrun.export.csv import CsvWriter, undefused
from trialrun.export.jsonl import JsonlWriter
from trialrun.export.parquet import ParquetWriter
from trialrun.export.rows import Cell, Row, Writer, valid

Read = Callable[[bytes], tuple[list[str], list[list[object]]]]


def read_csv(data: bytes) -> tuple[list[str], list[list[object]]]:
    """Texts as they were; an empty field is missing, as the standard reader cannot tell it from an empty text."""
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    return [undefused(name) for name in header], [[undefused(cell) or None for cell in row] for row in rows]


def read_jsonl(data: bytes) -> tuple[list[str], list[list[object]]]:
    rows = [msgspec.json.decode(line, type=dict[str, object], strict=True) for line in data.splitlines()]
    return list(rows[0]) if rows else [], [list(row.values()) for row in rows]


def read_parquet(data: bytes) -> tuple[list[str], list[list[object]]]:
    frame = pl.read_parquet(io.BytesIO(data))
    return frame.columns, [list(row) for row in frame.iter_rows()]


FORMATS: list[tuple[Writer, Read]] = [
    (CsvWriter(), read_csv),
    (JsonlWriter(), read_jsonl),
    (ParquetWriter(), read_parquet),
]
each_format = pytest.mark.parametrize(("writer", "read"), FORMATS, ids=[writer.name for writer, _ in FORMATS])

HOSTILE = [
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\0=1", "'=1", "''=1", "=HYPERLINK(\"http://x\",\"y\")",
    "it's", "'quoted'", "a,b", 'say "no"', '"', '""', "two\nlines", "two\r\nlines", "old\rmac", "\n", " ", " a ",
    "a\0b", "😀", "e\u0301", "\ufeffbom", "\u2028", "None", "null", "NaN", "0", "1e5", "true", "\\", "\\N", ";=1",
]  # fmt: skip


def written(writer: Writer, columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    stream = io.BytesIO()
    assert writer.write(columns, rows, stream) == len(rows)
    return stream.getvalue()


def column_of(writer: Writer, read: Read, cells: Sequence[Cell]) -> list[object]:
    """What becomes of the cells of one column."""
    header, rows = read(written(writer, ["id", "value"], [(i, cell) for i, cell in enumerate(cells)]))
    assert header == ["id", "value"]
    return [value for _, value in rows]


# --- E3: text -----------------------------------------------------------------------------------------------------


@each_format
def test_e3_hostile_text_comes_back_as_it_went_in(writer: Writer, read: Read):
    assert column_of(writer, read, HOSTILE) == HOSTILE


@each_format
@given(texts=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=10))
def test_e3_any_text_comes_back_as_it_went_in(writer: Writer, read: Read, texts: list[str]):
    assert column_of(writer, read, texts) == texts


@each_format
def test_e3_what_has_no_bytes_becomes_a_replacement_character(writer: Writer, read: Read):
    cells = ["a\ud800b", "\udfff", "\ud83d\ude00", {"a\ud800": ["\ud800"]}]
    found = column_of(writer, read, cells)
    assert found[:3] == ["a\ufffdb", "\ufffd", "😀"]
    assert "\ufffd" in str(found[3])


@each_format
def test_e3_column_names_are_texts_too(writer: Writer, read: Read):
    names = ["=cmd", 'a "b"', "c,d", "e\nf", "'-g", "\ud800"]
    assert read(written(writer, names, [[1] * 6]))[0] == [*names[:5], "\ufffd"]


@given(st.lists(st.text(st.sampled_from("=+-@\t\r\0'\" ,\nab1")), min_size=1))
def test_no_text_in_csv_begins_like_a_formula(texts: list[str]):
    data = written(CsvWriter(), ["id", *dict.fromkeys(f"={text}" for text in texts)], []).decode()
    data += written(CsvWriter(), ["id", "value"], [(1, text) for text in [*texts, *HOSTILE]]).decode()
    cells = [cell for row in csv.reader(io.StringIO(data, newline=""), strict=True) for cell in row]
    assert [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\0"))] == []


@given(st.text())
def test_e3_a_valid_text_stays_what_it_is(text: str):
    assert valid(text).encode().decode() == valid(text)
    if not any(0xD800 <= ord(character) < 0xE000 for character in text):
        assert valid(text) == text


# --- E1: missing --------------------------------------------------------------------------------------------------


@each_format
@pytest.mark.parametrize("present", ["yes", 3, 0.5, True, Decimal("0.10"), datetime(2026, 1, 2, tzinfo=UTC)])
def test_e1_missing_is_missing_beside_any_kind(writer: Writer, read: Read, present: Cell):
    missing = [None, math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("-Infinity")]
    found = column_of(writer, read, [*missing, present, None])
    assert found[:6] == [None] * 6
    assert found[6] is not None
    assert found[7] is None


@each_format
def test_e1_a_name_that_is_absent_is_missing(writer: Writer, read: Read):
    assert read(written(writer, ["a", "b"], [{"b": "x"}, {"a": "y"}]))[1] == [[None, "x"], ["y", None]]


@each_format
def test_e1_a_table_of_one_column_keeps_the_rows_that_are_missing(writer: Writer, read: Read):
    assert read(written(writer, ["a"], [["x"], [None], ["y"]]))[1] == [["x"], [None], ["y"]]


@each_format
def test_e1_a_column_without_any_value_is_a_column(writer: Writer, read: Read):
    assert read(written(writer, ["a", "b"], [[1, None], [2, None]]))[0] == ["a", "b"]


@pytest.mark.parametrize(("writer", "read"), FORMATS[1:], ids=["jsonl", "parquet"])
def test_e1_an_empty_text_is_not_missing(writer: Writer, read: Read):
    assert column_of(writer, read, ["", None, "a"]) == ["", None, "a"]


def test_e1_in_csv_an_empty_text_is_quoted_and_a_missing_value_is_nothing():
    data = written(CsvWriter(), ["id", "value"], [(1, ""), (2, None), (3, 0)])
    assert data == b'id,value\r\n1,""\r\n2,\r\n3,0\r\n'
    assert pl.read_csv(io.BytesIO(data), schema={"id": pl.Int64, "value": pl.String})["value"].to_list() == [
        "",
        None,
        "0",
    ]


# --- E2: money, numbers, times ------------------------------------------------------------------------------------

AMOUNTS = [
    "0.1",
    "10000000000000000000.000000001",
    "-0.000000000000000001",
    "12345678901234567890.12",
    "1E+3",
    "0E-8",
    "-0",
    "100",
]


def exact(found: object) -> Decimal:
    return found if isinstance(found, Decimal) else Decimal(str(found))


@each_format
def test_e2_money_keeps_every_digit(writer: Writer, read: Read):
    amounts = [Decimal(text) for text in AMOUNTS]
    if read is read_jsonl:
        data = written(writer, ["value"], [[amount] for amount in amounts])
        found = [msgspec.json.decode(line, type=dict[str, Decimal])["value"] for line in data.splitlines()]
    else:
        found = [exact(value) for value in column_of(writer, read, amounts)]
    assert found == amounts


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20)
    )
)
@settings(max_examples=30)
def test_e2_money_is_an_amount_in_parquet_and_not_a_float(amounts: list[Decimal]):
    found = column_of(ParquetWriter(), read_parquet, [*amounts, 7])
    assert found == [*amounts, 7]
    assert all(isinstance(value, Decimal) for value in found[:-1])


def test_e2_money_beyond_the_digits_of_parquet_is_text():
    amount = Decimal("1234567890123456789012345678901234567890.12")
    assert column_of(ParquetWriter(), read_parquet, [amount, 1]) == [str(amount), "1"]


def test_e2_a_negative_number_is_not_taken_for_a_formula():
    data = written(CsvWriter(), ["a", "b", "c", "d"], [[-1, -0.5, Decimal("-0.10"), "-1"]])
    assert data == b"a,b,c,d\r\n-1,-0.5,-0.10,'-1\r\n"


@each_format
@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_e2_fractions_come_back_exactly(writer: Writer, read: Read, numbers: list[float]):
    found = column_of(writer, read, [*numbers, 0.5])
    assert [float(str(value)) for value in found] == [*numbers, 0.5]


@each_format
def test_e2_times_are_utc_and_end_in_z(writer: Writer, read: Read):
    moment = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone(timedelta(hours=2)))
    found = column_of(writer, read, [moment, moment.replace(microsecond=0)])
    if read is read_parquet:
        assert found == [moment, moment.replace(microsecond=0)]
    else:
        assert found == ["2026-03-04T03:06:07.000089Z", "2026-03-04T03:06:07Z"]


@each_format
def test_e2_a_time_without_a_zone_is_refused(writer: Writer, read: Read):
    with pytest.raises(ValueError, match="no time zone"):
        written(writer, ["at"], [[datetime(2026, 1, 1)]])  # noqa: DTZ001  # the very mistake


def test_truth_values_and_lists_are_spelled_as_in_json():
    data = written(CsvWriter(), ["a", "b", "c"], [[True, [1, None], {"x": "=1"}]])
    assert data == b'a,b,c\r\ntrue,"[1,null]","{""x"":""=1""}"\r\n'
    assert read_jsonl(written(JsonlWriter(), ["a", "b"], [[True, [1, None]]]))[1] == [[True, [1, None]]]


# --- types of Parquet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "kind", "stored"),
    [
        ([True, None], pl.Boolean(), [True, None]),
        ([1, 2**63 - 1, -(2**63)], pl.Int64(), [1, 2**63 - 1, -(2**63)]),
        ([1, 0.5], pl.Float64(), [1.0, 0.5]),
        ([2**53 + 1, 0.5], pl.String(), ["9007199254740993", "0.5"]),
        ([1, 2**63], pl.String(), ["1", "9223372036854775808"]),
        ([1, Decimal("0.25")], pl.Decimal(38, 2), [Decimal("1.00"), Decimal("0.25")]),
        ([0.5, Decimal("0.25")], pl.String(), ["0.5", "0.25"]),
        (
            [True, 1, "x", datetime(2026, 1, 2, tzinfo=UTC)],
            pl.String(),
            ["true", "1", "x", "2026-01-02T00:00:00Z"],
        ),
        ([[1], {"a": None}], pl.String(), ["[1]", '{"a":null}']),
        ([None, None], pl.String(), [None, None]),
    ],
)
def test_a_column_gets_the_type_that_holds_all_its_values(
    cells: list[Cell], kind: pl.DataType, stored: list[object]
):
    frame = pl.read_parquet(io.BytesIO(written(ParquetWriter(), ["value"], [[cell] for cell in cells])))
    assert frame.schema["value"] == kind
    assert frame["value"].to_list() == stored


def test_the_type_may_show_only_in_the_last_of_many_rows():
    rows = [[i, None] for i in range(25_000)] + [[25_000, Decimal("0.5")]]
    frame = pl.read_parquet(io.BytesIO(written(ParquetWriter(), ["id", "cost_usd"], rows)))
    assert frame["id"].to_list() == list(range(25_001))
    assert frame["cost_usd"].to_list()[-2:] == [None, Decimal("0.5")]


def test_without_polars_parquet_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(UsageError) as refused:
        ParquetWriter().write(["a"], [[1]], tmp_path / "x.parquet")
    assert "trialrun[frames]" in refused.value.fix
    assert list(tmp_path.iterdir()) == []


# --- E4 and E5: streams and files ---------------------------------------------------------------------------------


@each_format
def test_e4_memory_does_not_grow_with_the_rows(writer: Writer, read: Read, tmp_path: Path):
    def peak(count: int) -> int:
        tracemalloc.start()
        rows = ((i, f"text {i} " * 20) for i in range(count))
        assert writer.write(["id", "text"], rows, tmp_path / "x") == count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)  # what is imported and cached once
    assert peak(60_000) < 2 * peak(20_000) + 1_000_000


@each_format
def test_rows_may_be_none_at_all(writer: Writer, read: Read):
    data = written(writer, ["a", "b"], [])
    assert read(data)[1] == []
    if read is not read_jsonl:
        assert read(data)[0] == ["a", "b"]


@each_format
def test_a_stream_stays_open(writer: Writer, read: Read):
    stream = io.BytesIO()
    writer.write(["a"], [[1]], stream)
    assert not stream.closed


@each_format
def test_e5_a_file_is_there_when_it_is_complete(writer: Writer, read: Read, tmp_path: Path):
    target = tmp_path / f"trials.{writer.name}"
    assert writer.write(["a"], [["x"]], target) == 1
    assert read(target.read_bytes())[1] == [["x"]]
    assert list(tmp_path.iterdir()) == [target]


@each_format
def test_e5_an_export_that_breaks_off_leaves_what_was_there(writer: Writer, read: Read, tmp_path: Path):
    def rows() -> Iterator[Row]:
        yield ["x"]
        raise RuntimeError("the database went away")

    target = tmp_path / "trials"
    target.write_text("yesterday's")
    with pytest.raises(RuntimeError, match="went away"):
        writer.write(["a"], rows(), target)
    assert target.read_text() == "yesterday's"
    assert list(tmp_path.iterdir()) == [target]


@each_format
def test_e5_a_link_goes_on_pointing_to_the_file(writer: Writer, read: Read, tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    writer.write(["a"], [["x"]], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read((tmp_path / "file").read_bytes())[1] == [["x"]]


@each_format
def test_a_device_is_written_to_and_not_replaced(writer: Writer, read: Read):
    device = Path("/dev/null")
    assert writer.write(["a"], [["x"]], device) == 1
    assert device.is_char_device()


@each_format
@pytest.mark.parametrize("place", ["no/such/folder/x", "."])
def test_a_place_that_cannot_be_written_is_named_with_the_fix(
    writer: Writer, read: Read, place: str, tmp_path: Path
):
    with pytest.raises(UsageError, match="cannot write") as refused:
        writer.write(["a"], [[1]], tmp_path / place)
    assert "folder" in refused.value.fix


@each_format
@pytest.mark.parametrize(
    ("columns", "row", "says"),
    [
        (["a", "b"], [1], "1 cells for 2"),
        (["a"], {"a": 1, "z": 2}, "no column for"),
        (["a", "a"], [1, 2], "twice"),
    ],
)
def test_no_cell_is_dropped_in_silence(writer: Writer, read: Read, columns: list[str], row: Row, says: str):
    with pytest.raises(ValueError, match=says):
        written(writer, columns, [row])
