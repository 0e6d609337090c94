"""The gate between two studies: levels of a factor for which a rule holds in finished trials, as a file of entries.

A cheap study screens, a rule is declared, and the next study takes its levels `from` the file that comes out. So what
was selected, and why, is part of the second study's archive, and neither study's design depends on its own results.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from trialrun.app.findings.tables import declared_study
from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.paths import as_map
from trialrun.core.reading.writing import write_yaml
from trialrun.core.study import Factor, Level, Study
from trialrun.stats.intervals import Estimate, rate_interval
from trialrun.stats.summary import summarise
from trialrun.store.archive import Archive

_RULE = re.compile(
    r"(?:(?P<bound>low|high)\s+)?(?P<measure>[\w.-]+)(?:=(?P<label>[\w -]+?))?\s*"
    r"(?P<sign>>=|<=|>|<)\s*(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+))"
)
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """`flipped >= 0.2`, `high flipped >= 0.2`, `first=wrong > 0`: a rate, mean or share against a number."""

    text: str
    measure: str
    label: str | None
    sign: str
    number: float
    bound: Literal["value", "low", "high"]
    """What is compared: the estimate, or an end of its 95 % interval."""

    def estimate(self, values: Sequence[object]) -> Estimate | None:
        """What the rule looks at, in the trials of one level."""
        if self.label is not None:
            known = [value for value in values if value is not None]
            return rate_interval(sum(value == self.label for value in known), len(known))
        summary = summarise(values)
        return summary.rate or (summary.numbers.mean if summary.numbers else None)

    def holds(self, values: Sequence[object]) -> bool | None:
        """None where the trials say nothing."""
        found = self.estimate(values)
        looked_at = None if found is None else cast("float | None", getattr(found, self.bound))
        return None if looked_at is None else _SIGNS[self.sign](looked_at, self.number)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What came of it, in the order of the study file."""

    study: str
    lane: str
    factor: str
    rules: tuple[str, ...]
    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    without_data: tuple[str, ...]
    """Levels of which the trials say nothing; they are not taken."""
    text: str
    """The file of entries."""


def rule_of(text: str) -> Rule:
    """Read a rule."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"`{text}` is no rule", fix="write `flipped >= 0.2`, `high flipped >= 0.2` or `first=wrong > 0`"
        )
    return Rule(
        text=" ".join(text.split()),
        measure=found["measure"],
        label=found["label"],
        sign=found["sign"],
        number=float(found["number"]),
        bound=cast('Literal["low", "high"]', found["bound"]) if found["bound"] else "value",
    )


def select(
    folder: Path, *, factor: str, rules: Sequence[str], only: Mapping[str, str] | None = None
) -> Selection:
    """The levels of a factor for which all rules hold, looking at trials with the levels in `only`."""
    wanted = [rule_of(rule) for rule in rules]
    with Archive(folder) as archive:
        study, declared = declared_study(archive)
        chosen = _factor_of(study, factor)
        _check_only(study, only or {})
        values = _values(archive, factor, {rule.measure for rule in wanted}, only or {})
        for rule in wanted:
            _check_rule(
                rule, [value for of_level in values.values() for value in of_level[rule.measure]], archive
            )
    verdicts = {level.label: _verdict(wanted, values.get(level.label, {})) for level in chosen.levels}
    taken = [level for level in chosen.levels if verdicts[level.label]]
    return Selection(
        study=study.name,
        lane=declared.lane,
        factor=factor,
        rules=tuple(rule.text for rule in wanted),
        taken=tuple(level.label for level in taken),
        left_out=tuple(label for label, verdict in verdicts.items() if verdict is False),
        without_data=tuple(label for label, verdict in verdicts.items() if verdict is None),
        text=_head(study, declared.lane, factor, wanted, only or {})
        + write_yaml([_entry(level) for level in taken]),
    )


def _check_rule(rule: Rule, values: Sequence[object], archive: Archive) -> None:
    """A rule about nothing that was measured, or about a label as if it were a number, would take no level at all."""
    known = [value for value in values if value is not None]
    if values and not known:
        names = {row.name for row in archive.measures()}
        names |= {name for state in archive.trials("done") for name in state.values}
        if rule.measure not in names:
            fix = pick(rule.measure, sorted(names), otherwise="use what was measured")
            raise UsageError(f"no trial has the measure `{rule.measure}`", fix=fix)
    labels = [value for value in known if isinstance(value, str)]
    if rule.label is None and labels and len(labels) == len(known):
        raise UsageError(
            f"`{rule.measure}` has labels and no numbers",
            fix=f"compare the share of one: `{rule.measure}={labels[0][:40]} {rule.sign} {rule.number:g}`",
        )


def _verdict(rules: Sequence[Rule], values: Mapping[str, Sequence[object]]) -> bool | None:
    found = [rule.holds(values.get(rule.measure, ())) for rule in rules]
    return None if None in found else all(found)


def _values(
    archive: Archive, factor: str, measures: set[str], only: Mapping[str, str]
) -> dict[str, dict[str, list[object]]]:
    """Level → measure → its value in each finished trial: the last one measured, else the outcome's."""
    last: dict[tuple[str, str], object] = {
        (row.trial, row.name): row.value for row in archive.measures() if row.name in measures
    }
    found: dict[str, dict[str, list[object]]] = {}
    for state in archive.trials("done"):
        is_meant = all(state.levels.get(name) == label for name, label in only.items())
        if state.forked_from or factor not in state.levels or not is_meant:
            continue
        of_level = found.setdefault(state.levels[factor], {})
        for measure in measures:
            value = last.get((state.id, measure), state.values.get(measure))
            of_level.setdefault(measure, []).append(value)
    return found


def _factor_of(study: Study, name: str) -> Factor:
    for factor in study.factors:
        if factor.name == name:
            return factor
    names = [factor.name for factor in study.factors]
    raise UsageError(f"`{study.name}` has no factor `{name}`", fix=pick(name, names))


def _check_only(study: Study, only: Mapping[str, str]) -> None:
    for name, label in only.items():
        labels = [level.label for level in _factor_of(study, name).levels]
        if label not in labels:
            raise UsageError(f"factor `{name}` has no level `{label}`", fix=pick(label, labels))


def _entry(level: Level) -> object:
    """What the level sets, as an entry of a file."""
    values = [value for _, value in level.sets]
    entry = as_map(values[0]) if len(values) == 1 else None
    if entry is not None:
        return {"id": level.label, **entry}
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    raise UsageError(
        f"the level `{level.label}` is no entry of a file",
        fix="select levels that set one text or one map, such as questions, tactics or models",
    )


def _head(study: Study, lane: str, factor: str, rules: Sequence[Rule], only: Mapping[str, str]) -> str:
    """Where the file comes from, as comments."""
    where = "".join(f", in trials with {name}={label}" for name, label in only.items())
    rehearsed = "# REHEARSAL: selected on made-up answers.\n" if lane == "rehearsal" else ""
    rule = " and ".join(f"`{rule.text}`" for rule in rules)
    return f"{rehearsed}# Levels of `{factor}` in the study `{study.name}` for which {rule} holds{where}.\n"
