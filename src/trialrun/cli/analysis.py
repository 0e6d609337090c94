"""An analysis at a glance, and as data for `--json`."""

from collections.abc import Sequence
from pathlib import Path

from trialrun.app.analysis import layout
from trialrun.app.analysis.data import Results
from trialrun.app.analysis.effects import Effect
from trialrun.app.analysis.patterns import Patterns
from trialrun.app.analysis.report import interval, mean, number, share
from trialrun.app.analysis.statistics import statistics_of
from trialrun.cli.amounts import plural
from trialrun.cli.blocks import GAP, Block, Column, Line, Pairs, Table
from trialrun.cli.defuse import one_line
from trialrun.cli.screen import Shown

_MOST_EFFECTS = 12


def shown(results: Results, patterns: Patterns, written: Sequence[Path]) -> Shown:
    """The analysis of one study."""
    words = results.words
    data = words.keyed(
        {
            "study": results.study.name,
            "lane": results.lane,
            "rehearsal": results.is_rehearsal,
            "folder": str(results.folder),
            "files": [str(file) for file in written],
            "metrics": layout.metrics_analysis(statistics_of(results, results.trials), words),
            "variations": layout.variation_statistics(results),
            "patterns": layout.patterns_data(patterns, words),
        }
    )
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
    """All effects if there are few, else the clear ones; how many others there are."""
    if not effects:
        return []
    clear = [effect for effect in effects if effect.verdict in ("raises", "lowers")]
    told = effects if len(effects) <= _MOST_EFFECTS else clear[:_MOST_EFFECTS]
    columns = [
        *(Column("measure"), Column("level")),
        *(Column("difference", "right"), Column("p (Holm)", "right"), Column("verdict")),
    ]
    rows = [
        (
            one_line(each.measure, 40),
            one_line(f"{each.factor} = {each.level}", 50),
            interval(each.difference),
            number(each.p_adjusted),
            f"{each.verdict}{_GOOD[each.is_good]}",
        )
        for each in told
    ]
    rest = len(effects) - len(clear)
    others = f"{rest} {'other is' if rest == 1 else 'others are'} unclear or {'lacks' if rest == 1 else 'lack'} data"
    counted = Line(f"{plural(len(clear), 'clear effect')} of factors; {others}", "dim")
    return [*([Table(columns, rows), GAP] if rows else []), counted]


_GOOD = {True: " (good)", False: " (bad)", None: ""}
