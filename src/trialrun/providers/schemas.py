"""JSON Schemas as providers want them: which ones may be enforced strictly, and how to make more of them so."""

import re
from collections.abc import Mapping
from typing import cast

import msgspec

Schema = dict[str, object]

# What constrained decoding does not know. It moves into the description, where the model can read it, and the reply is
# checked against the whole schema afterwards.
_SAID_INSTEAD = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contains",
    "minContains",
    "maxContains",
)
_TOLD = re.compile(r"\{\w+: [^{}]*\}\Z")
_BOUND = re.compile(r"(\w+): (-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false)(?=[,}])")
_OF_SCHEMAS = ("properties", "$defs", "definitions")
_OF_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "prefixItems")
_DATA = ("enum", "const", "default", "examples")


def is_strict(schema: object) -> bool:
    """Whether a schema may be enforced strictly: every object closed, and all of its properties required."""
    if isinstance(schema, list):
        return all(is_strict(part) for part in cast("list[object]", schema))
    if not isinstance(schema, Mapping):
        return True
    rules = cast("Mapping[str, object]", schema)
    properties = rules.get("properties")
    if rules.get("type") == "object" or isinstance(properties, Mapping):
        names = set(cast("Mapping[str, object]", properties or {}))
        required = set(cast("list[str]", rules.get("required") or []))
        if rules.get("additionalProperties") is not False or names != required:
            return False
    return all(is_strict(part) for keyword, part in rules.items() if keyword not in _DATA)


def can_be_closed(schema: object) -> bool:
    """Whether nothing in a schema asks for properties of any name, which constrained decoding cannot give."""
    if isinstance(schema, list):
        return all(can_be_closed(part) for part in cast("list[object]", schema))
    if not isinstance(schema, Mapping):
        return True
    rules = cast("Mapping[str, object]", schema)
    if rules.get("additionalProperties") not in (None, False) or "patternProperties" in rules:
        return False
    if rules.get("type") == "object" and "properties" not in rules:
        return False
    return all(can_be_closed(part) for keyword, part in rules.items() if keyword not in _DATA)


def closed(schema: Mapping[str, object]) -> Schema:
    """The schema with every object closed, and with what cannot be enforced said in the descriptions instead."""
    types = schema.get("type")
    if isinstance(types, list) and "enum" not in schema:
        rest = {keyword: value for keyword, value in schema.items() if keyword not in ("type", "description")}
        forms = [closed({**rest, "type": type_}) for type_ in cast("list[object]", types)]
        described = {"description": schema["description"]} if "description" in schema else {}
        return {"anyOf": forms, **described}
    made: Schema = {}
    said: list[str] = []
    for keyword, value in schema.items():
        if keyword in _SAID_INSTEAD or (keyword == "minItems" and value not in (0, 1)):
            said.append(f"{keyword}: {msgspec.json.encode(value).decode()}")
        elif keyword in _OF_SCHEMAS and isinstance(value, Mapping):
            parts = cast("Mapping[str, object]", value)
            made[keyword] = {name: _closed_part(part) for name, part in parts.items()}
        elif keyword in _OF_ALTERNATIVES and isinstance(value, list):
            made["anyOf" if keyword == "oneOf" else keyword] = [
                _closed_part(part) for part in cast("list[object]", value)
            ]
        elif keyword in ("items", "not"):
            made[keyword] = _closed_part(value)
        else:
            made[keyword] = value
    if made.get("type") == "object" or "properties" in made:
        made["additionalProperties"] = False
    if said:
        before = f"{made['description']}\n\n" if made.get("description") else ""
        made["description"] = before + "{" + ", ".join(said) + "}"
    return made


def _closed_part(part: object) -> object:
    return closed(cast("Mapping[str, object]", part)) if isinstance(part, Mapping) else part


def heeded(schema: Mapping[str, object]) -> Schema:
    """The schema with the numeric bounds that its descriptions tell, as a model which reads them would keep them. The
    official clients move bounds there in the same words as `closed`."""
    made: Schema = {keyword: _heeded_part(value) for keyword, value in schema.items()}
    told = _TOLD.search(str(schema.get("description") or ""))
    for keyword, value in _BOUND.findall(told[0]) if told else ():
        if keyword in _SAID_INSTEAD:
            made.setdefault(keyword, msgspec.json.decode(value))
    return made


def _heeded_part(part: object) -> object:
    if isinstance(part, list):
        return [_heeded_part(each) for each in cast("list[object]", part)]
    return heeded(cast("Mapping[str, object]", part)) if isinstance(part, Mapping) else part
