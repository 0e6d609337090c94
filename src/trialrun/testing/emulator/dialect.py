"""What the emulator needs to know of a protocol: one small class for each. And what all of them share."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Protocol, TypeVar, cast

import msgspec

from trialrun.core.calls import Message, Role
from trialrun.testing.emulator.asked import Answer, Asked, Sent, Stamp, Trouble, refused
from trialrun.testing.emulator.limits import Standing

Json = dict[str, object]
T = TypeVar("T")


class Dialect(Protocol):
    """One protocol: requests in, replies and problems out. Pure."""

    caches_by_marks: bool
    content_field: str
    usage_field: str

    def key_in(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """The key that a request carries; empty without one."""
        ...

    def read(self, body: bytes, *, provider: str, model: str) -> Asked:
        """The request. Raises Refusal for what the real provider refuses to read."""
        ...

    def check(self, asked: Asked) -> None:
        """Raises Refusal for parameters that the model does not take."""
        ...

    def render(self, asked: Asked, answer: Answer, stamp: Stamp) -> Json:
        """The reply's body."""
        ...

    def headers(self, standings: Sequence[Standing], stamp: Stamp) -> dict[str, str]:
        """The headers of every reply: its id, and where the key stands with its limits."""
        ...

    def problem(self, trouble: Trouble, stamp: Stamp) -> Sent:
        """What the provider says instead of an answer."""
        ...


def decoded(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """The body as this type. A missing or misspelled field is refused by its name."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = what.partition("required field `")[2].rstrip("`") or place.strip("`").removeprefix("$.")
        raise refused(f"{what} ({place.strip('`') or 'body'})", param=field) from error
    except msgspec.DecodeError as error:
        raise refused(f"We could not parse the JSON body of your request: {error}") from error


def message_of(role: str, text: str) -> Message:
    """A message in the three roles that the core knows."""
    roles: dict[str, Role] = {
        "system": "system",
        "developer": "system",
        "assistant": "assistant",
        "model": "assistant",
    }
    return Message(roles.get(role, "user"), text)


def text_in(content: object) -> str:
    """All text in a message's content, which is a string or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        part = cast("Mapping[str, object]", content)
        for name in ("text", "content", "output", "thinking"):
            if name in part:
                return text_in(part[name])
        return msgspec.json.encode(part).decode() if part else ""
    if isinstance(content, Sequence):
        return "\n".join(text_in(part) for part in cast("Sequence[object]", content))
    return str(content)


def object_in(text: str) -> Json:
    """The JSON object in a text; an empty one if there is none, as in a reply that was cut."""
    try:
        value = cast("object", msgspec.json.decode(text))
    except msgspec.DecodeError:
        return {}
    return cast("Json", value) if isinstance(value, dict) else {}


def schema_in(format_: object, *, under: str = "") -> Json | None:
    """The schema of a response format; OpenAI puts it one level deeper in one of its two endpoints."""
    if not isinstance(format_, dict):
        return None
    rules = cast("Json", format_)
    if rules.get("type") == "json_object":
        return {"type": "object"}
    holder = rules.get(under) if under else rules
    if rules.get("type") != "json_schema" or not isinstance(holder, dict):
        return None
    schema = cast("Json", holder).get("schema")
    return cast("Json", schema) if isinstance(schema, dict) else None


def wait_headers(trouble: Trouble, at: float) -> dict[str, str]:
    """Retry-After as the script wants it; `header` and `seconds` are the same for all who know the header."""
    if trouble.wait_s is None:
        return {}
    match trouble.wait_as:
        case "none":
            return {}
        case "date":
            then = datetime.fromtimestamp(at + trouble.wait_s, tz=UTC)
            return {"retry-after": format_datetime(then, usegmt=True)}
        case "milliseconds":
            return {"retry-after-ms": str(round(trouble.wait_s * 1000))}
        case "header" | "seconds":
            return {"retry-after": seconds_up(trouble.wait_s)}


def seconds_up(seconds: float) -> str:
    """Whole seconds, never fewer than asked for."""
    return str(max(0, -int(-seconds // 1)))


def tightest(standings: Sequence[Standing], unit: str) -> Standing | None:
    """The limit of this unit that leaves the least."""
    found = [standing for standing in standings if standing.unit == unit]
    return min(found, key=lambda standing: standing.left / max(standing.limit, 1e-9), default=None)


def html(title: str) -> bytes:
    """A page as a proxy between here and the provider would send it."""
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>\n".encode()


def is_closed(schema: object, *, wants_all: bool) -> bool:
    """Whether every object of a schema allows no other properties, and (if wanted) requires all that it has."""
    if isinstance(schema, list):
        return all(is_closed(part, wants_all=wants_all) for part in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return True
    rules = cast("Json", schema)
    properties = rules.get("properties")
    if rules.get("type") == "object" or isinstance(properties, dict):
        names = set(cast("Json", properties or {}))
        if rules.get("additionalProperties") is not False:
            return False
        if wants_all and names != set(cast("list[str]", rules.get("required") or [])):
            return False
    values = ("enum", "const", "default", "examples")
    return all(is_closed(part, wants_all=wants_all) for word, part in rules.items() if word not in values)
