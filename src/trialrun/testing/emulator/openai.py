"""OpenAI's chat completions, and the errors and headers that all its endpoints share."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from trialrun.core.calls import Usage
from trialrun.providers.rehearsal.profiles import profile_of
from trialrun.testing.emulator.asked import Answer, Asked, Kind, Sent, Stamp, Tool, Trouble, refused
from trialrun.testing.emulator.dialect import (
    Json,
    decoded,
    html,
    is_closed,
    message_of,
    schema_in,
    text_in,
    tightest,
    wait_headers,
)
from trialrun.testing.emulator.limits import Standing
from trialrun.testing.emulator.sampling import check_settings

_GENEROUS = {
    "x-ratelimit-limit-requests": "30000",
    "x-ratelimit-limit-tokens": "150000000",
    "x-ratelimit-remaining-requests": "29999",
    "x-ratelimit-remaining-tokens": "149999000",
    "x-ratelimit-reset-requests": "2ms",
    "x-ratelimit-reset-tokens": "0s",
}

# Kind -> status, type, code and the usual words.
_PROBLEMS: Mapping[Kind, tuple[int, str, str | None, str]] = {
    "throttled": (429, "requests", "rate_limit_exceeded", ""),
    "quota": (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "spend_limit": (
        400,
        "invalid_request_error",
        "billing_hard_limit_reached",
        "Billing hard limit has been reached.",
    ),
    "billing": (
        429,
        "billing_not_active",
        "billing_not_active",
        "Your account is not active, please check your billing details on our website.",
    ),
    "broken": (
        500,
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    "unavailable": (503, "server_error", None, "That model is currently overloaded with other requests."),
    "overloaded": (529, "server_error", None, "The engine is currently overloaded, please try again later."),
    "on_hold": (
        403,
        "invalid_request_error",
        "account_deactivated",
        "This organization is on hold. Please contact support.",
    ),
    "revoked": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    "forbidden": (
        403,
        "invalid_request_error",
        "permission_denied",
        "Your project has no access to this model.",
    ),
    "unknown_model": (404, "invalid_request_error", "model_not_found", "The model `{model}` does not exist."),
    "unknown_path": (404, "invalid_request_error", "unknown_url", "Unknown request URL."),
    "unknown_object": (404, "invalid_request_error", None, "No such object."),
    "conflict": (409, "invalid_request_error", None, "The object is not in a state that allows this."),
    "refused": (400, "invalid_request_error", None, "The request is not valid."),
    "too_long": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "too_large": (413, "invalid_request_error", None, "The request body is too large."),
}
_PAGES: Mapping[Kind, tuple[int, str]] = {
    "bad_gateway": (502, "502 Bad Gateway"),
    "gateway_timeout": (504, "504 Gateway Time-out"),
    "redirect": (302, "302 Found"),
}


class OpenAIShared:
    """Keys, headers and errors, alike for chat completions and responses."""

    caches_by_marks = False
    usage_field = "usage"

    def key_in(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ").strip()

    def headers(self, standings: Sequence[Standing], stamp: Stamp) -> dict[str, str]:
        headers = {
            "x-request-id": f"req_{stamp.id}",
            "openai-version": "2020-10-01",
            "openai-organization": "emulated",
            "openai-processing-ms": "1",
            **_GENEROUS,
        }
        for unit in ("requests", "tokens") if standings else ():
            if standing := tightest(standings, unit):
                headers[f"x-ratelimit-limit-{unit}"] = str(int(standing.limit))
                headers[f"x-ratelimit-remaining-{unit}"] = str(int(standing.left))
                headers[f"x-ratelimit-reset-{unit}"] = duration(standing.reset_s)
        return headers

    def problem(self, trouble: Trouble, stamp: Stamp) -> Sent:
        if trouble.kind in _PAGES:
            status, title = _PAGES[trouble.kind]
            where = {"location": "/__moved"} if trouble.kind == "redirect" else {}
            headers = {"content-type": "text/html", **where, **wait_headers(trouble, stamp.at)}
            return Sent(status=trouble.status or status, body=html(title), headers=headers)
        status, kind, code, words = _PROBLEMS[trouble.kind]
        message = trouble.message or words.format(model=trouble.model) or _too_many(trouble)
        error: Json = {
            "message": message,
            "type": trouble.limit if trouble.kind == "throttled" else kind,
            "param": trouble.param or None,
            "code": trouble.code or code,
        }
        headers = wait_headers(trouble, stamp.at)
        if trouble.kind == "throttled" and trouble.wait_as == "header" and trouble.wait_s is not None:
            headers["retry-after-ms"] = str(round(trouble.wait_s * 1000))
        return Sent(
            status=trouble.status or status, body=msgspec.json.encode({"error": error}), headers=headers
        )


class OpenAIChat(OpenAIShared):
    """`POST /v1/chat/completions`."""

    content_field = "choices"

    def read(self, body: bytes, *, provider: str, model: str) -> Asked:
        chat = decoded(_CHAT, body)
        if chat.stream:
            raise refused("The emulator does not stream.", param="stream")
        if not chat.messages:
            raise refused("[] is too short - 'messages'", param="messages")
        schema = schema_in(chat.response_format, under="json_schema")
        return Asked(
            given=chat,
            provider=provider,
            model=chat.model,
            messages=tuple(
                message_of(message.role, text_in(message.content or message.tool_calls))
                for message in chat.messages
            ),
            max_tokens=chat.max_completion_tokens or chat.max_tokens,
            temperature=chat.temperature,
            top_p=chat.top_p,
            stop=(chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ()),
            schema=schema,
            tool=forced_tool(chat.tools, chat.tool_choice),
            seed=chat.seed,
            effort=chat.reasoning_effort or "",
            count=chat.n or 1,
        )

    def check(self, asked: Asked) -> None:
        chat = cast("_Chat", asked.given)
        if chat.max_tokens is not None and is_reasoning(asked):
            raise refused(
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
                param="max_tokens",
                code="unsupported_parameter",
            )
        if asked.provider == "openai":
            check_settings(asked, "openai-chat")
        format_ = chat.response_format or {}
        spec = format_.get("json_schema")
        if isinstance(spec, dict):
            check_schema(cast("Json", spec), "response_format")

    def render(self, asked: Asked, answer: Answer, stamp: Stamp) -> Json:
        texts = (answer.text, *answer.more)
        return {
            "id": f"chatcmpl-{stamp.id[:29]}",
            "object": "chat.completion",
            "created": int(stamp.at),
            "model": stamp.model,
            "choices": [_choice(asked, answer, text, n, stamp) for n, text in enumerate(texts)],
            "usage": chat_usage(answer.usage),
            "service_tier": "default",
            "system_fingerprint": f"fp_{stamp.id[-10:]}",
        }


def _choice(asked: Asked, answer: Answer, text: str, number: int, stamp: Stamp) -> Json:
    message: Json = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    finish = {"length": "length", "other": "content_filter"}.get(answer.finish, "stop")
    if answer.finish == "refusal":
        message["content"], message["refusal"] = None, text
    elif asked.tool is not None:
        call: Json = {
            "id": f"call_{stamp.id[:23]}{number}",
            "type": "function",
            "function": {"name": asked.tool.name, "arguments": text},
        }
        message["content"], message["tool_calls"] = None, [call]
        finish = "tool_calls" if answer.finish == "tool" else finish
    return {"index": number, "message": message, "logprobs": None, "finish_reason": finish}


def chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.tokens_in,
        "completion_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.tokens_cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.tokens_reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def duration(seconds: float) -> str:
    """As the headers write it: `6m0s`, `1.5s`, `20ms`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.0f}s" if minutes else f"{rest:.3f}".rstrip("0").rstrip(".") + "s"


def is_reasoning(asked: Asked) -> bool:
    """Whether this is a model of OpenAI that thinks unasked, and therefore does not know `max_tokens`."""
    return asked.provider == "openai" and profile_of(asked.priced_as).reasoning_tokens > 0


def check_schema(spec: Json, param: str) -> None:
    """A strict schema has closed objects, and requires all of their properties."""
    if spec.get("strict") and not is_closed(spec.get("schema"), wants_all=True):
        raise refused(
            f"Invalid schema for {param} '{spec.get('name', '')}': 'additionalProperties' is required to be "
            "supplied and to be false, and 'required' is required to include every key in properties.",
            param=param,
        )


def forced_tool(tools: Sequence[Json] | None, choice: object) -> Tool | None:
    """The function that the model must call, if one is forced; both endpoints spell it alike but for one level."""
    if not tools or choice in (None, "auto", "none"):
        return None
    functions = [cast("Json", tool.get("function") or tool) for tool in tools]
    wanted = ""
    if isinstance(choice, Mapping):
        named = cast("Json", choice)
        wanted = str(cast("Json", named.get("function") or named).get("name", ""))
    found = next((each for each in functions if not wanted or each.get("name") == wanted), None)
    if found is None:
        raise refused(f"Tool choice '{wanted}' not found in 'tools' parameter.", param="tool_choice")
    schema = cast("Json", found.get("parameters") or {"type": "object", "properties": {}})
    return Tool(name=str(found.get("name", "")), schema=schema)


def _too_many(trouble: Trouble) -> str:
    wait = f" Please try again in {duration(trouble.wait_s)}." if trouble.wait_s is not None else ""
    return (
        f"Rate limit reached for {trouble.model or 'this model'} on {trouble.limit} per {trouble.per}.{wait}"
    )


class _Message(msgspec.Struct):
    role: str
    content: str | list[Json] | None = None
    tool_calls: list[Json] | None = None


class _Chat(msgspec.Struct):
    model: str
    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    response_format: Json | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None


_CHAT = msgspec.json.Decoder(_Chat)
