"""Metrics out of texts, without a model. A text that holds no value gives none, and says why; never 0. Pure."""

import math
import re
from dataclasses import dataclass

from trialrun.procedures.scenario.world import Metric, Value

_POWER = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(?:\^|\*\*)\s*([-+]?\d+(?:\.\d+)?)")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\.\d+")
_SCALE = re.compile(r"(?:\s*(thousand|million|billion|trillion)|(k|mn|bn|tn))\b", re.IGNORECASE)
_SCALES = {"thousand": 10**3, "k": 10**3, "million": 10**6, "mn": 10**6, "billion": 10**9, "bn": 10**9,
           "trillion": 10**12, "tn": 10**12}  # fmt: skip
_AMBIGUOUS = re.compile(r"[,._]\d|\s\d{3}(?!\d)|\s*[-\N{EN DASH}\N{EM DASH}]\s*\d|\s*(?:\^|\*\*)")
"""After a number: more of it than was read. A decimal comma, a range, a date, a version, a power of a power."""
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
        return Found(count > 0) if metric.kind == "truth" else typed(metric, int(count > 0))
    if metric.scoring == "count":
        return typed(metric, count)
    words = len(text.split())
    return typed(metric, 100 * count / words) if words else Found(None, "the text is empty")


def _truth(raw: object, text: str) -> Found:
    if isinstance(raw, bool):
        return Found(raw)
    lower = text.lower()
    return (
        Found(lower in _YES) if lower in _YES | _NO else Found(None, f"`{text[:60]}` is neither yes nor no")
    )


def _numbered(metric: Metric, raw: object, text: str) -> Found:
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    number = _finite(raw) if is_number else number_in(text)
    if number is None:
        return Found(None, f"`{text[:60]}` is no number")
    if metric.low is not None and metric.high is not None and not metric.low <= number <= metric.high:
        return Found(None, f"{number:g} is outside of {metric.low:g} to {metric.high:g}")
    if metric.kind == "number":
        return Found(float(number))
    if isinstance(number, float) and not number.is_integer():
        return Found(None, f"{number:g} is no whole number")
    return Found(int(number))


def number_in(text: str) -> int | float | None:
    """The number that a text is, or begins with: `7`, `1,200.5`, `10^25`, `40 %`, `3 million`.

    None where it could be read in two ways: `1,5`, `5-7`.
    """
    plain = text.strip().replace("\N{MINUS SIGN}", "-").lstrip("$€£ ~")
    found = _POWER.match(plain) or _NUMBER.match(plain)
    if found is None or _AMBIGUOUS.match(plain, found.end()):
        return None
    if found.re is _POWER:
        return _power(found[1], found[2])
    number = _plain(found[0].replace(",", ""))
    scale = _SCALE.match(plain, found.end())
    if scale is None or number is None:
        return number
    return _finite(number * _SCALES[(scale[1] or scale[2]).lower()])


def _power(base: str, exponent: str) -> int | float | None:
    try:
        about = _finite(float(base) ** float(exponent))
    except (OverflowError, ZeroDivisionError):
        return None
    is_whole = "." not in base + exponent and not exponent.startswith("-")
    return about if about is None or not is_whole else int(base) ** int(exponent)


def _plain(digits: str) -> int | float | None:
    about = _finite(float(digits))
    is_whole = not any(mark in digits for mark in ".eE")
    return about if about is None or not is_whole else int(digits)


def _finite(number: object) -> int | float | None:
    """A number that a float can hold, at least nearly."""
    try:
        is_finite = isinstance(number, int | float) and math.isfinite(number)
    except OverflowError:
        return None
    return number if is_finite and isinstance(number, int | float) else None
