"""What all request bodies share: the study's own `params` go in last, and may not undo what the ceiling rests on."""

from collections.abc import Mapping
from typing import cast

import msgspec

from trialrun.core import chance
from trialrun.core.calls import Call, ToolCall
from trialrun.core.errors import RequestRefused
from trialrun.providers.quirks import EFFORT

Body = dict[str, object]

READ_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding bytes of any kind may raise."""


def encoded(body: Body, call: Call, ours: frozenset[str]) -> bytes:
    """The body with the study's `params` in it. `ours` are the names, dotted where nested, that they may not set."""
    params = call.request.params
    if params:
        _check(params, ours, call)
        for name, value in params.items():
            if name == EFFORT:
                continue  # each adapter spells it in its own way
            before = body.get(name)
            if isinstance(before, dict) and isinstance(value, Mapping):
                body[name] = {**cast("Body", before), **cast("Mapping[str, object]", value)}
            else:
                body[name] = value
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise RequestRefused(
            "the request holds half of a surrogate pair, which no JSON can carry",
            where=call.place,
            fix="look for text that was cut in the middle of a character",
        ) from error


def seed_of(call: Call) -> int:
    """The seed of a call: its own, the same in every attempt and lane."""
    return chance.integer(chance.derive(call.key, "provider seed"), bits=31)


def arguments_of(call: ToolCall) -> str:
    """The arguments of a tool call as the text that OpenAI's protocols want."""
    return msgspec.json.encode(call.arguments).decode()


def arguments_in(text: str) -> dict[str, object]:
    """The arguments that a model wrote. Text that is no JSON object is kept, under a name that no tool has."""
    try:
        decoded = cast("object", msgspec.json.decode(text or "{}"))
    except (*READ_ERRORS, UnicodeEncodeError):
        decoded = None
    return cast("dict[str, object]", decoded) if isinstance(decoded, dict) else {"": text}


def extras_in(fields: Mapping[str, msgspec.Raw], known: frozenset[str]) -> dict[str, object]:
    """What a reply holds under names that its protocol does not know, unless it is empty."""
    if fields.keys() <= known:
        return {}
    found = {name: cast("object", msgspec.json.decode(fields[name])) for name in fields.keys() - known}
    return {name: value for name, value in sorted(found.items()) if value not in (None, "", [], {})}


def _check(params: Mapping[str, object], ours: frozenset[str], call: Call) -> None:
    names = set(params)
    for name, value in params.items():
        if isinstance(value, Mapping):
            names.update(f"{name}.{inner}" for inner in cast("Mapping[str, object]", value))
    forbidden = sorted(names & ours)
    if forbidden:
        raise RequestRefused(
            f"`params` may not set {', '.join(f'`{name}`' for name in forbidden)}",
            where=call.place,
            fix="use the party's own settings; one call has one reply, within one token limit, at one known price",
        )
