"""The analysis as Markdown for people. Every number with its interval; what could not be said is said as well.

Names and reasons come from models and other people: they are written so that Markdown and HTML mean nothing in them.
"""

from collections.abc import Iterable, Iterator, Sequence

from trialrun.app.analysis.data import Results
from trialrun.app.analysis.effects import Effect
from trialrun.app.analysis.patterns import Patterns, compared, direction
from trialrun.app.analysis.statistics import Standing, Statistics, cost_of, standing_of, statistics_of
from trialrun.app.analysis.wording import Words
from trialrun.stats.intervals import Estimate

_READING = (
    "Completion is the share of ended {trials} that came to their end; outcome is the share of completed {trials} "
    "that turned out well. They are two things. Brackets hold 95 % intervals."
)
_NONE = "–"
_LONGEST = 200
_MOST_VARIATIONS = 200


def report(results: Results, patterns: Patterns) -> str:
    """The whole report."""
    return "\n".join(_lines(results, patterns)).rstrip() + "\n"


def _lines(results: Results, patterns: Patterns) -> Iterator[str]:
    study = results.study
    yield from (f"# {plain(study.name)}", "")
    if results.is_rehearsal:
        yield from ("**REHEARSAL: made up by a built-in model, no results of a real one.**", "")
    if study.question:
        yield from (plain(study.question), "")
    if study.notice:
        yield from (f"**{plain(study.notice)}**", "")
    yield from _overall(results, patterns)
    yield from _metrics(results)
    yield from _variations(results)
    yield from _comparisons(results)
    yield from _effects(patterns, results.words)
    yield from _costs(patterns, results.words)
    yield from _failures(patterns, results.words)
    yield from _notes(patterns)


def _overall(results: Results, patterns: Patterns) -> Iterator[str]:
    standing, cost = patterns.standing, cost_of(results.trials)
    trials = results.words.trials
    rows = [
        (f"{trials.capitalize()} planned", str(standing.planned)),
        (f"{trials.capitalize()} completed", str(standing.done)),
        (f"{trials.capitalize()} failed", str(standing.failed)),
        (f"{trials.capitalize()} not ended", str(standing.unfinished)),
        ("Completion rate", share(standing.completion)),
        ("Outcome rate", _outcome(standing)),
        ("Cost", f"{cost.total_usd:.4f} USD" + (f", {cost.unknown} calls unknown" if cost.unknown else "")),
    ]
    if patterns.best is not None:
        best = patterns.best
        rate = best.standing.outcome or best.standing.completion
        lead = f"{best.variation.number} ({best.variation.description}) by {best.by}: {share(rate)}"
        clear = f"clearly ahead of {len(best.ahead_of)} of {len(results.variations) - 1} others"
        rows.append((f"First {results.words.condition}", f"{lead}; {clear}"))
    yield from ("## Overall", "")
    yield from table(("", ""), rows)
    yield from (_READING.format(trials=trials), "")


def _outcome(standing: Standing) -> str:
    return "nothing says what a good outcome is" if standing.outcome is None else share(standing.outcome)


def _metrics(results: Results) -> Iterator[str]:
    words = results.words
    yield from (f"## {words.measures.capitalize()} over all completed {words.trials}", "")
    found = statistics_of(results, results.trials)
    if not found:
        yield from ("Nothing is measured.", "")
        return
    rows = [
        (
            name,
            str(each.count),
            str(each.missing),
            mean(each),
            number(each.median),
            number(each.sd),
            number(each.minimum),
            number(each.maximum),
            direction(each.better),
        )
        for name, each in found.items()
    ]
    heads = (words.measure, "n", "missing", "mean", "median", "std", "min", "max", "direction")
    yield from table(heads, rows)


def _variations(results: Results) -> Iterator[str]:
    words = results.words
    yield from (f"## {words.conditions.capitalize()}", "")
    for each in results.variations[:_MOST_VARIATIONS]:
        standing, cost = standing_of(results, each), cost_of(results.of(each))
        rows = [
            ("completed", f"{standing.done} of {standing.planned}, {standing.failed} failed"),
            ("completion rate", share(standing.completion)),
            ("outcome rate", _outcome(standing)),
            ("cost", f"{cost.total_usd:.4f} USD"),
        ]
        rows += [(name, mean(found)) for name, found in statistics_of(results, results.of(each)).items()]
        yield from (f"### {words.condition.capitalize()} {each.number}: {plain(each.description)}", "")
        yield from table(("", ""), rows)
    more = len(results.variations) - _MOST_VARIATIONS
    if more > 0:
        yield from (f"{more} more are in {words.conditions_file}.", "")


def _comparisons(results: Results) -> Iterator[str]:
    if len(results.variations) < 2:
        return
    yield from (f"## Comparison of {results.words.conditions}", "")
    for name in results.measures:
        found = [each for each in compared(results, name) if each.statistics.mean.value is not None]
        if not found:
            continue
        order = (
            "best first" if name in results.better else "highest first, which says nothing about good or bad"
        )
        yield from (
            f"### {plain(name)}",
            "",
            f"{direction(results.better.get(name)).capitalize()}; {order}.",
            "",
        )
        rows = [
            (
                str(each.variation.number),
                each.variation.description,
                mean(each.statistics),
                str(each.statistics.count),
            )
            for each in found[:_MOST_VARIATIONS]
        ]
        yield from table((results.words.condition, "", "mean", "n"), rows)


def _effects(patterns: Patterns, words: Words) -> Iterator[str]:
    yield from ("## Success factors and other patterns", "")
    if not patterns.effects:
        yield from ("Nothing was varied.", "")
        return
    for title, effects in (
        ("Success factors: clear effects in the good direction", patterns.success_factors),
        ("Risk factors: clear effects in the other direction", patterns.risk_factors),
    ):
        yield from (f"### {title}", "")
        yield from _effect_table(effects, words) if effects else ("None was found.", "")
    yield from ("### All effects", "")
    yield from _effect_table(patterns.effects, words)
    yield from (f"p is adjusted for all questions about one {words.measure} (Holm).", "")


def _effect_table(effects: Iterable[Effect], words: Words) -> Iterator[str]:
    rows = [
        (
            effect.measure,
            f"{effect.factor} = {effect.level}",
            effect.against,
            interval(effect.difference),
            f"{effect.n[0]}, {effect.n[1]}",
            number(effect.p_adjusted),
            effect.verdict + (f": {effect.why}" if effect.why else ""),
        )
        for effect in effects
    ]
    yield from table((words.measure, "level", "against", "difference", "n", "p", "verdict"), rows)


def _costs(patterns: Patterns, words: Words) -> Iterator[str]:
    yield from ("## Cost efficiency", "")
    rows = [
        (
            str(each.variation.number),
            each.variation.description,
            str(each.done),
            f"{each.cost.total_usd:.4f}",
            _NONE if each.cost.mean_usd is None else f"{each.cost.mean_usd:.4f}",
            _NONE if each.trials_per_usd is None else f"{each.trials_per_usd:.1f}",
            _NONE if each.successes_per_usd is None else f"{each.successes_per_usd:.1f}",
        )
        for each in patterns.efficiency[:_MOST_VARIATIONS]
    ]
    heads = ("completed", "USD", f"USD per {words.trial}", "completed per USD", "good outcomes per USD")
    yield from table((words.condition, "", *heads), rows)


def _failures(patterns: Patterns, words: Words) -> Iterator[str]:
    yield from ("## Failures", "")
    if not patterns.failure_modes:
        yield from (f"No {words.trial} failed.", "")
        return
    rows = [
        (str(mode.trials), mode.status, mode.boundary or _NONE, mode.reason)
        for mode in patterns.failure_modes
    ]
    yield from table((words.trials, "status", "where", "why"), rows)


def _notes(patterns: Patterns) -> Iterator[str]:
    if patterns.notes:
        yield from ("## What this does not say", "")
        yield from (f"- {plain(note)}" for note in patterns.notes)


# --- how things are written -------------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table and an empty line."""
    yield f"| {' | '.join(plain(head) for head in heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(plain(cell) for cell in row)} |"
    yield ""


def plain(text: str) -> str:
    """A text on one line, in which nothing is a mark of Markdown or HTML."""
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    for mark, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("`", "\\`"),
        ("](", "\\]("),
    ):
        line = line.replace(mark, safe)
    return line


def mean(each: Statistics) -> str:
    """The mean, or the shares of labels."""
    if each.labels and each.mean.value is None:
        return ", ".join(f"{label.label} {share(label.share)}" for label in each.labels[:6])
    return interval(each.mean)


def interval(found: Estimate) -> str:
    if found.value is None:
        return _NONE
    if found.low is None or found.high is None:
        return f"{number(found.value)} ({found.method})"
    return f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"


def share(found: Estimate) -> str:
    """A rate in percent."""
    if found.value is None:
        return f"{_NONE} ({found.method})"
    of = f"{found.value:.1%} of {found.n}"
    return of if found.low is None or found.high is None else f"{of} [{found.low:.1%}, {found.high:.1%}]"


def number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4g}"
