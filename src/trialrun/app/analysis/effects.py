"""What each level of each factor does to each measure, compared with the other levels of that factor.

E1. Every effect comes with its interval and how it was made, or why it has none; p-values are adjusted for all
    questions that are asked of one measure (Holm).
E2. Where the data cannot carry a claim, the verdict says so and why. No effect is never claimed from few trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trialrun.app.analysis.data import Results, Value
from trialrun.app.findings.tables import labels_of
from trialrun.core import chance
from trialrun.core.reading.catalogue import Better
from trialrun.core.study import Factor
from trialrun.stats.comparisons import Comparison, fisher_exact, holm, permutation_test, welch_test
from trialrun.stats.intervals import Estimate, mean_difference, rate_difference
from trialrun.stats.summary import summarise

Verdict = Literal["raises", "lowers", "no clear effect", "not enough data"]
LEAST = 5
"""So many values on each side are needed for a claim of any kind."""
LEVEL = 0.05
MOST_LABELS = 12
LARGE = 100
"""With so many values on each side Welch's t says what a permutation says, and its cost does not grow."""
_DRAWS, _DRAWS_PER_QUESTION, _RARE = 2_000, 200, 0.005
"""A drawn p-value is never below 1 in the draws: with many questions, those that chance seldom answers need more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """The difference that a level makes to a measure: its own trials against those of the other levels."""

    measure: str
    """With `=label` behind it where it has labels: the share of that one."""
    factor: str
    level: str
    against: str
    """The other level, or `the other levels`."""
    difference: Estimate
    n: tuple[int, int]
    """Values with the level, and without it."""
    p: float | None
    p_adjusted: float | None
    test: str
    verdict: Verdict
    why: str
    """Of `not enough data`: what is missing. Of a claim without an interval: why it has none."""
    better: Better | None

    @property
    def is_good(self) -> bool | None:
        """Whether the effect goes the good way; None where there is none, or nobody said which way is good."""
        if self.better is None or self.verdict not in ("raises", "lowers"):
            return None
        return (self.verdict == "raises") == (self.better == "higher")


def effects_of(results: Results) -> list[Effect]:
    """Every effect of every factor on every measure: on its mean, or on the share of each of its labels."""
    done = results.done
    found: list[Effect] = []
    for measure in results.measures:
        labels = _labels(results, measure, [trial.values[measure] for trial in done])
        asked = [
            (factor, level, label)
            for label in labels
            for factor in results.study.factors
            for level in _levels(factor)
        ]
        most = max(_DRAWS, _DRAWS_PER_QUESTION * len(asked))
        family = [
            _effect(results, measure, factor, level, most, label=label) for factor, level, label in asked
        ]
        adjusted = holm([effect.p for effect in family])
        found += [_judged(replace(effect, p_adjusted=p)) for effect, p in zip(family, adjusted, strict=True)]
    return found


def _labels(results: Results, measure: str, values: Sequence[Value]) -> list[str | None]:
    """What is asked of a measure: its mean (None), or the share of each label; of two labels, one says it all.

    Values of several kinds have nothing in common, and texts that hardly ever come twice are no labels.
    """
    summary = summarise(values)
    if summary.kind in ("number", "truth", "nothing"):
        return [None]
    found = [each.label for each in summary.labels] if summary.kind == "label" else []
    labels = labels_of(results.study, measure) or sorted(found)
    if not found or len(labels) > MOST_LABELS or len(found) > sum(each.count for each in summary.labels) / 2:
        return []
    return [*labels[:1]] if len(labels) <= 2 else [*labels]


def _levels(factor: Factor) -> list[str]:
    """The levels to ask about: of two, one says it all."""
    labels = [level.label for level in factor.levels]
    return labels[1:] if len(labels) == 2 else labels if len(labels) > 2 else []


def _effect(
    results: Results, measure: str, factor: Factor, level: str, most: int, *, label: str | None
) -> Effect:
    done = results.done
    values = {trial.id: _asked(trial.values[measure], label) for trial in done}
    ours = [values[trial.id] for trial in done if trial.levels.get(factor.name) == level]
    rest = [values[trial.id] for trial in done if trial.levels.get(factor.name) != level]
    known = [value for value in (*ours, *rest) if value is not None]
    is_truth = bool(known) and all(isinstance(value, bool) for value in known)
    key = chance.derive(results.study.key, "analysis", f"{measure}/{factor.name}/{level}")
    difference, tested = _truths(ours, rest) if is_truth else _numbers(ours, rest, key, most)
    others = [each.label for each in factor.levels if each.label != level]
    return Effect(
        measure=measure if label is None else f"{measure}={label}",
        factor=factor.name,
        level=level,
        against=others[0] if len(others) == 1 else "the other levels",
        difference=difference,
        n=(_there(ours), _there(rest)),
        p=tested.p,
        p_adjusted=None,
        test=tested.method,
        verdict="not enough data",
        why="",
        better=results.better.get(measure) if label is None else None,
    )


def _asked(value: Value, label: str | None) -> Value:
    return value if label is None or value is None else value == label


def _truths(ours: Sequence[object], rest: Sequence[object]) -> tuple[Estimate, Comparison]:
    yes, n = sum(value is True for value in ours), sum(value is not None for value in ours)
    other_yes, other_n = sum(value is True for value in rest), sum(value is not None for value in rest)
    missing = len(ours) + len(rest) - n - other_n
    return (
        rate_difference(yes, n, other_yes, other_n, missing=missing),
        fisher_exact(yes, n, other_yes, other_n, missing=missing),
    )


def _numbers(
    ours: Sequence[object], rest: Sequence[object], key: bytes, most: int
) -> tuple[Estimate, Comparison]:
    first, second = ([_number(value) for value in values] for values in (ours, rest))
    difference = mean_difference(first, second)
    if min(_there(ours), _there(rest)) >= LARGE and difference.low is not None:
        return difference, welch_test(first, second)
    tested = permutation_test(first, second, key=key, draws=_DRAWS)
    if most > _DRAWS and tested.p is not None and tested.p <= _RARE:
        tested = permutation_test(first, second, key=key, draws=most)
    return difference, tested


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _there(values: Sequence[object]) -> int:
    return sum(isinstance(value, int | float) for value in values)


def _judged(effect: Effect) -> Effect:
    value = effect.difference.value
    if min(effect.n) < LEAST:
        why = f"{effect.n[0]} and {effect.n[1]} values; {LEAST} on each side are needed"
        return replace(effect, verdict="not enough data", why=why)
    if value is None or effect.p_adjusted is None:
        return replace(effect, verdict="not enough data", why=effect.difference.method)
    # Where every value is that of its level there is no spread for an interval, and yet all the evidence for a claim.
    why = effect.difference.method if effect.difference.low is None else ""
    if effect.p_adjusted >= LEVEL:
        return replace(effect, verdict="no clear effect", why=why)
    return replace(effect, verdict="raises" if value > 0 else "lowers", why=why)
