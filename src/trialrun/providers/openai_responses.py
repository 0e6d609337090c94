"""OpenAI's Responses API: the same models as through chat completions, another protocol.

Every call stands for itself: nothing is stored at the provider, and no call builds on an earlier response there.
"""

from collections.abc import Mapping
from typing import cast

import msgspec

from trialrun.core.calls import Call, Finish, Message, Parsed, RawReply, Request, Tool, ToolCall, Usage
from trialrun.core.errors import ReplyUnreadable
from trialrun.providers import quirks
from trialrun.providers.account import HttpAccount, model_name
from trialrun.providers.bodies import READ_ERRORS, Body, arguments_in, arguments_of, encoded, extras_in
from trialrun.providers.keys import Secret
from trialrun.providers.reading import data_of
from trialrun.providers.refusals import LONGEST_MESSAGE, is_free_policy, policy_text, problem_in
from trialrun.providers.schemas import is_strict

_OURS = frozenset(
    {
        "background", "conversation", "input", "instructions", "max_output_tokens", "model", "previous_response_id",
        "prompt", "reasoning.effort", "service_tier", "store", "stream", "temperature", "text.format", "tools", "top_p",
    }
)  # fmt: skip
_KNOWN = frozenset(
    {
        "access_programs", "background", "billing", "completed_at", "content_filters", "conversation", "created_at",
        "error", "frequency_penalty", "id", "image", "incomplete_details", "input_transformations", "instructions",
        "max_output_tokens", "max_tool_calls", "metadata", "model", "object", "output", "output_text",
        "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_diagnostics",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
        "service_tier", "status", "store", "temperature", "text", "tool_choice", "tool_usage", "tools", "top_logprobs",
        "top_p", "truncation", "usage", "user",
    }
)  # fmt: skip


def responses_body(call: Call) -> bytes:
    """The body of the request. What comes first from the system are the instructions; all else is input."""
    request = call.request
    name = model_name(request.model)
    settings = quirks.settings_of(request, quirks.family_of("openai-responses", name))
    first = next((n for n, message in enumerate(request.messages) if message.role != "system"), 0)
    body: Body = {"model": name, "max_output_tokens": request.max_tokens, "store": False}
    if first:
        body["instructions"] = "\n\n".join(message.text for message in request.messages[:first])
    body["input"] = [item for message in request.messages[first:] for item in _items(message)]
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.effort is not None:
        body["reasoning"] = {"effort": settings.effort}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.schema is not None:
        format_ = {
            "type": "json_schema",
            "name": "reply",
            "schema": request.schema,
            "strict": is_strict(request.schema),
        }
        body["text"] = {"format": format_}
    return encoded(body, call, _OURS)


class OpenAIResponses(HttpAccount):
    """One account at OpenAI, through the Responses API."""

    def url_of(self, call: Call) -> str:
        return f"{self._base_url}/responses"

    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {secret.reveal()}"} if secret else {}

    def prepare(self, call: Call) -> bytes:
        return responses_body(call)

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            usage = _BILL.decode(raw.body).usage
        except READ_ERRORS:
            return None
        if usage is None:
            return Usage(tokens_in=0, tokens_out=0) if is_free_policy(raw.body) else None
        return Usage(
            tokens_in=usage.input_tokens,
            tokens_out=max(usage.output_tokens, usage.total_tokens - usage.input_tokens),
            tokens_cached=usage.input_tokens_details.cached_tokens or 0,
            tokens_cache_write=usage.input_tokens_details.cache_write_tokens or 0,
            tokens_reasoning=usage.output_tokens_details.reasoning_tokens or 0,
        )

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            reply = _REPLY.decode(raw.body)
            extras = extras_in(_FIELDS.decode(raw.body), _KNOWN)
        except READ_ERRORS as error:
            kind = raw.headers.get("content-type", "unknown type")
            raise ReplyUnreadable(f"{self.name} sent no response ({kind}): {error}") from error
        family = quirks.family_of("openai-responses", model_name(request.model))
        dropped = quirks.settings_of(request, family).dropped
        if reply.output is None or reply.status == "failed":
            return self._without_output(raw, reply, dropped)
        text, refusal, calls = _read(reply.output)
        finish = _finish_of(reply, is_refused=bool(refusal), wishes=bool(calls))
        text = refusal or text
        return Parsed(
            text=text,
            finish=finish,
            model=reply.model or "",
            data=data_of(text, finish, request),
            tool_calls=calls,
            extras=extras,
            seed="unsupported",
            dropped=dropped,
        )

    def _without_output(self, raw: RawReply, reply: "_Reply", dropped: tuple[str, ...]) -> Parsed:
        """A response that failed: declined for what was asked, or broken on the way."""
        if (declined := policy_text(raw.body)) is not None:
            return Parsed(
                text=declined, finish="refusal", model=reply.model or "", seed="unsupported", dropped=dropped
            )
        problem = self._keys.hide_in(problem_in(raw.body).message)[:LONGEST_MESSAGE]
        raise ReplyUnreadable(
            f"{self.name} sent no output: {problem or reply.status or 'the reply is empty'}"
        )


class _In(msgspec.Struct):
    cached_tokens: int | None = 0
    cache_write_tokens: int | None = 0


class _Out(msgspec.Struct):
    reasoning_tokens: int | None = 0


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: _In = msgspec.field(default_factory=_In)
    output_tokens_details: _Out = msgspec.field(default_factory=_Out)


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    content: list[_Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str | dict[str, object] = ""


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Reply(msgspec.Struct):
    output: list[_Item] | None = None
    model: str | None = ""
    status: str | None = ""
    incomplete_details: _Incomplete | None = None


class _Bill(msgspec.Struct):
    usage: _Usage | None = None


_REPLY = msgspec.json.Decoder(_Reply)
_BILL = msgspec.json.Decoder(_Bill)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _read(items: list[_Item]) -> tuple[str, str, tuple[ToolCall, ...]]:
    """The text, the refusal and the wishes for tools among the output; reasoning is not ours to read."""
    text: list[str] = []
    refusal: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        match item.type:
            case "message":
                for part in item.content or ():
                    (refusal if part.type == "refusal" else text).append(part.refusal or part.text)
            case "function_call":
                arguments = item.arguments if isinstance(item.arguments, str) else ""
                calls.append(ToolCall(id=item.call_id, name=item.name, arguments=arguments_in(arguments)))
            case _:
                pass
    return "".join(text), "".join(refusal), tuple(calls)


def _finish_of(reply: _Reply, *, is_refused: bool, wishes: bool) -> Finish:
    if is_refused:
        return "refusal"
    if reply.status == "incomplete":
        reason = reply.incomplete_details.reason if reply.incomplete_details else None
        return cast(
            "Finish", {"max_output_tokens": "length", "content_filter": "refusal"}.get(reason or "", "other")
        )
    if wishes:
        return "tool"
    return "stop" if reply.status == "completed" else "other"


def _items(message: Message) -> list[Body]:
    if message.answers:
        return [{"type": "function_call_output", "call_id": message.answers, "output": message.text}]
    items: list[Body] = []
    if message.text or not message.tool_calls:
        items.append({"role": message.role, "content": message.text})
    for wish in message.tool_calls:
        made: Body = {"type": "function_call", "call_id": wish.id, "name": wish.name}
        items.append({**made, "arguments": arguments_of(wish)})
    return items


def _tool(tool: Tool) -> Body:
    made: Body = {
        "type": "function",
        "name": tool.name,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": bool(tool.parameters) and is_strict(tool.parameters),
    }
    if tool.description:
        made["description"] = tool.description
    return made
