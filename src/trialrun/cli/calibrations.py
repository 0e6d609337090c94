"""A calibration, rendered for people and as data for `--json`."""

from collections.abc import Sequence
from dataclasses import asdict

from trialrun.app.findings.calibrating import Calibration
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Column, Line, Table
from trialrun.cli.defuse import one_line


def calibration_blocks(found: Sequence[Calibration]) -> list[Block]:
    """Agreement with the labels, and which label was taken for which."""
    blocks: list[Block] = [Line("agreement with the labels", "title"), _summary(found)]
    for each in found:
        blocks += [
            GAP,
            Line(f"{each.item}: labels in rows, ratings of {each.rater} in columns", "dim"),
            _confusion(each),
        ]
    return blocks


def calibration_data(found: Sequence[Calibration]) -> list[dict[str, object]]:
    """The same for programs."""
    return [
        {
            **{
                key: value
                for key, value in asdict(each).items()
                if key not in ("confusion", "accuracy", "kappa", "ac1")
            },
            "labels": list(each.confusion.labels),
            "confusion": [
                {"label": right, "rating": answer, "units": count}
                for (right, answer), count in sorted(each.confusion.counts.items())
            ],
            "accuracy": asdict(each.accuracy),
            "kappa": asdict(each.kappa),
            "ac1": asdict(each.ac1),
        }
        for each in found
    ]


def _summary(found: Sequence[Calibration]) -> Table:
    columns = [
        Column("item"),
        Column("rater"),
        Column("units", "right"),
        Column("accuracy", "right"),
        Column("kappa", "right"),
        Column("AC1", "right"),
        Column("one label", "right"),
        Column("mean error", "right"),
        Column("missing", "right"),
    ]
    rows = [
        (
            each.item,
            each.rater,
            f"{each.confusion.n:,}",
            amounts.share(each.accuracy.value, each.accuracy.low, each.accuracy.high),
            amounts.share(each.kappa.value, each.kappa.low, each.kappa.high),
            amounts.share(each.ac1.value, each.ac1.low, each.ac1.high),
            "" if each.baseline is None else f"{each.baseline:.2f}",
            "" if each.mean_error is None else amounts.number(each.mean_error),
            ", ".join(f"{count:,} {why}" for why, count in sorted(each.missing.items())),
        )
        for each in found
    ]
    return Table(columns, rows)


def _confusion(each: Calibration) -> Table:
    table = each.confusion
    columns = [Column(""), *(Column(one_line(label, 24), "right") for label in table.labels)]
    rows = [
        [one_line(right, 24), *(f"{table.of(right, answer):,}" for answer in table.labels)]
        for right in table.labels
    ]
    return Table(columns, rows)
