"""How OpenTelemetry's conventions for generative AI spell a call. They are not stable yet, so all of it is here."""

from collections.abc import Sequence
from typing import Any

import msgspec

from trialrun.core.calls import Call, Message, ToolCall, Usage
from trialrun.core.facts import Settled

_PROVIDERS = {
    "openai-responses": "openai",
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
    "mistral": "mistral_ai",
}
_FINISHES = {"tool": "tool_call", "refusal": "content_filter"}
Attributes = dict[str, Any]


def asked(call: Call) -> Attributes:
    """What a call asks for."""
    request = call.request
    provider, _, model = request.model.partition("/")
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.conversation.id": call.trial,
        "gen_ai.output.type": "json" if request.schema else "text",
        "trialrun.trial": call.trial,
        "trialrun.call": call.address,
        "trialrun.party": call.party,
        "trialrun.turn": call.turn,
    }
    given = {
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.stop_sequences": request.stop or None,
        "trialrun.purpose": call.purpose or None,
    }
    return attributes | {name: value for name, value in given.items() if value is not None}


def answered(settled: Settled) -> Attributes:
    """What came of it, and what it cost. What nobody knows is absent, never 0."""
    attributes: Attributes = {"gen_ai.response.finish_reasons": [_finish(settled)]}
    if settled.model:
        attributes["gen_ai.response.model"] = settled.model
    if settled.request_id:
        attributes["trialrun.request_id"] = settled.request_id
    if settled.cost_usd is not None:
        attributes["trialrun.cost_usd"] = float(settled.cost_usd)
    if settled.usage is not None:
        attributes |= _used(settled.usage)
    return attributes


def _used(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": usage.tokens_cached,
        "gen_ai.usage.cache_creation.input_tokens": usage.tokens_cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.tokens_reasoning,
    }


def _finish(settled: Settled) -> str:
    return _FINISHES.get(settled.finish, settled.finish)


def input_of(messages: Sequence[Message]) -> Attributes:
    """The request's messages as the conventions spell them; those of the system stand apart."""
    system = [part for each in messages if each.role == "system" for part in _parts(each.text, ())]
    others = [{"role": each.role, "parts": _told(each)} for each in messages if each.role != "system"]
    attributes: Attributes = {"gen_ai.input.messages": _json(others)}
    return attributes | ({"gen_ai.system_instructions": _json(system)} if system else {})


def output_of(text: str, settled: Settled) -> Attributes:
    """The reply in the same spelling."""
    said = {
        "role": "assistant",
        "parts": _parts(text, settled.tool_calls),
        "finish_reason": _finish(settled),
    }
    return {"gen_ai.output.messages": _json([said])}


def _told(message: Message) -> list[Attributes]:
    if message.answers:
        return [{"type": "tool_call_response", "id": message.answers, "response": message.text}]
    return _parts(message.text, message.tool_calls)


def _parts(text: str, tool_calls: Sequence[ToolCall]) -> list[Attributes]:
    valid = text.encode("utf-8", "replace").decode()
    said: list[Attributes] = [{"type": "text", "content": valid}] if text else []
    return said + [
        {"type": "tool_call", "id": each.id, "name": each.name, "arguments": each.arguments}
        for each in tool_calls
    ]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
