"""Tables in windows that are too narrow for them: what is compared stays in one column."""

from decimal import Decimal
from io import StringIO

import pytest
from rich.console import Console

from trialrun.cli.amounts import usd_column
from trialrun.cli.blocks import Column, Table, fitting, natural_width
from trialrun.cli.colour import drawn

CONDITIONS = Table(
    [
        Column("manner"), Column("model"), Column("done", "right"), Column("agreement", "right"),
        Column("words", "right"), Column("turns", "right"), Column("USD", "right"),
    ],
    [
        [manner, model, "10 of 10", "yes 0.60 [0.31, 0.83]", "121 [104, 138]", "5.60 [5.23, 5.97]", "0.082"]
        for manner in ("reasons", "demands")
        for model in ("openai/gpt-5-mini", "anthropic/claude-haiku-4-5")
    ],
)  # fmt: skip


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120])
def test_every_part_fits_and_says_what_its_rows_are(width: int):
    parts = fitting(CONDITIONS, width)
    assert parts is not None
    titles = [[column.title for column in part.columns] for part in parts]
    assert all(part[:2] == ["manner", "model"] for part in titles)
    assert [title for part in titles for title in part[2:]] == ["done", "agreement", "words", "turns", "USD"]
    assert all(natural_width(part) <= width for part in parts)
    assert (len(parts) == 1) == (width == 120)
    assert all(len(part.rows) == 4 for part in parts)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_what_is_drawn_is_never_wider_than_the_window(width: int):
    out = StringIO()
    Console(file=out, width=width).print(drawn(CONDITIONS, width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("5.60 [5.23, 5.97]") == (4 if width >= 40 else 0)


def test_a_table_without_numbers_keeps_its_first_column():
    rows = [[f"b{number}", "x" * 30, "y" * 30] for number in range(3)]
    parts = fitting(Table([Column("batch"), Column("model"), Column("id")], rows), 50)
    assert parts is not None
    assert [[column.title for column in part.columns] for part in parts] == [
        ["batch", "model"],
        ["batch", "id"],
    ]


def test_a_row_or_two_are_read_one_after_the_other():
    assert fitting(Table(CONDITIONS.columns, CONDITIONS.rows[:2]), 80) is None


def test_amounts_below_each_other_have_the_same_digits():
    amounts = [Decimal("0.0521"), Decimal("0.04"), Decimal("12.3"), Decimal(0)]
    assert usd_column(amounts) == ["0.052", "0.040", "12.300", "0.000"]
    assert usd_column([Decimal("1234.5"), Decimal("0.9")]) == ["1,234.50", "0.90"]
    assert usd_column([]) == []
