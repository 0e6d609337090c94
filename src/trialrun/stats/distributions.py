"""Normal, Student t, beta and chi-square: distribution functions and the quantiles that intervals need.

Accurate to 1e-9 and far better where it matters (tails keep their relative accuracy), without scipy, which takes a
second to import. What a distribution is used for is left to the modules beside this one.

Both incomplete functions are a weight times a continued fraction or a series. The weight is in Loader's saddle-point
form: `lgamma(a + b) - lgamma(a)` loses seven digits at a million trials.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_SMALLEST = 1e-300
_ENOUGH = 1e-16
_AS_GOOD_AS_NORMAL = 1e10
_STEPS = 1_000_000


def normal_cdf(x: float) -> float:
    """Share of a standard normal at or below `x`."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """The `x` with this share at or below it."""
    _check_share(p)
    if p in (0.0, 1.0):
        return math.copysign(math.inf, p - 0.5)
    return _NORMAL.inv_cdf(p)


def student_cdf(t: float, df: float) -> float:
    """Share of Student's t at or below `t`; the upper tail is that of `-t`. `df` need not be whole."""
    _check_positive("df", df)
    if df >= _AS_GOOD_AS_NORMAL:
        return normal_cdf(t)
    tail = _student_parts(abs(t), df)[0]
    return tail if t < 0 else 1.0 - tail


@lru_cache(maxsize=4096)
def student_quantile(p: float, df: float) -> float:
    """The `t` with this share at or below it. Cached: a table asks for the same few thousand times."""
    _check_share(p)
    _check_positive("df", df)
    if df >= _AS_GOOD_AS_NORMAL or p in (0.0, 0.5, 1.0):
        return normal_quantile(p)
    return math.copysign(_student_from_tail(min(p, 1.0 - p), df), p - 0.5)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    _check_share(x)
    _check_positive("a", a)
    _check_positive("b", b)
    return _beta_tails(x, 1.0 - x, a, b)[0]


def chi_square_cdf(x: float, df: float) -> float:
    """Share of chi-square at or below `x`."""
    _check_positive("df", df)
    return _gamma_tails(df / 2.0, x / 2.0)[0]


def chi_square_tail(x: float, df: float) -> float:
    """Share of chi-square above `x`: the p-value of a statistic, not rounded away when it is small."""
    _check_positive("df", df)
    return _gamma_tails(df / 2.0, x / 2.0)[1]


# --- Student's t --------------------------------------------------------------------------------------------------


def _student_parts(t: float, df: float) -> tuple[float, float, float]:
    """P(T > t), P(0 < T < t) and t times the density at t, for t >= 0."""
    ratio = t / math.sqrt(df)
    if ratio > 1.0:
        x, y = ratio**-2 / (1.0 + ratio**-2), 1.0 / (1.0 + ratio**-2)
    else:
        x, y = 1.0 / (1.0 + ratio**2), ratio**2 / (1.0 + ratio**2)
    lower, upper = _beta_tails(x, y, df / 2.0, 0.5)
    return lower / 2.0, upper / 2.0, _beta_weight(x, y, df / 2.0, 0.5)


def _student_from_tail(tail: float, df: float) -> float:
    """The t > 0 with P(T > t) = tail.

    Newton's method on the logarithms of t and of a probability, where the curve is nearly straight. It begins at the
    normal quantile, which is below t for every df. Near the middle the probability is that of (0, t), which keeps
    small t accurate.
    """
    is_far = tail < 0.25
    wanted = tail if is_far else 0.5 - tail
    log_t = math.log(-normal_quantile(tail))
    low, high = log_t - 1.0, 700.0
    for _ in range(200):
        above, within, weight = _student_parts(math.exp(log_t), df)
        have = above if is_far else within
        is_too_far_out = (have < wanted) == is_far
        low, high = (low, log_t) if is_too_far_out else (log_t, high)
        step = (math.log(have / wanted) * have / weight) if have > 0.0 and weight > 0.0 else math.inf
        after = log_t + step if is_far else log_t - step
        if not low <= after <= high:
            after = (low + high) / 2.0
        if abs(after - log_t) <= 4e-16 * max(1.0, abs(log_t)):
            return math.exp(after)
        log_t = after
    return math.exp(log_t)


# --- incomplete beta and gamma ------------------------------------------------------------------------------------


def _beta_tails(x: float, y: float, a: float, b: float) -> tuple[float, float]:
    """I_x(a, b) and its complement, given x and y = 1 - x, each as exact as the caller can."""
    if x <= 0.0 or y <= 0.0:
        return (0.0, 1.0) if x <= 0.0 else (1.0, 0.0)
    weight = _beta_weight(x, y, a, b)
    # How far the mean is above x, times a + b: from whichever of x and y is the small one, or nothing is left of it.
    above = (a + b) * y - b if a > b else a - (a + b) * x
    if x * (a + b + 2.0) < a + 1.0:
        lower = weight / _fraction(_beta_terms(x, y, a, b, above))
        return lower, 1.0 - lower
    upper = weight / _fraction(_beta_terms(y, x, b, a, -above))
    return 1.0 - upper, upper


def _beta_weight(x: float, y: float, a: float, b: float) -> float:
    """x^a y^b / B(a, b)."""
    if x <= 0.0 or y <= 0.0:
        return 0.0
    n = a + b
    errors = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    deviances = _deviance(a, n * x) + _deviance(b, n * y)
    return math.sqrt(a / n * b / (2.0 * math.pi)) * math.exp(errors - deviances)


def _gamma_tails(a: float, x: float) -> tuple[float, float]:
    """The regularised incomplete gamma functions P(a, x) and Q(a, x)."""
    if x <= 0.0:
        return 0.0, 1.0
    if math.isinf(x):
        return 1.0, 0.0
    weight = math.sqrt(a / (2.0 * math.pi)) * math.exp(-_stirling_error(a) - _deviance(a, x))
    if x < a + 1.0:
        lower = weight / a * _gamma_series(a, x)
        return lower, 1.0 - lower
    upper = weight / _fraction(_gamma_terms(a, x))
    return 1.0 - upper, upper


def _gamma_series(a: float, x: float) -> float:
    total = term = 1.0
    for step in range(1, _STEPS):
        term *= x / (a + step)
        total += term
        if term < total * _ENOUGH:
            return total
    raise ArithmeticError(f"no convergence at a={a}, x={x}")


_Terms = Iterator[tuple[float, float]]


def _beta_terms(x: float, y: float, a: float, b: float, above: float) -> _Terms:
    """Didonato and Morris's fraction (TOMS 708): no differences of nearly equal numbers, unlike the textbook one."""
    for n in range(_STEPS):
        k = a + 2 * n - 1
        numerator = (a + n - 1) * (a + b + n - 1) / (k * k) * n * (b - n) * x * x if n else 0.0
        turned = n * (b - n) * x / k if n else 0.0
        yield numerator, n + turned + (a + n) / (k + 2) * (above + 1.0 + n * (1.0 + y))


def _gamma_terms(a: float, x: float) -> _Terms:
    for n in range(_STEPS):
        yield -n * (n - a), x + 2 * n + 1.0 - a


def _fraction(terms: _Terms) -> float:
    """d0 + n1/(d1 + n2/(d2 + ...)) from pairs (n, d), by Lentz's method as Thompson and Barnett mended it."""
    value = c = next(terms)[1] or _SMALLEST
    d = 0.0
    for numerator, denominator in terms:
        d = 1.0 / (denominator + numerator * d or _SMALLEST)
        c = denominator + numerator / c or _SMALLEST
        value *= c * d
        if abs(c * d - 1.0) < _ENOUGH:
            return value
    raise ArithmeticError("a continued fraction did not converge")


# --- Loader's parts -----------------------------------------------------------------------------------------------


def _stirling_error(z: float) -> float:
    """The log of Γ(z + 1) minus Stirling's formula for it."""
    if z < 16.0:
        return math.lgamma(z + 1.0) - (z + 0.5) * math.log(z) + z - 0.5 * math.log(2.0 * math.pi)
    w = 1.0 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z


def _deviance(x: float, mean: float) -> float:
    """The value of x log(x / mean) + mean - x, also where the two nearly agree."""
    if mean < _SMALLEST:  # x / mean would overflow
        return x * (math.log(x) - math.log(mean or 5e-324)) - x
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, term = (x - mean) * v, 2.0 * x * v
    for step in range(3, 1000, 2):
        term *= v * v
        before, total = total, total + term / step
        if total == before:
            break
    return total


def _check_share(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{p} is not between 0 and 1")


def _check_positive(name: str, value: float) -> None:
    if not value > 0.0:
        raise ValueError(f"{name} must be positive, not {value}")
