"""Metrics out of texts, without a model. A text that holds no value gives none, and says why; never 0. Pure."""

import re
from dataclasses import dataclass

from trialrun.procedures.scenario.world import Metric, Value

_POWER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*\^\s*([-+]?\d{1,3})\s*")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\.\d+")
_YES = frozenset({"true", "yes", "y", "1", "on"})
_NO = frozenset({"false", "no", "n", "0", "off"})


@dataclass(frozen=True, slots=True)
class Found:
    """A value, or why there is none."""

    value: Value | None
    note: str = ""


def extracted(metric: Metric, text: str) -> Found:
    """The metric's value in a text, by its pattern or its keywords."""
    return _by_pattern(metric, text) if metric.method == "pattern" else _by_keywords(metric, text)


def typed(metric: Metric, raw: object) -> Found:
    """A raw value as the metric's kind, within its range and its categories."""
    text = str(raw).strip()
    match metric.kind:
        case "text":
            return Found(text) if text else Found(None, "the text is empty")
        case "truth":
            return _truth(raw, text)
        case "label":
            known = {category.lower(): category for category in metric.categories}
            label = known.get(text.lower())
            return Found(label) if label else Found(None, f"`{text[:60]}` is no category")
        case "whole" | "number":
            return _numbered(metric, raw, text)


def crossed(metric: Metric, value: object) -> str:
    """`critical` or `warning` if the value has passed that threshold, else nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    for name, bound in (("critical", metric.critical), ("warning", metric.warning)):
        if bound is not None and (value <= bound if _falls(metric) else value >= bound):
            return name
    return ""


def _falls(metric: Metric) -> bool:
    """Whether trouble lies below the thresholds: their order says so, or the end that is declared good."""
    if metric.warning is not None and metric.critical is not None and metric.warning != metric.critical:
        return metric.critical < metric.warning
    return metric.better == "higher"


def _by_pattern(metric: Metric, text: str) -> Found:
    """The last match counts, and in it the first group that holds something."""
    matches = list(re.finditer(metric.pattern, text, re.IGNORECASE))
    if not matches:
        return Found(None, "the pattern matches nothing")
    last = matches[-1]
    raw = next((group for group in last.groups() if group), None) if last.groups() else last[0]
    return Found(None, "the pattern matches an empty text") if not raw else typed(metric, raw)


def _by_keywords(metric: Metric, text: str) -> Found:
    count = sum(
        len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)) for word in metric.keywords
    )
    if metric.kind == "label":
        said = [
            word
            for word in metric.categories
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
        ]
        return Found(said[0]) if len(said) == 1 else Found(None, f"{len(said)} categories are named")
    if metric.kind == "truth" or metric.scoring == "presence":
        return Found(count > 0) if metric.kind == "truth" else Found(int(count > 0))
    if metric.scoring == "count":
        return Found(count)
    words = len(text.split())
    return Found(100 * count / words) if words else Found(None, "the text is empty")


def _truth(raw: object, text: str) -> Found:
    if isinstance(raw, bool):
        return Found(raw)
    lower = text.lower()
    return (
        Found(lower in _YES) if lower in _YES | _NO else Found(None, f"`{text[:60]}` is neither yes nor no")
    )


def _numbered(metric: Metric, raw: object, text: str) -> Found:
    number = float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else number_in(text)
    if number is None:
        return Found(None, f"`{text[:60]}` is no number")
    if metric.low is not None and metric.high is not None and not metric.low <= number <= metric.high:
        return Found(None, f"{number:g} is outside of {metric.low:g} to {metric.high:g}")
    if metric.kind == "number":
        return Found(number)
    return Found(int(number)) if number.is_integer() else Found(None, f"{number:g} is no whole number")


def number_in(text: str) -> float | None:
    """The number that a text is, or begins with: `7`, `1,200.5`, `10^25`, `40 %`."""
    power = _POWER.match(text)
    if power:
        return float(power[1]) ** int(power[2])
    found = _NUMBER.match(text.lstrip("$€£ ~"))
    return float(found[0].replace(",", "")) if found else None
