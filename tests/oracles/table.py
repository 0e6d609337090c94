"""The calls that every protocol is compared on, and the replies of each as providers send them."""

from typing import Any

from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request, Tool, ToolCall

CLOSED: dict[str, object] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}, "reason": {"type": "string"}},
    "required": ["label", "reason"],
    "additionalProperties": False,
}
OPEN: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}
NESTED: dict[str, object] = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}
REFERRING: dict[str, object] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "additionalProperties": False,
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
LOOK = Tool(
    name="look",
    description="Looks somewhere.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
WAIT = Tool(name="wait")
WISH = ToolCall(id="call_1", name="look", arguments={"at": "the sea"})
SECOND = ToolCall(id="call_2", name="look", arguments={"at": "the sky", "n": 2})

USER = Message("user", "Hello")
SYSTEM = Message("system", "Be brief.")
TURNS = tuple(Message("user" if n % 2 == 0 else "assistant", f"Turn {n}.") for n in range(9))
QUOTES = 'He said: "No\\n",\nand {left} <b>fast</b>.\t— \u2028 ☃ é 🙂'

SAMPLES = "samples"
"""Stands for a model that takes sampling settings."""
REASONS = "reasons"
"""Stands for one that does not."""

CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with a system prompt": {"messages": (SYSTEM, USER)},
    "with two system prompts": {"messages": (SYSTEM, Message("system", "Be kind."), USER)},
    "ten messages": {"messages": (SYSTEM, *TURNS)},
    "quotes and signs": {"messages": (Message("system", QUOTES), Message("user", QUOTES))},
    "a long text": {"messages": (Message("user", "All work and no play. " * 500),)},
    "one token": {"max_tokens": 1},
    "many tokens": {"max_tokens": 64_000},
    "temperature 0": {"temperature": 0.0},
    "temperature 0.7": {"temperature": 0.7},
    "top_p": {"top_p": 0.9},
    "one stop word": {"stop": ("END",)},
    "three stop words": {"stop": ("END", "\n\n", "☃")},
    "all settings": {"temperature": 0.3, "stop": ("END",), "max_tokens": 7, "messages": (SYSTEM, USER)},
    "a reasoning model": {"model": REASONS},
    "a reasoning model with its settings refused": {"model": REASONS, "temperature": 0.7, "top_p": 0.9},
    "low effort": {"model": REASONS, "params": {"reasoning_effort": "low"}},
    "high effort and a schema": {"model": REASONS, "params": {"reasoning_effort": "high"}, "schema": CLOSED},
    "a closed schema": {"schema": CLOSED},
    "an open schema": {"schema": OPEN},
    "a nested schema": {"schema": NESTED},
    "a schema with references": {"schema": REFERRING},
    "one tool": {"tools": (LOOK,)},
    "two tools": {"tools": (LOOK, WAIT)},
    "what came of a tool": {
        "tools": (LOOK,),
        "messages": (USER, Message("assistant", "", (WISH,)), Message("tool", "waves", answers="call_1")),
    },
    "what came of two tools at once": {
        "tools": (LOOK,),
        "messages": (
            SYSTEM,
            USER,
            Message("assistant", "I look.", (WISH, SECOND)),
            Message("tool", "waves", answers="call_1"),
            Message("tool", "clouds", answers="call_2"),
        ),
    },
    "a tool that gave an object": {
        "tools": (LOOK,),
        "messages": (USER, Message("assistant", "", (WISH,)), Message("tool", '{"n": 3}', answers="call_1")),
    },
    "tools and a schema": {"tools": (LOOK,), "schema": CLOSED},
    "low effort, tools and what came of one, after ten messages": {
        "model": REASONS,
        "params": {"reasoning_effort": "low"},
        "tools": (LOOK, WAIT),
        "messages": (
            SYSTEM,
            *TURNS,
            Message("assistant", "I look.", (WISH,)),
            Message("tool", "waves", answers="call_1"),
            Message("assistant", "Waves."),
            Message("user", "And now?"),
        ),
    },
    "a schema after ten messages": {"schema": NESTED, "messages": (SYSTEM, *TURNS), "stop": ("END",)},
}


def call_of(name: str, models: dict[str, str]) -> Call:
    """The call of this name, for the models that a provider has for the two kinds."""
    changes = dict(CALLS[name])
    model = models[changes.pop("model", SAMPLES)]
    settings: dict[str, Any] = {"messages": (USER,), "max_tokens": 100, **changes}
    return Call(
        trial="t-r0",
        condition="t",
        address="1",
        party="p",
        purpose="",
        turn=1,
        request=Request(model=model, **settings),
        key=chance.derive(b"oracles", name),
    )


def effort_of(request: Request) -> Any:
    return request.params.get("reasoning_effort")


def system_of(request: Request) -> str:
    return "\n\n".join(message.text for message in request.messages if message.role == "system")
