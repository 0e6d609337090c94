"""OpenAI's responses."""

from typing import cast

import msgspec

from trialrun.core.calls import Message, Usage
from trialrun.testing.emulator.asked import Answer, Asked, Stamp, refused
from trialrun.testing.emulator.dialect import Json, decoded, message_of, schema_in, text_in
from trialrun.testing.emulator.openai import OpenAIShared, check_schema, forced_tool
from trialrun.testing.emulator.sampling import check_settings


class OpenAIResponses(OpenAIShared):
    """`POST /v1/responses`."""

    content_field = "output"

    def read(self, body: bytes, *, provider: str, model: str) -> Asked:
        asked = decoded(_RESPONSE, body)
        if asked.stream or asked.background:
            raise refused("The emulator neither streams nor works in the background.", param="stream")
        messages = [Message("system", asked.instructions)] if asked.instructions else []
        if isinstance(asked.input, str):
            messages.append(Message("user", asked.input))
        else:
            messages += [_message(item) for item in asked.input]
        format_ = (asked.text or {}).get("format")
        return Asked(
            given=asked,
            provider=provider,
            model=asked.model,
            messages=tuple(messages),
            max_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            top_p=asked.top_p,
            schema=schema_in(format_),
            tool=forced_tool(asked.tools, asked.tool_choice),
            effort=str((asked.reasoning or {}).get("effort") or ""),
        )

    def check(self, asked: Asked) -> None:
        check_settings(asked, "openai-responses")
        given = cast("_Response", asked.given)
        if given.max_output_tokens is not None and given.max_output_tokens < 16:
            raise refused(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.",
                param="max_output_tokens",
                code="integer_below_min_value",
            )
        format_ = (given.text or {}).get("format")
        if isinstance(format_, dict) and cast("Json", format_).get("type") == "json_schema":
            check_schema(cast("Json", format_), "text.format")

    def render(self, asked: Asked, answer: Answer, stamp: Stamp) -> Json:
        is_cut = answer.finish == "length"
        request = {"effort": asked.effort or None, "summary": None}
        format_: Json = {"type": "text"}
        if asked.schema is not None:
            format_ = {"type": "json_schema", "name": "reply", "schema": asked.schema, "strict": True}
        return {
            "id": f"resp_{stamp.id}",
            "object": "response",
            "created_at": int(stamp.at),
            "status": "incomplete" if is_cut else "completed",
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": None,
            "max_output_tokens": asked.max_tokens,
            "model": stamp.model,
            "output": _output(asked, answer, stamp),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": request,
            "service_tier": "default",
            "store": True,
            "temperature": 1.0 if asked.temperature is None else asked.temperature,
            "text": {"format": format_},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0 if asked.top_p is None else asked.top_p,
            "truncation": "disabled",
            "usage": _usage(answer.usage),
            "user": None,
            "metadata": {},
        }


def _output(asked: Asked, answer: Answer, stamp: Stamp) -> list[Json]:
    items: list[Json] = []
    if answer.usage.tokens_reasoning:
        items.append({"type": "reasoning", "id": f"rs_{stamp.id}", "summary": [], "status": None})
    if asked.tool is not None and answer.finish != "refusal":
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{stamp.id}",
                "call_id": f"call_{stamp.id[:24]}",
                "name": asked.tool.name,
                "arguments": answer.text,
                "status": "completed",
            }
        )
        return items
    part: Json = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    if answer.finish == "refusal":
        part = {"type": "refusal", "refusal": answer.text}
    status = "incomplete" if answer.finish == "length" else "completed"
    items.append(
        {"type": "message", "id": f"msg_{stamp.id}", "status": status, "role": "assistant", "content": [part]}
    )
    return items


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.tokens_in,
        "input_tokens_details": {"cached_tokens": usage.tokens_cached, "cache_write_tokens": 0},
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.tokens_reasoning},
        "total_tokens": usage.tokens_in + usage.tokens_out,
    }


def _message(item: Json) -> Message:
    """An item of the input: a message, or a call of a function, or its output."""
    kind = item.get("type", "message")
    if kind == "function_call":
        return Message("assistant", str(item.get("arguments", "")))
    return message_of(str(item.get("role", "user")), text_in(item.get("content", item.get("output"))))


class _Response(msgspec.Struct):
    model: str
    input: str | list[Json]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: Json | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    reasoning: Json | None = None
    stream: bool | None = None
    background: bool | None = None


_RESPONSE = msgspec.json.Decoder(_Response)
