"""Numbers and texts that keep the bounds, patterns and formats of a schema."""

import math
from collections.abc import Callable

from trialrun.core.json_schema import as_written
from trialrun.providers.rehearsal import schemas
from trialrun.providers.rehearsal.dice import Dice
from trialrun.providers.rehearsal.lexicon import WORDS
from trialrun.providers.rehearsal.patterns import Unsupported, text_matching
from trialrun.providers.rehearsal.schemas import Schema, Unsatisfiable

_LONGEST = 100_000
NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


_SHORT_WORDS = (
    "name",
    "label",
    "title",
    "category",
    "topic",
    "tag",
    "type",
    "kind",
    "id",
    "key",
    "status",
    "mood",
    "emotion",
)


def integer(rules: Schema, dice: Dice) -> int:
    low, high = _bounds(rules)
    step = schemas.number_of(rules, "multipleOf") or 1
    # An integer that is a multiple of 2.5 is a multiple of 5.
    whole = (
        step
        if isinstance(step, int)
        else next((n * step for n in range(1, 1000) if (n * step).is_integer()), 0)
    )
    if not whole:
        raise Unsatisfiable("no integer is a multiple")
    whole = int(whole)
    least = None if low is None else -(-math.ceil(low) // whole)
    most = None if high is None else math.floor(high) // whole
    first, last = _window(least, most, width=10)
    if first > last:
        raise Unsatisfiable("no integer in these bounds")
    return (first + dice.below(last - first + 1)) * whole


def number(rules: Schema, name: str, dice: Dice) -> int | float:
    low, high = _bounds(rules)
    step = schemas.number_of(rules, "multipleOf")
    if step is not None and 0 < step < math.inf:
        first, last = _window(
            None if low is None else math.ceil(low / step),
            None if high is None else math.floor(high / step),
            width=100,
        )
        if first > last:
            raise Unsatisfiable("no multiple in these bounds")
        times = first + dice.below(last - first + 1)
        try:
            value = float(times * as_written(step))
        except OverflowError as error:
            raise Unsatisfiable("no multiple that a number can hold") from error
    else:
        default = 1.0 if any(word in name for word in ("prob", "confidence", "share", "rate")) else 10.0
        bottom = low if low is not None else min(0.0, high - default) if high is not None else 0.0
        top = high if high is not None else max(default, bottom + default)
        value = bottom + (top - bottom) * dice.fraction()
        value = rounded if bottom < (rounded := round(value, 2)) < top else value
    if not schemas.fits(value, {key: rules[key] for key in NUMERIC if key in rules}, rules):
        raise Unsatisfiable("no number in these bounds")
    return value


def text(
    rules: Schema,
    name: str,
    dice: Dice,
    sentence: Callable[[], str],
    prose: Callable[[], str],
    *,
    is_brief: bool,
    is_lenient: bool,
) -> str:
    """A text for the field `name`: `prose` where nothing shorter will do, and a `sentence` to fill it up."""
    shortest = schemas.count_of(rules, "minLength") or 0
    longest = schemas.count_of(rules, "maxLength")
    pattern, form = rules.get("pattern"), rules.get("format")
    if shortest > _LONGEST or (longest is not None and longest < shortest):
        raise Unsatisfiable("no text has such a length")
    if isinstance(pattern, str):
        try:
            return text_matching(pattern, dice, shortest=shortest, longest=longest)
        except Unsupported as error:
            if not is_lenient:
                raise Unsatisfiable(f"pattern {pattern}") from error
    if isinstance(form, str) and (spelled := formatted(form, dice)):
        return spelled
    return _fitted(_said(name, dice, prose, is_brief=is_brief), sentence, shortest, longest)


def _said(name: str, dice: Dice, prose: Callable[[], str], *, is_brief: bool) -> str:
    lower = name.lower()
    if is_brief:
        return dice.pick(WORDS["quality"])
    if _names_somebody(lower):
        return dice.pick(WORDS["name"])
    if _names_a_kind(lower):
        return dice.pick(WORDS["feeling" if "m" in lower else "value"])
    return prose()


def is_prose(rules: Schema, name: str) -> bool:
    """Whether a field of this name is a text of as many words as somebody likes."""
    kinds, lower = schemas.types_of(rules), name.lower()
    return (
        (not kinds or "string" in kinds)
        and not any(keyword in rules for keyword in ("enum", "const", "pattern", "format"))
        and not _names_somebody(lower)
        and not _names_a_kind(lower)
    )


def _names_somebody(lower: str) -> bool:
    return "name" in lower or lower in ("who", "speaker", "author", "person")


def _names_a_kind(lower: str) -> bool:
    return bool(lower) and any(lower == word or lower.endswith("_" + word) for word in _SHORT_WORDS)


def _fitted(text: str, sentence: Callable[[], str], shortest: int, longest: int | None) -> str:
    while len(text) < shortest:
        text += (" " if text else "") + (sentence() or "and so on")
    if longest is not None and len(text) > longest:
        cut = text[: longest + 1].rpartition(" ")[0]
        text = cut if len(cut) >= shortest and cut else text[:longest]
    return text


def formatted(form: str, dice: Dice) -> str:
    """A text in a format of JSON Schema; empty for one that we do not know."""
    month, day = 1 + dice.below(12), 1 + dice.below(28)
    date = f"{2020 + dice.below(8)}-{month:02}-{day:02}"
    time = f"{dice.below(24):02}:{dice.below(60):02}:{dice.below(60):02}Z"
    word = dice.pick(WORDS["part"])
    match form:
        case "date":
            return date
        case "date-time":
            return f"{date}T{time}"
        case "time":
            return time
        case "duration":
            return f"P{1 + dice.below(9)}DT{1 + dice.below(23)}H"
        case "email" | "idn-email":
            return f"{dice.pick(WORDS['name']).lower()}@example.org"
        case "hostname" | "idn-hostname":
            return f"{word}.example.org"
        case "ipv4":
            return f"192.0.2.{1 + dice.below(250)}"
        case "ipv6":
            return f"2001:db8::{1 + dice.below(9000):x}"
        case "uri" | "url" | "iri" | "uri-reference" | "iri-reference":
            return f"https://example.org/{word}/{dice.below(1000)}"
        case "uri-template":
            return f"https://example.org/{word}/{{id}}"
        case "uuid":
            digits = f"{dice.below(1 << 64):016x}{dice.below(1 << 64):016x}"
            return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
        case "json-pointer":
            return f"/{word}/{dice.below(9)}"
        case "relative-json-pointer":
            return f"{dice.below(3)}/{word}"
        case "regex":
            return f"^{word}s?$"
        case _:
            return ""


def _bounds(rules: Schema) -> tuple[float | None, float | None]:
    """The bounds of a number; exclusive ones are moved inward to the next representable value."""
    low, high = schemas.number_of(rules, "minimum"), schemas.number_of(rules, "maximum")
    above, below = schemas.number_of(rules, "exclusiveMinimum"), schemas.number_of(rules, "exclusiveMaximum")
    if above is not None and (low is None or above >= low):
        low = math.nextafter(above, math.inf)
    if below is not None and (high is None or below <= high):
        high = math.nextafter(below, -math.inf)
    return low, high


def _window(low: int | None, high: int | None, *, width: int) -> tuple[int, int]:
    """Both bounds, with a window of a plausible width where one is missing."""
    if low is None:
        low = 0 if high is None or high >= 0 else high - width
    return low, low + width if high is None else high
