"""Anthropic's messages."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import msgspec

from trialrun.core.calls import Message, Usage
from trialrun.testing.emulator.asked import Answer, Asked, Kind, Sent, Stamp, Tool, Trouble, refused
from trialrun.testing.emulator.dialect import (
    Json,
    decoded,
    html,
    is_closed,
    message_of,
    object_in,
    schema_in,
    text_in,
    tightest,
    wait_headers,
)
from trialrun.testing.emulator.limits import Standing
from trialrun.testing.emulator.sampling import check_settings

_GENEROUS_REQUESTS, _GENEROUS_TOKENS = 4000, 2_000_000

_PROBLEMS: Mapping[Kind, tuple[int, str, str]] = {
    "throttled": (429, "rate_limit_error", ""),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    ),
    "spend_limit": (
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on the first of next month.",
    ),
    "billing": (402, "billing_error", "There is an issue with your billing or payment information."),
    "broken": (500, "api_error", "Internal server error"),
    "unavailable": (503, "api_error", "Service unavailable"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "gateway_timeout": (504, "timeout_error", "The request timed out while processing."),
    "on_hold": (400, "invalid_request_error", "This organization has been disabled."),
    "revoked": (401, "authentication_error", "invalid x-api-key"),
    "forbidden": (
        403,
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    "unknown_model": (404, "not_found_error", "model: {model}"),
    "unknown_path": (404, "not_found_error", "Not found"),
    "unknown_object": (404, "not_found_error", "Not found"),
    "conflict": (400, "invalid_request_error", "The object is not in a state that allows this."),
    "refused": (400, "invalid_request_error", "The request is not valid."),
    "too_long": (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
}
_CODES: Mapping[Kind, str] = {"on_hold": "organization_on_hold"}
"""What the error's details call the cause."""
_PAGES: Mapping[Kind, tuple[int, str]] = {
    "bad_gateway": (502, "502 Bad Gateway"),
    "redirect": (302, "302 Found"),
}


class Anthropic:
    """`POST /v1/messages`."""

    caches_by_marks = True
    content_field = "content"
    usage_field = "usage"

    def key_in(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return (
            headers.get("x-api-key", "") or headers.get("Authorization", "").removeprefix("Bearer ").strip()
        )

    def read(self, body: bytes, *, provider: str, model: str) -> Asked:
        given = decoded(_MESSAGES, body)
        if given.stream:
            raise refused("stream: the emulator does not stream", param="stream")
        if not given.messages:
            raise refused("messages: at least one message is required", param="messages")
        if given.max_tokens < 1:
            raise refused("max_tokens: Input should be greater than or equal to 1", param="max_tokens")
        system = text_in(given.system)
        messages = [Message("system", system)] if system else []
        messages += [message_of(message.role, text_in(message.content)) for message in given.messages]
        output = given.output_config or {}
        format_ = output.get("format") or given.output_format
        return Asked(
            given=given,
            provider=provider,
            model=given.model,
            messages=tuple(messages),
            max_tokens=given.max_tokens,
            temperature=given.temperature,
            top_p=given.top_p,
            stop=tuple(given.stop_sequences or ()),
            schema=schema_in(format_),
            tool=_forced_tool(given.tools, given.tool_choice),
            effort=str(output.get("effort") or ""),
            thinking=_thinking(given),
            cache_marks=_marks(given, has_system=bool(system)),
        )

    def check(self, asked: Asked) -> None:
        given = cast("_Messages", asked.given)
        if not 0 <= (given.temperature or 0) <= 1:
            raise refused("temperature: range: 0..1", param="temperature")
        check_settings(asked, "anthropic")
        if asked.thinking and asked.thinking >= given.max_tokens and not _is_adaptive(given.thinking):
            raise refused("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if asked.thinking and given.temperature not in (None, 1):
            raise refused("`temperature` may only be set to 1 when thinking is enabled.")
        if asked.thinking and asked.tool is not None:
            raise refused("Thinking may not be enabled when tool_choice forces tool use.")
        if asked.schema is not None and not is_closed(asked.schema, wants_all=False):
            raise refused(
                "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly "
                "set to false"
            )
        roles = [message.role for message in given.messages]
        if set(roles) - {"user", "assistant"}:
            raise refused("messages: Unexpected role. Use the top-level `system` parameter.")

    def render(self, asked: Asked, answer: Answer, stamp: Stamp) -> Json:
        reasons = {"length": "max_tokens", "refusal": "refusal", "tool": "tool_use"}
        details: Json | None = None
        if answer.finish == "refusal":
            details = {"type": "refusal", "category": None, "explanation": None}
        return {
            "id": f"msg_01{stamp.id[:22]}",
            "type": "message",
            "role": "assistant",
            "model": stamp.model,
            "content": _content(asked, answer, stamp),
            "stop_reason": reasons.get(answer.finish, "end_turn"),
            "stop_sequence": None,
            "stop_details": details,
            "usage": _usage(answer.usage),
        }

    def headers(self, standings: Sequence[Standing], stamp: Stamp) -> dict[str, str]:
        headers = {"request-id": f"req_{stamp.id[:24]}", "anthropic-organization-id": "emulated"}
        soon = _timestamp(stamp.at)
        for unit, generous in (("requests", _GENEROUS_REQUESTS), ("tokens", _GENEROUS_TOKENS)):
            standing = tightest(standings, unit)
            names = ("tokens", "input-tokens", "output-tokens") if unit == "tokens" else ("requests",)
            for name in names:
                known = standing is not None
                headers[f"anthropic-ratelimit-{name}-limit"] = str(int(standing.limit) if known else generous)
                headers[f"anthropic-ratelimit-{name}-remaining"] = str(
                    int(standing.left) if known else generous - 1
                )
                headers[f"anthropic-ratelimit-{name}-reset"] = (
                    _timestamp(stamp.at + standing.reset_s) if known else soon
                )
        return headers

    def problem(self, trouble: Trouble, stamp: Stamp) -> Sent:
        headers = wait_headers(trouble, stamp.at)
        if trouble.kind in _PAGES:
            status, title = _PAGES[trouble.kind]
            where = {"location": "/__moved"} if trouble.kind == "redirect" else {}
            return Sent(
                status=trouble.status or status,
                body=html(title),
                headers={"content-type": "text/html", **where, **headers},
            )
        status, kind, words = _PROBLEMS[trouble.kind]
        message = trouble.message or words.format(model=trouble.model)
        if not message:
            message = f"This request would exceed your organization's rate limit of {trouble.limit} per {trouble.per}."
        error: Json = {"type": kind, "message": message}
        if code := _CODES.get(trouble.kind):
            error["details"] = {"error_code": code}
        body: Json = {
            "type": "error",
            "error": error,
            "request_id": f"req_{stamp.id[:24]}",
        }
        return Sent(status=trouble.status or status, body=msgspec.json.encode(body), headers=headers)


def count_tokens(tokens_in: int) -> bytes:
    """The reply of `POST /v1/messages/count_tokens`."""
    return msgspec.json.encode({"input_tokens": tokens_in})


def _content(asked: Asked, answer: Answer, stamp: Stamp) -> list[Json]:
    blocks: list[Json] = []
    if asked.thinking and answer.finish != "refusal":
        blocks.append({"type": "thinking", "thinking": "Let me see.", "signature": f"emulated-{stamp.id}"})
    if asked.tool is not None and answer.finish != "refusal":
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_01{stamp.id[:22]}",
                "name": asked.tool.name,
                "input": object_in(answer.text),
            }
        )
    elif answer.text:
        blocks.append({"type": "text", "text": answer.text, "citations": None})
    return blocks


def _usage(usage: Usage) -> Json:
    """Here, and only here, the input does not include what was read from the cache or written to it."""
    return {
        "input_tokens": usage.tokens_in - usage.tokens_cached - usage.tokens_cache_write,
        "cache_creation_input_tokens": usage.tokens_cache_write,
        "cache_read_input_tokens": usage.tokens_cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.tokens_cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"thinking_tokens": usage.tokens_reasoning},
        "service_tier": "standard",
    }


def _marks(given: "_Messages", *, has_system: bool) -> tuple[int, ...]:
    """After which messages a `cache_control` stands."""
    marks: list[int] = [1] if has_system and _is_marked(given.system) else []
    for number, message in enumerate(given.messages, 1 + has_system):
        if _is_marked(message.content):
            marks.append(number)
    if given.cache_control is not None:
        marks.append(len(given.messages) + has_system)
    return tuple(marks)


def _is_marked(content: object) -> bool:
    if not isinstance(content, list):
        return False
    return any(
        isinstance(part, dict) and cast("Json", part).get("cache_control")
        for part in cast("list[object]", content)
    )


def _forced_tool(tools: Sequence[Json] | None, choice: Json | None) -> Tool | None:
    if not tools or choice is None or choice.get("type") not in ("any", "tool"):
        return None
    wanted = choice.get("name")
    found = next((tool for tool in tools if wanted is None or tool.get("name") == wanted), None)
    if found is None:
        raise refused(f"tool_choice: Tool '{wanted}' not found in provided tools", param="tool_choice")
    schema = cast("Json", found.get("input_schema") or {"type": "object", "properties": {}})
    return Tool(name=str(found.get("name", "")), schema=schema)


def _is_adaptive(thinking: Json | None) -> bool:
    return bool(thinking) and thinking.get("type") == "adaptive"


def _thinking(given: "_Messages") -> int:
    match given.thinking:
        case {"type": "enabled", "budget_tokens": int() as budget}:
            return budget
        case {"type": "adaptive"}:
            return min(2000, given.max_tokens // 2)
        case _:
            return 0


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Message(msgspec.Struct):
    role: str
    content: str | list[Json]


class _Messages(msgspec.Struct):
    model: str
    max_tokens: int
    messages: list[_Message]
    system: str | list[Json] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    thinking: Json | None = None
    output_config: Json | None = None
    output_format: Json | None = None
    cache_control: Json | None = None
    stream: bool | None = None


_MESSAGES = msgspec.json.Decoder(_Messages)
