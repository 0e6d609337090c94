"""Anthropic's Messages API: bodies out, replies in.

Two versions of the API are in use. The newer one refuses every sampling setting, at its default too; so a call that
sets one (for a model that still takes it, see `quirks`) goes out under the older version, all others under the newer.
"""

from collections.abc import Mapping
from typing import cast

import msgspec

from trialrun.core.calls import Call, Finish, Message, Parsed, RawReply, Request, ToolCall, Usage
from trialrun.core.errors import ReplyUnreadable
from trialrun.providers import quirks
from trialrun.providers.account import HttpAccount, model_name
from trialrun.providers.bodies import READ_ERRORS, Body, encoded, extras_in
from trialrun.providers.keys import Secret
from trialrun.providers.reading import data_of
from trialrun.providers.refusals import LONGEST_MESSAGE, problem_in
from trialrun.providers.schemas import can_be_closed, closed

VERSION = "2026-10-21"
VERSION_WITH_SAMPLING = "2023-06-01"
REPLY_TOOL = "structured_reply"
"""The tool whose arguments are the structured reply, where a model or a schema has no other way."""

_OURS = frozenset(
    {
        "cache_control.ttl", "container", "inference_geo", "max_tokens", "mcp_servers", "messages", "model",
        "output_config.effort", "output_config.format", "speed", "stop_sequences",
        "stream", "system", "temperature", "tools", "top_p",
    }
)  # fmt: skip
_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "refusal": "refusal",
}
_KNOWN = frozenset(
    {
        "container", "content", "context_management", "diagnostics", "id", "model", "role", "stop_details",
        "stop_reason", "stop_sequence", "type", "usage",
    }
)  # fmt: skip
_THINKING = ("thinking", "redacted_thinking")
_ANY_OBJECT: Body = {"type": "object", "properties": {}}


def messages_body(call: Call) -> bytes:
    """The body of the request. What comes first from the system is a field of its own."""
    request = call.request
    name = model_name(request.model)
    family = quirks.family_of("anthropic", name)
    settings = quirks.settings_of(request, family)
    first = next((n for n, message in enumerate(request.messages) if message.role != "system"), 0)
    body: Body = {
        "model": name,
        "max_tokens": request.max_tokens,
        "messages": _spelled(request.messages[first:]),
    }
    if first:
        body["system"] = "\n\n".join(message.text for message in request.messages[:first])
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        body["stop_sequences"] = list(settings.stop)
    config: Body = {}
    if settings.effort is not None:
        config["effort"] = settings.effort
    tools: list[Body] = []
    for tool in request.tools or ():
        described: Body = {"name": tool.name, "input_schema": tool.parameters or _ANY_OBJECT}
        if tool.description:
            described["description"] = tool.description
        tools.append(described)
    if request.schema is not None:
        if _is_native(request.schema, family):
            config["format"] = {"type": "json_schema", "schema": closed(request.schema)}
        else:
            _force_reply_tool(body, tools, request.schema)
    if config:
        body["output_config"] = config
    if tools:
        body["tools"] = tools
    return encoded(body, call, _OURS)


class Anthropic(HttpAccount):
    """One account at Anthropic."""

    def url_of(self, call: Call) -> str:
        return f"{self._base_url}/messages"

    def headers(self, call: Call, secret: Secret | None) -> Mapping[str, str]:
        return {"anthropic-version": version_of(call.request), **self.auth(secret)}

    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        return {"x-api-key": secret.reveal()} if secret else {}

    def prepare(self, call: Call) -> bytes:
        return messages_body(call)

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            usage = _BILL.decode(raw.body).usage
        except READ_ERRORS:
            return None
        if usage is None:
            return None
        written, read = usage.cache_creation_input_tokens or 0, usage.cache_read_input_tokens or 0
        details = usage.output_tokens_details
        return Usage(
            tokens_in=usage.input_tokens + written + read,
            tokens_out=usage.output_tokens,
            tokens_cached=read,
            tokens_cache_write=written,
            tokens_reasoning=(details.thinking_tokens or 0) if details else 0,
        )

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            reply = _REPLY.decode(raw.body)
            extras = extras_in(_FIELDS.decode(raw.body), _KNOWN)
        except READ_ERRORS as error:
            kind = raw.headers.get("content-type", "unknown type")
            raise ReplyUnreadable(f"{self.name} sent no message ({kind}): {error}") from error
        if reply.content is None:
            problem = (
                self._keys.hide_in(problem_in(raw.body).message)[:LONGEST_MESSAGE] or "it holds no content"
            )
            raise ReplyUnreadable(f"{self.name} sent an empty reply: {problem}")
        finish = _FINISH.get(reply.stop_reason or "", "other")
        text = "".join(block.text for block in reply.content if block.type == "text")
        calls = _calls(reply.content)
        for call in calls:
            if call.name == REPLY_TOOL and request.schema is not None:
                text, finish = (
                    _unwrapped(call.arguments, request.schema),
                    "stop" if finish == "tool" else finish,
                )
                calls = ()
        if finish == "refusal" and not text and reply.stop_details:
            text = reply.stop_details.explanation or ""
        settings = quirks.settings_of(request, quirks.family_of("anthropic", model_name(request.model)))
        return Parsed(
            text=text,
            finish=finish,
            model=reply.model or "",
            data=data_of(text, finish, request),
            tool_calls=calls,
            extras=extras,
            seed="unsupported",
            dropped=settings.dropped,
        )


def version_of(request: Request) -> str:
    """The API version under which this request is understood."""
    settings = quirks.settings_of(request, quirks.family_of("anthropic", model_name(request.model)))
    samples = settings.temperature is not None or settings.top_p is not None or "top_k" in request.params
    return VERSION_WITH_SAMPLING if samples else VERSION


class _Details(msgspec.Struct):
    thinking_tokens: int | None = 0


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens_details: _Details | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, object] | None = None
    thinking: str = ""
    signature: str = ""
    data: str = ""


class _StopDetails(msgspec.Struct):
    explanation: str | None = ""


class _Reply(msgspec.Struct):
    content: list[_Block] | None = None
    model: str | None = ""
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Bill(msgspec.Struct):
    usage: _Usage | None = None


_REPLY = msgspec.json.Decoder(_Reply)
_BILL = msgspec.json.Decoder(_Bill)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _is_native(schema: Mapping[str, object], family: quirks.Family) -> bool:
    return family.schema == "native" and can_be_closed(schema)


def _force_reply_tool(body: Body, tools: list[Body], schema: Mapping[str, object]) -> None:
    """Let the reply be the arguments of a tool that has to be used; beside other tools, one of them all."""
    described = "Gives the reply in the form that is asked for."
    choice = {"type": "any"} if tools else {"type": "tool", "name": REPLY_TOOL}
    tools.append({"name": REPLY_TOOL, "input_schema": _wrapped(schema), "description": described})
    body["tool_choice"] = {**choice, "disable_parallel_tool_use": True}


def _wrapped(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The schema of a tool's arguments, which have to be an object."""
    if schema.get("type") == "object":
        return schema
    outer: Body = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _unwrapped(arguments: Mapping[str, object], schema: Mapping[str, object]) -> str:
    value = arguments if schema.get("type") == "object" else arguments.get("value")
    return msgspec.json.encode(value).decode()


def _calls(blocks: list[_Block]) -> tuple[ToolCall, ...]:
    """The wishes for tools. The thinking before them has to come back with them, so the first one carries it."""
    uses = [block for block in blocks if block.type == "tool_use"]
    if not uses:
        return ()
    thoughts = [_thought(block) for block in blocks if block.type in _THINKING]
    carry = msgspec.json.encode({"thinking": thoughts}).decode() if thoughts else ""
    return tuple(
        ToolCall(id=use.id, name=use.name, arguments=use.input or {}, carry="" if number else carry)
        for number, use in enumerate(uses)
    )


def _thought(block: _Block) -> Body:
    if block.type == "thinking":
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    return {"type": "redacted_thinking", "data": block.data}


def _spelled(messages: tuple[Message, ...]) -> list[Body]:
    """The messages; what came of several tools is one message, as the API wants it."""
    spelled: list[Body] = []
    results: list[Body] = []
    for message in messages:
        if message.answers:
            if not results:
                spelled.append({"role": "user", "content": results})
            results.append({"type": "tool_result", "tool_use_id": message.answers, "content": message.text})
            continue
        results = []
        content = _with_tools(message) if message.tool_calls else message.text
        spelled.append({"role": message.role, "content": content})
    return spelled


def _with_tools(message: Message) -> list[Body]:
    carried: Body = msgspec.json.decode(message.tool_calls[0].carry or "{}")
    blocks = list(cast("list[Body]", carried.get("thinking", [])))
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    uses: list[Body] = [
        {"type": "tool_use", "id": wish.id, "name": wish.name, "input": wish.arguments}
        for wish in message.tool_calls
    ]
    return blocks + uses
