"""What Vertex AI can import: its batches are read like rows of a table, and one row that does not fit fails them all.

The keys of every object become columns, so they have to be names of columns, may not be nested too deeply, and have
one type throughout a file. Free keys come into a request with schemas, tools and `params`; nothing else is looked at.
"""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from trialrun.core.calls import Request

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
_DEEPEST = 15
_SCHEMA_DEPTH = 3
"""`request.generationConfig.responseJsonSchema`, and much the same for tools."""


def obstacle_in(request: Request) -> str | None:
    """Why this request cannot travel in a batch; None if it can."""
    types: dict[str, str] = {}
    for where, part in _free_parts(request):
        found = _obstacle(part, where, _SCHEMA_DEPTH, types)
        if found:
            return found
    return None


def obstacle_in_row(value: object, types: dict[str, str]) -> str | None:
    """Why a whole request, as it is on the wire, cannot be a row; `types` are those of the rows before it."""
    return _obstacle(value, "the request", 1, types)


def shape_of(request: Request) -> object:
    """What may differ between requests that cannot be in one file; None for one without free keys."""
    schema, tools = request.schema, request.tools or ()
    if schema is None and not tools and not request.params:
        return None
    return [schema, [tool.parameters for tool in tools], request.params]


def _free_parts(request: Request) -> Iterator[tuple[str, object]]:
    """The parts that hold keys of the study's own, each under the name that an error calls it by."""
    if request.schema is not None:
        yield "the schema", request.schema
    for tool in request.tools or ():
        if tool.parameters:
            yield f"the parameters of the tool `{tool.name}`", tool.parameters
    for name, value in request.params.items():
        yield f"`params.{name}`", value
    for message in request.messages:
        for wish in message.tool_calls:
            yield f"the arguments of the tool `{wish.name}`", wish.arguments


def _obstacle(value: object, where: str, depth: int, types: dict[str, str], path: str = "") -> str | None:
    kind = _kind(value)
    if kind and types.setdefault(f"{where}{path}", kind) != kind:
        return f"{where} holds both {types[f'{where}{path}']} and {kind} at `{path.lstrip('.')}`"
    if isinstance(value, list):
        items = cast("list[object]", value)
        if any(isinstance(item, list) for item in items):
            return f"{where} holds a list of lists"
        return _first(_obstacle(item, where, depth, types, f"{path}[]") for item in items)
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, object]", value)
    if not fields:
        return f"{where} holds an empty object" + (f" at `{path.lstrip('.')}`" if path else "")
    if depth >= _DEEPEST:
        return f"{where} is nested more than {_DEEPEST} deep"
    for name in fields:
        if _COLUMN.fullmatch(name) is None:
            return f"{where} holds the key `{name}`, which is no name of a column"
    return _first(
        _obstacle(field, where, depth + 1, types, f"{path}.{name}") for name, field in fields.items()
    )


def _first(found: Iterator[str | None]) -> str | None:
    return next((what for what in found if what), None)


def _kind(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
