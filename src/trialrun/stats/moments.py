"""Mean, standard deviation and quantiles of plain numbers, and what counts as a number at all.

The one rule about missing values lives here: None and what is not finite are missing. The journal cannot hold NaN or
infinity either (JSON has neither), so a value reads the same before and after it was stored.
"""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

Number = int | float | Decimal


def numbers_in(values: Iterable[Number | None]) -> list[float]:
    """The values that are there, as floats, in the order given."""
    found = (as_number(value) for value in values)
    return [value for value in found if value is not None]


def groups_of(
    first: Sequence[Number | None], second: Sequence[Number | None]
) -> tuple[list[float], list[float], int]:
    """The numbers of two groups, and how many are missing in both together."""
    a, b = numbers_in(first), numbers_in(second)
    return a, b, len(first) + len(second) - len(a) - len(b)


def as_number(value: Number | None) -> float | None:
    """The value as a float; None when it is missing, not finite, or beyond what a float can hold."""
    if value is None:
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an int of 400 digits; a signalling NaN
        return None
    return number if math.isfinite(number) else None


def mean_of(values: Sequence[float]) -> float:
    """The mean of one value or more, never outside their range."""
    n = len(values)
    try:
        mean = math.fsum(values) / n
    except OverflowError:
        mean = 2.0 * math.fsum(value / n / 2.0 for value in values)
    return min(max(mean, min(values)), max(values))


def deviation_of(values: Sequence[float]) -> float:
    """The standard deviation (n - 1) of two values or more; exactly 0 only when all are equal."""
    mean = mean_of(values)
    # hypot scales by itself: no square overflows, and none vanishes.
    return math.hypot(*(value - mean for value in values)) / math.sqrt(len(values) - 1)


def quantile_of(in_order: Sequence[float], share: float) -> float:
    """The quantile of sorted values by linear interpolation (type 7, as numpy, R and spreadsheets have it)."""
    place = share * (len(in_order) - 1)
    below = min(int(place), len(in_order) - 1)
    above = min(below + 1, len(in_order) - 1)
    weight = place - below
    # Not a + w (b - a): the difference of two large numbers may overflow.
    between = in_order[below] * (1.0 - weight) + in_order[above] * weight
    return min(max(between, in_order[below]), in_order[above])
