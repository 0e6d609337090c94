"""Conditions on metrics: `">= 7"` beside a metric's name, or `trust >= 7` in one text. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

Operator = Literal[">=", "<=", ">", "<", "==", "!="]
_SIGN = r"(>=|<=|==|!=|=|>|<)"
_BESIDE = re.compile(rf"\s*{_SIGN}?\s*(.+?)\s*")
_WHOLE = re.compile(rf"\s*(\w[\w.-]*)\s*{_SIGN}\s*(.+?)\s*")
_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a metric has to be."""

    metric: str
    operator: Operator
    bound: str | float

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether it holds now. A metric that has no value meets no condition."""
        value = values.get(self.metric)
        if value is None:
            return False
        if isinstance(self.bound, str):
            same = str(value).strip().lower() == self.bound.lower()
            return same if self.operator == "==" else self.operator == "!=" and not same
        number = _number(value)
        return number is not None and _compare(number, self.operator, self.bound)

    def __str__(self) -> str:
        bound = f"{self.bound:g}" if isinstance(self.bound, float) else self.bound
        return f"{self.metric} {self.operator} {bound}"


def all_hold(conditions: tuple[Condition, ...], values: Mapping[str, object]) -> bool:
    """Whether every one of these holds; of none, nothing does."""
    return bool(conditions) and all(condition.holds(values) for condition in conditions)


def condition_of(metric: str, text: object) -> Condition | None:
    """The condition that stands beside a metric's name: `">= 7"`, `7`, `yes`."""
    if isinstance(text, bool):
        return Condition(metric, "==", float(text))
    if isinstance(text, int | float):
        return Condition(metric, "==", float(text))
    found = _BESIDE.fullmatch(str(text)) if isinstance(text, str) else None
    return _made(metric, found[1] or "==", found[2]) if found else None


def conditions_in(given: object) -> tuple[Condition, ...] | None:
    """Conditions as a map, a list of texts, or one text joined by `and`; None where they are none of these."""
    if given is None:
        return ()
    made: list[Condition | None]
    match given:
        case Mapping():
            entries = cast("Mapping[str, object]", given)
            made = [condition_of(metric, text) for metric, text in entries.items()]
        case list():
            made = [_whole(text) for text in cast("list[object]", given)]
        case str():
            made = [_whole(part) for part in re.split(r"\s+and\s+", given)]
        case _:
            return None
    return None if None in made else tuple(cast("list[Condition]", made))


def _whole(text: object) -> Condition | None:
    found = _WHOLE.fullmatch(text) if isinstance(text, str) else None
    return _made(found[1], found[2], found[3]) if found else None


def _made(metric: str, sign: str, bound: str) -> Condition | None:
    operator = cast("Operator", "==" if sign == "=" else sign)
    try:
        return Condition(metric, operator, float(bound))
    except ValueError:
        if bound.lower() in _TRUTH:
            return Condition(metric, operator, _TRUTH[bound.lower()])
    return Condition(metric, operator, bound) if operator in ("==", "!=") else None


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return _TRUTH.get(value.strip().lower())
    return float(value) if isinstance(value, int | float) else None


def _compare(value: float, operator: Operator, bound: float) -> bool:
    match operator:
        case ">=":
            return value >= bound
        case "<=":
            return value <= bound
        case ">":
            return value > bound
        case "<":
            return value < bound
        case "==":
            return value == bound
        case "!=":
            return value != bound
