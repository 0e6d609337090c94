"""Whether a value fits a JSON Schema: the common part of the standard, with the first mistake in words.

Known are types, enum, const, the keywords of objects, arrays, texts and numbers, the combinations, and `$ref` within
the schema. What else a schema says (formats, annotations, conditions) is not checked. The tests hold this against
jsonschema.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import cast

import msgspec

Schema = Mapping[str, object]
_DEEPEST = 300
_LONGEST_SHOWN = 80


def mistake_in(value: object, schema: Schema) -> str | None:
    """The first thing in a value that its schema does not allow; None if it fits."""
    return next(_mistakes(value, schema, "$", schema, 0), None)


def _mistakes(value: object, schema: object, at: str, root: Schema, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"`{at}` must not be there"
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    rules = cast("Schema", schema)
    if isinstance(pointer := rules.get("$ref"), str):
        yield from _mistakes(value, _target(root, pointer), at, root, depth + 1)
    yield from _of_any(value, rules, at)
    yield from _of_kind(value, rules, at, root, depth)
    yield from _of_combinations(value, rules, at, root, depth)


def _of_kind(value: object, rules: Schema, at: str, root: Schema, depth: int) -> Iterator[str]:
    match value:
        case bool() | None:
            pass
        case int() | float():
            yield from _of_number(value, rules, at)
        case str():
            yield from _of_text(value, rules, at)
        case list():
            yield from _of_array(cast("list[object]", value), rules, at, root, depth)
        case dict():
            yield from _of_object(cast("dict[str, object]", value), rules, at, root, depth)
        case _:
            yield f"`{at}` is no JSON value"


def _of_any(value: object, rules: Schema, at: str) -> Iterator[str]:
    if (wanted := rules.get("type")) is not None:
        names = cast("list[object]", wanted) if isinstance(wanted, list) else [wanted]
        if not any(_is_of_type(value, str(name)) for name in names):
            yield f"`{at}` is {_shown(value)}, and must be of type {' or '.join(str(name) for name in names)}"
    allowed = rules.get("enum")
    if isinstance(allowed, list) and not any(_equal(value, one) for one in cast("list[object]", allowed)):
        yield f"`{at}` is {_shown(value)}, and must be one of {_shown(cast('object', allowed))}"
    if "const" in rules and not _equal(value, rules["const"]):
        yield f"`{at}` is {_shown(value)}, and must be {_shown(rules['const'])}"


def _of_number(value: float, rules: Schema, at: str) -> Iterator[str]:
    bounds: tuple[tuple[str, Callable[[float], bool], str], ...] = (
        ("minimum", lambda bound: value >= bound, "at least"),
        ("maximum", lambda bound: value <= bound, "at most"),
        ("exclusiveMinimum", lambda bound: value > bound, "more than"),
        ("exclusiveMaximum", lambda bound: value < bound, "less than"),
        ("multipleOf", lambda bound: is_multiple(value, bound), "a multiple of"),
    )
    for keyword, holds, words in bounds:
        bound = rules.get(keyword)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and not holds(bound):
            yield f"`{at}` is {_shown(value)}, and must be {words} {bound}"


def _of_text(value: str, rules: Schema, at: str) -> Iterator[str]:
    yield from _of_size(len(value), rules, at, ("minLength", "maxLength", "characters"))
    pattern = rules.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, value):
        yield f"`{at}` is {_shown(value)}, and must match {pattern}"


def _of_array(value: list[object], rules: Schema, at: str, root: Schema, depth: int) -> Iterator[str]:
    yield from _of_size(len(value), rules, at, ("minItems", "maxItems", "items"))
    if rules.get("uniqueItems") is True and _has_doubles(value):
        yield f"`{at}` holds the same item twice"
    first = rules.get("prefixItems")
    prefix = cast("list[object]", first) if isinstance(first, list) else []
    for number, item in enumerate(value):
        rule = prefix[number] if number < len(prefix) else rules.get("items")
        yield from _mistakes(item, rule, f"{at}[{number}]", root, depth + 1)


def _of_object(value: dict[str, object], rules: Schema, at: str, root: Schema, depth: int) -> Iterator[str]:
    yield from _of_size(len(value), rules, at, ("minProperties", "maxProperties", "properties"))
    for name in cast("list[str]", rules.get("required") or []):
        if name not in value:
            yield f"`{at}` has no `{name}`"
    properties = cast("Schema", rules.get("properties") or {})
    patterns = cast("Schema", rules.get("patternProperties") or {})
    others = rules.get("additionalProperties")
    for name, item in value.items():
        fitting = [rule for pattern, rule in patterns.items() if _matches(pattern, name)]
        if name in properties:
            fitting.append(properties[name])
        elif not fitting and others is False:
            known = ", ".join(f"`{one}`" for one in properties)
            yield f"`{at}` must not have `{name[:_LONGEST_SHOWN]}`" + (f", only {known}" if known else "")
        elif not fitting:
            fitting.append(others)
        for rule in fitting:
            yield from _mistakes(item, rule, f"{at}.{name[:_LONGEST_SHOWN]}", root, depth + 1)


def _of_combinations(value: object, rules: Schema, at: str, root: Schema, depth: int) -> Iterator[str]:
    def fits(rule: object) -> bool:
        return next(_mistakes(value, rule, at, root, depth + 1), None) is None

    for rule in cast("list[object]", rules.get("allOf") or []):
        yield from _mistakes(value, rule, at, root, depth + 1)
    any_of = cast("list[object]", rules.get("anyOf") or [])
    if any_of and not any(fits(rule) for rule in any_of):
        nearest = next(_mistakes(value, any_of[0], at, root, depth + 1), "")
        yield f"`{at}` fits none of the {len(any_of)} allowed forms (of the first: {nearest})"
    one_of = cast("list[object]", rules.get("oneOf") or [])
    if one_of and (count := sum(fits(rule) for rule in one_of)) != 1:
        yield f"`{at}` fits {count} of {len(one_of)} forms, and must fit exactly one"
    if "not" in rules and fits(rules["not"]):
        yield f"`{at}` has a form that is not allowed"


def _of_size(size: int, rules: Schema, at: str, words: tuple[str, str, str]) -> Iterator[str]:
    least, most, what = words
    fewest, largest = rules.get(least), rules.get(most)
    if isinstance(fewest, int | float) and size < fewest:
        yield f"`{at}` has {size} {what}, and must have at least {fewest}"
    if isinstance(largest, int | float) and size > largest:
        yield f"`{at}` has {size} {what}, and must have at most {largest}"


def _is_of_type(value: object, name: str) -> bool:
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, float) and value.is_integer()
            return (isinstance(value, int) and not isinstance(value, bool)) or whole
        case _:
            return False


def _equal(one: object, other: object) -> bool:
    """As JSON sees it: 1 is 1.0 and not true."""
    match one, other:
        case (list(), list()):
            items, others = cast("list[object]", one), cast("list[object]", other)
            return len(items) == len(others) and all(map(_equal, items, others))
        case (dict(), dict()):
            fields, theirs = cast("dict[str, object]", one), cast("dict[str, object]", other)
            return fields.keys() == theirs.keys() and all(
                _equal(fields[name], theirs[name]) for name in fields
            )
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and one == other


def _has_doubles(items: list[object]) -> bool:
    if all(isinstance(item, str) for item in items):
        return any(one == other for one, other in pairwise(sorted(cast("list[str]", items))))
    return any(_equal(one, other) for number, one in enumerate(items) for other in items[:number])


def is_multiple(value: float, step: float) -> bool:
    """Of the numbers as they are written: 0.07 is seven times 0.01, whatever binary fractions make of it."""
    if not 0 < step < math.inf:
        return True  # no such step exists, so it forbids nothing
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return (as_written(value) / as_written(step)).denominator == 1


def as_written(value: float) -> Fraction:
    """A number as its shortest decimals say it."""
    return Fraction(value if isinstance(value, int) else repr(value))


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return True  # a pattern of another dialect forbids nothing


def _target(root: Schema, pointer: str) -> object:
    """Where a `$ref` within the schema points; what points elsewhere allows everything."""
    if not pointer.startswith("#"):
        return True
    found = cast("object", root)
    for part in pointer[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = cast("Schema", found).get(key, True) if isinstance(found, Mapping) else True
    return found


def _shown(value: object) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError, RecursionError):
        text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
