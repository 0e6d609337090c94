"""What the data models object to, in the words of the study file."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from trialrun.core.near import pick
from trialrun.core.paths import Path, dotted
from trialrun.core.reading import document
from trialrun.core.reading.objection import Objection

E = TypeVar("E", bound=document.Entry)
_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


def objections(
    model: type[E],
    data: Mapping[str, object],
    *,
    layout: document.Layout = document.STUDY_LAYOUT,
    whole: str = "a study file",
) -> tuple[E | None, list[Objection]]:
    """The validated entry, or all that is wrong with it. `layout` and `whole` are of the kind of file that it is."""
    try:
        return model.model_validate(dict(data)), []
    except ValidationError as error:
        found = error.errors(include_url=False)
        return None, [_objection(item, data, layout, whole) for item in found]


def _objection(
    error: Mapping[str, Any], data: Mapping[str, object], layout: document.Layout, whole: str
) -> Objection:
    path = cast("Path", tuple(error["loc"]))
    kind, context, value = str(error["type"]), error.get("ctx", {}), error.get("input")
    if path and path[-1] == "[key]":
        what = f"`{path[-2]}` cannot be a name"
        return Objection(
            path[:-1], what, "begin with a letter; use letters, digits, _ and -, at most 40", at_key=True
        )
    if kind == "extra_forbidden":
        return _unknown_key(path, layout, whole)
    name = dotted(path)
    if kind == "missing":
        return Objection(
            path[:-1], f"`{name}` is missing", f"add `{path[-1]}: ...` ({_description(path, layout)})"
        )
    if path[:1] == ("budget_usd",) and not isinstance(data.get("budget_usd"), Mapping):
        path, name = ("budget_usd",), "budget_usd"
    if kind in _WANTED:
        return Objection(
            path, f"`{name}` must be {_WANTED[kind]}, not {_kind_of(value)}", _retype(kind, value)
        )
    return Objection(path, f"`{name}` {_bound(kind, context, value)}", _bound_fix(kind, path, context))


def _unknown_key(path: Path, layout: document.Layout, whole: str) -> Objection:
    key, parent = str(path[-1]), path[:-1]
    entry = document.entry_at(parent, layout)
    known = [name for name in (entry.model_fields if entry else ()) if name != "sources"]
    owner = f"`{dotted(parent)}`" if parent else whole
    fix = pick(key, known)
    if homes := document.homes_of(key, layout):
        fix = f"`{key}` belongs in " + " or ".join(
            f"`{home}`" if home != "the top level" else home for home in homes
        )
    return Objection(path, f"{owner} has no key `{key}`", fix, at_key=True)


def _description(path: Path, layout: document.Layout) -> str:
    entry = document.entry_at(path[:-1], layout)
    field = entry.model_fields.get(str(path[-1])) if entry else None
    return (field.description or "").rstrip(".").split(";")[0].lower() if field else "required"


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number `{value}`"
        case str():
            return f"the text `{value if len(value) <= 40 else value[:37] + '...'}`"
        case dict():
            return "a map"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _retype(kind: str, value: object) -> str:
    wanted = _WANTED[kind]
    if value is None:
        return "give it a value, or remove the key"
    if wanted == "a text" and isinstance(value, bool | int | float):
        return "put it in quotes"
    if wanted == "a list" and isinstance(value, str | int | float):
        return f"write [{value}]"
    if wanted in {"a whole number", "a number"} and isinstance(value, str) and _is_number(value):
        return "remove the quotes"
    if wanted == "a whole number" and isinstance(value, float):
        return f"round it, for example {round(value)}"
    return f"give {wanted}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _bound(kind: str, context: Mapping[str, Any], value: object) -> str:
    match kind:
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}, not {value}"
        case "greater_than":
            return f"must be above {context['gt']:g}, not {value}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}, not {value}"
        case "too_short" | "string_too_short":
            count = context.get("min_length", 1)
            return "is empty" if count == 1 else f"needs at least {count} entries"
        case "too_long":
            return f"takes at most {context.get('max_length')} entries"
        case "literal_error":
            return f"must be {context.get('expected', '').replace('True', 'true')}, not {_kind_of(value)}"
        case "string_pattern_mismatch":
            return f"cannot be `{value}`"
        case "money":
            return f"must be an amount in USD (0 or more), not {_kind_of(value)}"
        case "same_tier":
            return "has two tiers with the same `above`"
        case _:
            return f"does not fit: {kind.replace('_', ' ')}"


def _bound_fix(kind: str, path: Path, context: Mapping[str, Any]) -> str:
    if kind == "string_pattern_mismatch":
        if path and path[-1] == "model":
            return "write provider/model, such as openai/gpt-5-mini"
        if path == ("study",):
            return "use letters, digits, `.`, `_` and `-`, at most 64; the name becomes a folder"
        return "begin with a letter; use letters, digits, _ and -, at most 40"
    if kind == "money":
        return "write an amount such as 20, 0.50 or $20"
    if kind == "same_tier":
        return "give each tier an `above` of its own"
    if kind == "literal_error":
        is_flag = context.get("expected") == "True"
        return "write true, or remove the key" if is_flag else "write one of these words"
    return "give a value within the bounds"
