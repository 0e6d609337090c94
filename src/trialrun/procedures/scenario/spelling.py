"""How a scenario's files may spell things: names that mean the same, types by their many names, texts as lists."""

from collections.abc import Mapping
from typing import Any, cast

Data = Mapping[str, object]
KNOWN = ("scenario", "actors", "metrics", "validation-rules", "exogenous-events", "background")
SAME: Mapping[str, Mapping[str, str]] = {
    "scenario": {"num_turns": "turns", "context_window_size": "context_window"},
    "actor": {"llm_model": "model", "decision_making_style": "decision_style"},
    "metric": {"extraction_method": "method"},
}
TYPES = {
    "integer": "whole", "int": "whole", "float": "number", "number": "number", "continuous": "number",
    "double": "number", "boolean": "truth", "bool": "truth", "categorical": "label", "string": "text",
    "str": "text", "text": "text",
}  # fmt: skip
METHODS = {"regex": "pattern", "llm": "model"}
HEADINGS = {
    "role": "Your role",
    "description": "About you",
    "goals": "Your goals",
    "constraints": "What binds you",
    "expertise": "What you know well",
    "expertise_level": "How well you know it",
    "decision_style": "How you decide",
    "personality_traits": "What you are like",
    "communication_style": "How you speak",
    "preferred_coalitions": "With whom you would rather work",
    "private_information": "What nobody else knows",
}


def renamed(data: Data, same: Mapping[str, str]) -> dict[str, Any]:
    return {same.get(key, key): value for key, value in data.items()}


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def list_of(value: object) -> list[object]:
    if value is None or isinstance(value, bool):
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]


def text_of(value: object) -> str:
    """A text, a list as one line each, a map as `key: text` each."""
    match value:
        case None | bool():
            return ""
        case Mapping():
            items = cast("Data", value).items()
            return "\n".join(f"- {key}: {_inline(item)}" for key, item in items if _inline(item))
        case list():
            lines = [_inline(item) for item in cast("list[object]", value)]
            return "\n".join(f"- {line}" for line in lines if line)
        case _:
            return str(value).strip()


def _inline(value: object) -> str:
    return "; ".join(line.removeprefix("- ") for line in text_of(value).splitlines())
