"""What a provider says about its limits, in one form for all of them: OpenAI's names, with spans in seconds.

The pacer reads `x-ratelimit-remaining-requests`, `x-ratelimit-reset-requests` (`12.5s`: until all of
`x-ratelimit-limit-requests` are back, since the call was let in) and the same with `-tokens`.
Anthropic counts input, output and all tokens apart and names moments instead of spans; the scarcest of them stands for
tokens here. OpenRouter counts requests alone, in a window whose end is a moment in milliseconds; a 429 of it says so.
Moments go by the server's clock, which is in `Date`. A span until one counts from the reply: `x-ratelimit-reset-from`.
"""

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from time import time

_LONGEST_RETRY_AFTER_S = 24 * 3600.0
_MOST_DIGITS = 18
_KEPT = ("retry-after", "retry-after-ms", "content-type")
_DATE = "date"
_SKEW_S = 2.0
"""Clocks that differ by less are taken for equal: a `Date` has whole seconds, and has been under way."""
_OURS = "x-ratelimit-"
_ANTHROPIC = "anthropic-ratelimit-"
_ANTHROPIC_KINDS = {
    "requests": ("requests",),
    "tokens": ("tokens", "input-tokens", "output-tokens"),
}


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say something about limits, with names in lower case and limits in their common form."""
    kept: dict[str, str] = {}
    is_anthropic = False
    date = ""
    for name, value in headers.items():
        lower = _known(name)
        if lower == _DATE:
            date = value
        elif lower:
            kept[lower] = value
            is_anthropic = is_anthropic or lower.startswith(_ANTHROPIC)
    if (asked := _moment(kept.get("retry-after", ""))) is not None:
        kept["retry-after"] = f"{max(0.0, asked - _now_there(date)):.3f}"
    if is_anthropic or "x-ratelimit-remaining" in kept:
        (_from_anthropic if is_anthropic else _from_openrouter)(kept, _now_there(date))
        kept[f"{_OURS}reset-from"] = "reply"
    return kept


@lru_cache(maxsize=1024)
def _known(name: str) -> str:
    """The name in lower case, if it is one of those that are read: a provider sends the same two dozen every time."""
    lower = name.lower()
    return lower if lower.startswith((_OURS, _ANTHROPIC)) or lower in (*_KEPT, _DATE) else ""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks to wait: in milliseconds, in seconds, or until a date."""
    for name, a_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return bounded(float(headers[name]) / a_second)
        except (KeyError, ValueError):
            continue
    try:
        return bounded(parsedate_to_datetime(headers["retry-after"]).timestamp() - time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def window_s(headers: Mapping[str, str]) -> float | None:
    """How long until the window ends in which no request is left, where a moment was named for that."""
    if headers.get(f"{_OURS}reset-from") != "reply" or headers.get(f"{_OURS}remaining-requests") != "0":
        return None
    try:
        return bounded(float(headers[f"{_OURS}reset-requests"].removesuffix("s")))
    except (KeyError, ValueError):
        return None


def bounded(seconds: float) -> float | None:
    """A span that can be waited for; None if it makes no sense."""
    if seconds != seconds or seconds > _LONGEST_RETRY_AFTER_S:  # noqa: PLR0124 - not a number
        return None
    return max(0.0, seconds)


def whole(text: str) -> int | None:
    """A count in a header; None if it is none. Nothing that a header says may cost us the reply that it came with."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


@lru_cache(maxsize=64)
def _moment(text: str) -> float | None:
    """The time that an HTTP date names; None for what is none, such as a number of seconds."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError):
        return None


def _now_there(date: str) -> float:
    """The time by the server's clock, which its dates go by."""
    ours, theirs = time(), _moment(date)
    return ours if theirs is None or abs(theirs - ours) < _SKEW_S else theirs


def _from_anthropic(kept: dict[str, str], now: float) -> None:
    for kind, sources in _ANTHROPIC_KINDS.items():
        left = {
            source: number
            for source in sources
            if (number := whole(kept.get(f"{_ANTHROPIC}{source}-remaining", ""))) is not None
        }
        if not left:
            continue
        scarcest = min(left, key=lambda source: left[source])
        kept[f"{_OURS}remaining-{kind}"] = str(left[scarcest])
        if limit := kept.get(f"{_ANTHROPIC}{scarcest}-limit"):
            kept[f"{_OURS}limit-{kind}"] = limit
        if (reset_s := _seconds_until(kept.get(f"{_ANTHROPIC}{scarcest}-reset", ""), now)) is not None:
            kept[f"{_OURS}reset-{kind}"] = f"{reset_s:.3f}s"


def _from_openrouter(kept: dict[str, str], now: float) -> None:
    kept.setdefault(f"{_OURS}remaining-requests", kept["x-ratelimit-remaining"])
    reset = kept.get("x-ratelimit-reset", "")
    if len(reset) >= 12 and (moment := whole(reset)) is not None:
        kept.setdefault(f"{_OURS}reset-requests", f"{max(0.0, moment / 1000 - now):.3f}s")


def _seconds_until(moment: str, now: float) -> float | None:
    """From now until an RFC 3339 time."""
    try:
        then = datetime.fromisoformat(moment)
        return max(0.0, then.timestamp() - now)
    except (ValueError, OverflowError):
        return None
