"""An analysis at a glance, and as data for `--json`."""

from collections.abc import Sequence
from pathlib import Path

from trialrun.app.analysis import layout
from trialrun.app.analysis.data import Results
from trialrun.app.analysis.effects import Effect
from trialrun.app.analysis.patterns import Patterns
from trialrun.app.analysis.report import interval, mean, number, share
from trialrun.app.analysis.statistics import statistics_of
from trialrun.cli.blocks import GAP, Block, Column, Line, Pairs, Table
from trialrun.cli.defuse import one_line
from trialrun.cli.screen import Shown

_MOST_EFFECTS = 12


def shown(results: Results, patterns: Patterns, written: Sequence[Path]) -> Shown:
    """The analysis of one study."""
    data = {
        "study": results.study.name,
        "lane": results.lane,
        "rehearsal": results.is_rehearsal,
        "folder": str(results.folder),
        "files": [str(file) for file in written],
        "metrics": layout.metrics_analysis(statistics_of(results, results.trials)),
        "variations": layout.variation_statistics(results),
        "patterns": layout.patterns_data(patterns),
    }
    return Shown(data=data, blocks=lambda: blocks_of(results, patterns, written))


def blocks_of(results: Results, patterns: Patterns, written: Sequence[Path]) -> list[Block]:
    """What a person wants to see first; the files have the rest."""
    blocks: list[Block] = []
    if results.is_rehearsal:
        blocks += [Line("REHEARSAL: made up by a built-in model, no results of a real one", "loud"), GAP]
    standing = patterns.standing
    blocks += [Line(f"{results.study.name}: {standing.done} of {standing.planned} trials done", "title"), GAP]
    rates = [("completion", share(standing.completion))]
    if standing.outcome is not None:
        rates.append(("outcome", share(standing.outcome)))
    if patterns.best is not None:
        best = patterns.best
        others = len(best.ahead_of) + len(best.not_clearly)
        rates.append(("first", one_line(f"{best.variation.description}, by {best.by}", 120)))
        rates.append(("", f"clearly ahead of {len(best.ahead_of)} of {others} others"))
    blocks += [Pairs(rates), GAP, _measures(results), GAP, *_effects(patterns.effects)]
    if patterns.failure_modes:
        rows = [(f"{mode.trials:,} ×", one_line(mode.reason, 160)) for mode in patterns.failure_modes[:6]]
        blocks += [Line("why trials failed", "title"), Pairs(rows), GAP]
    blocks += [Line(note, "dim") for note in patterns.notes]
    return [*blocks, GAP, Pairs([("written", str(file)) for file in written])]


def _measures(results: Results) -> Table:
    columns = [
        Column("measure"),
        *(Column(name, "right") for name in ("n", "missing", "mean", "std", "min", "max")),
    ]
    rows = [
        (
            name,
            str(each.count),
            str(each.missing),
            one_line(mean(each), 80),
            number(each.sd),
            number(each.minimum),
            number(each.maximum),
        )
        for name, each in statistics_of(results, results.trials).items()
    ]
    return Table(columns, rows)


def _effects(effects: Sequence[Effect]) -> list[Block]:
    """The clear effects; how many others there are."""
    clear = [effect for effect in effects if effect.verdict in ("raises", "lowers")]
    rest = len(effects) - len(clear)
    if not effects:
        return []
    blocks: list[Block] = []
    if clear:
        columns = [Column("level"), Column("effect"), Column("difference", "right"), Column("p", "right")]
        rows = [
            (
                one_line(f"{each.factor} = {each.level}", 50),
                f"{each.verdict} {each.measure}{_GOOD[each.is_good]}",
                interval(each.difference),
                number(each.p_adjusted),
            )
            for each in clear[:_MOST_EFFECTS]
        ]
        blocks += [Table(columns, rows), GAP]
    blocks.append(
        Line(f"{len(clear)} clear effects of factors; {rest} others are unclear or lack data", "dim")
    )
    return blocks


_GOOD = {True: " (good)", False: " (bad)", None: ""}
