"""Numbers as people read them: money, time, counts, estimates with their intervals."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from math import floor, log10

UNKNOWN = "unknown"


def usd(amount: Decimal | float | None, *, round_up: bool = False) -> str:
    """An amount of USD with cents; a small one with two digits that say something. None is unknown, never 0."""
    if amount is None:
        return UNKNOWN
    exact = amount if isinstance(amount, Decimal) else Decimal(repr(amount))
    places = 2
    if exact and abs(exact) < 1:
        places = max(2, 1 - exact.adjusted())
    rounding = ROUND_CEILING if round_up else ROUND_HALF_EVEN
    text = f"{exact.quantize(Decimal(1).scaleb(-places), rounding=rounding):f}"
    whole, _, cents = text.partition(".")
    return f"{int(whole):,}.{cents.rstrip('0'):0<2}" if not text.startswith("-") else text


def usd_column(values: Sequence[Decimal]) -> list[str]:
    """Amounts below each other, with the digits of the one that needs most."""
    places = max((len(usd(value).partition(".")[2]) for value in values), default=2)
    return [f"{value:,.{places}f}" for value in values]


def count(number: float) -> str:
    """A whole number with thousands marked."""
    return f"{round(number):,}"


def span(low: float, high: float) -> str:
    """A range of counts; one number if both ends are the same."""
    first, last = count(low), count(high)
    return first if first == last else f"{first} to {last}"


def plural(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def tokens(low: float, high: float) -> str:
    """A range of token counts, rounded: nobody needs the last digits of an estimate."""
    first, last = _rounded(low), _rounded(high)
    return first if first == last else f"{first} to {last}"


def duration(seconds: float | None) -> str:
    """A span of time in the unit in which one thinks of it."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours / 24:.1f} days"


def number(value: float) -> str:
    """A mean or a bound, with three digits that say something."""
    if value == 0:
        return "0"
    size = floor(log10(abs(value)))
    return f"{value:.{max(0, min(6, 2 - size))}f}" if size < 4 else f"{value:,.0f}"


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """`3.42 [3.10, 3.74]`; the brackets are missing where the data carry no interval."""
    if value is None:
        return "–"
    if low is None or high is None:
        return number(value)
    return _alike(value, low, high)


def share(value: float | None, low: float | None, high: float | None) -> str:
    """A share between 0 and 1 with its interval, in hundredths."""
    if value is None:
        return "–"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _alike(value: float, low: float, high: float) -> str:
    """Value and bounds with the same number of decimals, as the widest of them needs."""
    largest = max(abs(value), abs(low), abs(high))
    places = 2 if largest == 0 else max(0, min(6, 2 - floor(log10(largest))))
    first, second, third = (f"{each:,.{places}f}" for each in (value, low, high))
    return f"{first} [{second}, {third}]"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _rounded(number: float) -> str:
    if number < 10_000:
        return count(number)
    if number < 10_000_000:
        return f"{number / 1000:,.0f}k"
    return f"{number / 1_000_000:,.0f}M"
