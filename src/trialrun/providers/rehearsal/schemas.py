"""JSON Schema as the rehearsal lane needs it: does a value fit, what does a reference mean, what do two schemas share.

A small validator of our own, because instances for `oneOf`, `not` and `if` are found by trying. The tests hold it
against a full one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

from trialrun.core.json_schema import is_multiple

Schema = Mapping[str, object]


class Unsatisfiable(Exception):
    """No value that we know how to build fits the schema."""


def as_schema(schema: object) -> Schema | None:
    """The schema as a mapping, {} for true; None for false, which nothing fits."""
    if isinstance(schema, Mapping):
        return cast("Schema", schema)
    return None if schema is False else {}


def parts(schema: Schema, keyword: str) -> list[object]:
    """A keyword that holds a list; empty when absent."""
    value = schema.get(keyword)
    return list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else []


def named(schema: Schema, keyword: str) -> dict[str, object]:
    """A keyword that holds an object; empty when absent."""
    value = schema.get(keyword)
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}


def count_of(schema: Schema, keyword: str) -> int | None:
    """A keyword that holds a count."""
    value = number_of(schema, keyword)
    return int(value) if value is not None and abs(value) < math.inf else None


def number_of(schema: Schema, keyword: str) -> int | float | None:
    value = schema.get(keyword)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def target_of(reference: str, root: Schema) -> object:
    """The schema that a local `$ref` points to: a JSON pointer, or an anchor or id inside the document."""
    if reference in ("#", root.get("$id")):
        return root
    if reference.startswith("#/"):
        here: object = root
        for step in reference[2:].split("/"):
            here = _inside(here, step.replace("~1", "/").replace("~0", "~"))
        return here
    for holder in ("$defs", "definitions"):
        for schema in named(root, holder).values():
            found = as_schema(schema) or {}
            if reference in (found.get("$id"), f"#{found.get('$anchor')}"):
                return found
    raise Unsatisfiable(f"{reference} is not inside the schema")


def _inside(here: object, step: str) -> object:
    try:
        if isinstance(here, Mapping):
            return cast("Mapping[str, object]", here)[step]
        return cast("list[object]", here)[int(step)]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise Unsatisfiable(f"the schema has no {step}") from error


def types_of(schema: Schema) -> tuple[str, ...]:
    """The types that a schema names; empty when any is allowed."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(str(name) for name in parts(schema, "type"))


def merged(one: Schema, other: Schema) -> Schema:
    """A schema that asks for both. Where there is no joint spelling, `one` wins and `fits` has the last word."""
    both = dict(one)
    late = dict[str, object]()
    for keyword, value in other.items():
        if keyword not in both or both[keyword] == value:
            both[keyword] = value
        elif keyword in _BRANCHING:
            late[keyword] = value
        else:
            both[keyword] = _joint(keyword, both[keyword], value, one, other)
    if late:
        both["allOf"] = [*parts(both, "allOf"), late]
    return both


_BRANCHING = ("$ref", "anyOf", "oneOf", "if", "then", "else")


def _joint(keyword: str, here: object, value: object, one: Schema, other: Schema) -> object:
    """The value of a keyword that asks for what both ask for."""
    match keyword:
        case "type":
            common = _common_types(types_of(one), types_of(other))
            if not common:
                raise Unsatisfiable("no type in common")
            return common
        case "required" | "allOf":
            return [
                *parts(one, keyword),
                *[item for item in parts(other, keyword) if item not in parts(one, keyword)],
            ]
        case "enum":
            return [
                item for item in parts(one, keyword) if any(equal(item, x) for x in parts(other, keyword))
            ]
        case "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions":
            return _both_properties(named(one, keyword), named(other, keyword))
        case "items" | "additionalProperties" | "propertyNames":
            return False if here is False or value is False else {"allOf": [here, value]}
        case "not":
            return {"anyOf": [here, value]}
        case "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains":
            return max(cast("float", here), cast("float", value))
        case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains":
            return min(cast("float", here), cast("float", value))
        case "multipleOf":
            if isinstance(here, int) and isinstance(value, int):
                return math.lcm(here, value)
            return max(cast("float", here), cast("float", value))
        case "uniqueItems":
            return bool(here) or bool(value)
        case _:
            return here


def _common_types(one: Sequence[str], other: Sequence[str]) -> list[str]:
    common = [name for name in one if name in other]
    if "integer" not in common and (
        ("integer" in one and "number" in other) or ("integer" in other and "number" in one)
    ):
        common = [name for name in common if name != "number"] + ["integer"]
    return common


def _both_properties(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    both = dict(one)
    for name, schema in other.items():
        both[name] = schema if name not in both else {"allOf": [both[name], schema]}
    return both


def equal(one: object, other: object) -> bool:
    """Equal as JSON: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        left, right = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        these, those = cast("Mapping[str, object]", one), cast("Mapping[str, object]", other)
        return these.keys() == those.keys() and all(equal(these[key], those[key]) for key in these)
    return one == other


def fits(value: object, schema: object, root: Schema) -> bool:
    """Whether the value is an instance of the schema. Formats are not checked."""
    rules = as_schema(schema)
    if rules is None:
        return False
    reference = rules.get("$ref")
    if isinstance(reference, str) and not fits(value, target_of(reference, root), root):
        return False
    if "const" in rules and not equal(value, rules["const"]):
        return False
    if "enum" in rules and not any(equal(value, item) for item in parts(rules, "enum")):
        return False
    kinds = types_of(rules)
    if kinds and not any(_is_of_type(value, kind) for kind in kinds):
        return False
    if not _fits_branches(value, rules, root):
        return False
    if isinstance(value, str):
        return _text_fits(value, rules)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_fits(value, rules)
    if isinstance(value, list):
        return _list_fits(cast("list[object]", value), rules, root)
    if isinstance(value, dict):
        return _object_fits(cast("dict[str, object]", value), rules, root)
    return True


def _is_of_type(value: object, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return (
                not isinstance(value, bool) and isinstance(value, (int, float)) and float(value).is_integer()
            )
        case "number":
            return not isinstance(value, bool) and isinstance(value, (int, float))
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return False


def _fits_branches(value: object, rules: Schema, root: Schema) -> bool:
    if not all(fits(value, branch, root) for branch in parts(rules, "allOf")):
        return False
    any_of, one_of = parts(rules, "anyOf"), parts(rules, "oneOf")
    if any_of and not any(fits(value, branch, root) for branch in any_of):
        return False
    if one_of and sum(fits(value, branch, root) for branch in one_of) != 1:
        return False
    if "not" in rules and fits(value, rules["not"], root):
        return False
    if "if" in rules:
        branch = "then" if fits(value, rules["if"], root) else "else"
        return branch not in rules or fits(value, rules[branch], root)
    return True


def _text_fits(value: str, rules: Schema) -> bool:
    low, high, pattern = count_of(rules, "minLength"), count_of(rules, "maxLength"), rules.get("pattern")
    if (low is not None and len(value) < low) or (high is not None and len(value) > high):
        return False
    try:
        return not isinstance(pattern, str) or re.search(pattern, value) is not None
    except re.error:
        return True


def _number_fits(value: float, rules: Schema) -> bool:
    low, high = number_of(rules, "minimum"), number_of(rules, "maximum")
    above, below = number_of(rules, "exclusiveMinimum"), number_of(rules, "exclusiveMaximum")
    step = number_of(rules, "multipleOf")
    return not (
        (low is not None and value < low)
        or (high is not None and value > high)
        or (above is not None and value <= above)
        or (below is not None and value >= below)
        or (step is not None and not is_multiple(value, step))
    )


def _list_fits(value: list[object], rules: Schema, root: Schema) -> bool:
    low, high = count_of(rules, "minItems"), count_of(rules, "maxItems")
    if (low is not None and len(value) < low) or (high is not None and len(value) > high):
        return False
    if rules.get("uniqueItems") is True and any(
        equal(a, b) for at, a in enumerate(value) for b in value[:at]
    ):
        return False
    firsts = parts(rules, "prefixItems") or parts(rules, "items")
    rest = (
        rules.get("items", True)
        if not isinstance(rules.get("items"), list)
        else rules.get("additionalItems", True)
    )
    if not all(fits(item, firsts[at] if at < len(firsts) else rest, root) for at, item in enumerate(value)):
        return False
    if "contains" not in rules:
        return True
    found = sum(fits(item, rules["contains"], root) for item in value)
    least, most = count_of(rules, "minContains"), count_of(rules, "maxContains")
    return found >= (1 if least is None else least) and (most is None or found <= most)


def _object_fits(value: dict[str, object], rules: Schema, root: Schema) -> bool:
    low, high = count_of(rules, "minProperties"), count_of(rules, "maxProperties")
    if (low is not None and len(value) < low) or (high is not None and len(value) > high):
        return False
    if any(name not in value for name in parts(rules, "required")):
        return False
    properties, patterns = named(rules, "properties"), named(rules, "patternProperties")
    for name, item in value.items():
        schemas = [properties[name]] if name in properties else []
        schemas += [schema for pattern, schema in patterns.items() if re.search(pattern, name)]
        if not schemas and "additionalProperties" in rules:
            schemas = [rules["additionalProperties"]]
        if not all(fits(item, schema, root) for schema in schemas):
            return False
        if "propertyNames" in rules and not fits(name, rules["propertyNames"], root):
            return False
    for name, needed in named(rules, "dependentRequired").items():
        if name in value and any(other not in value for other in cast("list[str]", needed)):
            return False
    return all(
        fits(value, schema, root)
        for name, schema in named(rules, "dependentSchemas").items()
        if name in value
    )
