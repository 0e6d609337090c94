"""Chat completions as OpenAI speaks them, and many others after it: bodies out, replies in.

What differs between those servers is data, in a `Dialect`; what differs between models is in `quirks`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from trialrun.core.calls import (
    Call,
    Finish,
    Message,
    Parsed,
    RawReply,
    Request,
    SeedState,
    Tool,
    ToolCall,
    Usage,
)
from trialrun.core.errors import ReplyUnreadable, TrialrunError, Unavailable
from trialrun.providers import quirks
from trialrun.providers.account import HttpAccount, model_name
from trialrun.providers.bodies import (
    READ_ERRORS,
    Body,
    arguments_in,
    arguments_of,
    encoded,
    extras_in,
    seed_of,
)
from trialrun.providers.chat_usage import Bill, usage_in
from trialrun.providers.http.client import HttpClient
from trialrun.providers.keys import Keys, Secret
from trialrun.providers.reading import data_of
from trialrun.providers.refusals import LONGEST_MESSAGE, is_free_policy, is_policy, policy_text, problem_in
from trialrun.providers.schemas import is_strict

SchemaStyle = Literal["json_schema", "json_object"]

# These would change what a reply costs, how much is read for it, or how many there are, behind the back of the ceiling.
_OURS = frozenset(
    {
        "best_of",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "models",
        "n",
        "plugins",
        "prediction",
        "response_format",
        "search_parameters",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "temperature",
        "tools",
        "top_p",
        "web_search_options",
    }
)
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "tool_calls": "tool",
    "function_call": "tool",
}
# The server broke in the middle of the reply: what is there of it is no outcome.
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})
_UNFIT = "json_validate_failed"
"""What Groq says, under status 400, when what its model wrote does not fit the schema."""
_SAYS_ERROR = b'"error"'
_NO_BACKEND = "fp_ollama"
_JSON_ONLY = "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How a server spells what they all can do. A None leaves the thing out."""

    limit: str = "max_tokens"
    seed: str | None = "seed"
    schema: SchemaStyle = "json_schema"
    bill: Bill | None = None
    """In what the server says beside its tokens what the call was billed: nothing, `cost`, `cost_in_usd_ticks`."""


OPENAI = Dialect(limit="max_completion_tokens")
"""Reasoning models refuse `max_tokens`, and all models of OpenAI know the newer name."""


def chat_body(call: Call, dialect: Dialect) -> bytes:
    """The body of the request. The same call gives the same bytes, whichever lane they travel."""
    request = call.request
    name = model_name(request.model)
    settings = quirks.settings_of(request, quirks.family_of("openai-chat", name))
    messages = [_spelled(message) for message in request.messages]
    body: Body = {"model": name, "messages": messages, dialect.limit: request.max_tokens}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        body["stop"] = list(settings.stop)
    if settings.effort is not None:
        body["reasoning_effort"] = settings.effort
    if dialect.seed:
        body[dialect.seed] = seed_of(call)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.schema is not None:
        if dialect.schema == "json_object":
            schema = msgspec.json.encode(request.schema).decode()
            messages.insert(0, {"role": "system", "content": _JSON_ONLY + schema})
            body["response_format"] = {"type": "json_object"}
        else:
            format_ = {"name": "reply", "schema": request.schema, "strict": is_strict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": format_}
    return encoded(body, call, _OURS)


class OpenAIChat(HttpAccount):
    """One account at one server that speaks chat completions."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        key: str | Sequence[str] = "",
        key_name: str = "",
        dialect: Dialect | None = None,
        http: HttpClient | None = None,
    ) -> None:
        super().__init__(name, base_url=base_url, key=key, key_name=key_name, http=http)
        self.dialect = dialect or Dialect()

    def url_of(self, call: Call) -> str:
        return f"{self._base_url}/chat/completions"

    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {secret.reveal()}"} if secret else {}

    def prepare(self, call: Call) -> bytes:
        return chat_body(call, self.dialect)

    def checked(self, raw: RawReply, call: Call, keys: Keys) -> RawReply:
        raw = super().checked(raw, call, keys)
        if raw.status == 200 and _SAYS_ERROR in raw.body and (error := self._failed_in(raw, call, keys)):
            raise error
        return raw

    def is_reply(self, raw: RawReply) -> bool:
        return raw.status == 400 and _UNFIT in problem_in(raw.body).codes

    def _failed_in(self, raw: RawReply, call: Call, keys: Keys) -> TrialrunError | None:
        """The failure that a status of 200 hides. What has choices or tokens is a reply, and is settled."""
        try:
            failed = _FAILED.decode(raw.body)
        except READ_ERRORS:
            return None
        code = failed.error.code if failed.error else None
        if failed.choices or failed.usage or code is None or not 400 <= code < 600:
            return None
        told = RawReply(body=raw.body, status=code, headers=raw.headers)
        if is_policy(told):
            return None
        error = self.error(told, about=call.place, model=call.request.model, keys=keys)
        if isinstance(error, Unavailable) and code != 503:
            error.billed = "unknown"  # the model was already at work
        return error

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            usage = usage_in(raw.body, self.dialect.bill)
        except READ_ERRORS:
            return None
        if usage is None and is_free_policy(raw.body):
            return Usage(tokens_in=0, tokens_out=0)
        return usage

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            reply, extras = _read(raw.body)
        except READ_ERRORS as error:
            kind = raw.headers.get("content-type", "unknown type")
            raise ReplyUnreadable(f"{self.name} sent no chat completion ({kind}): {error}") from error
        family = quirks.family_of("openai-chat", model_name(request.model))
        dropped = quirks.settings_of(request, family).dropped
        seed = quirks.seed_state(is_sent=self.dialect.seed is not None, backend=_backend(reply))
        if not reply.choices:
            return self._without_choices(raw, seed, dropped)
        choice = reply.choices[0]
        if choice.error or choice.finish_reason in _BROKEN_OFF:
            why = self._told(msgspec.json.encode({"error": choice.error})) or choice.finish_reason
            raise ReplyUnreadable(f"{self.name} broke the reply off: {why}")
        text, finish = _text_of(choice.message.content), _FINISH.get(choice.finish_reason or "", "other")
        calls = tuple(
            ToolCall(
                id=wish.id or "",
                name=wish.function.name,
                arguments=arguments_in(wish.function.arguments or ""),
            )
            for wish in choice.message.tool_calls or ()
        )
        if calls and finish == "stop":
            finish = "tool"
        if choice.message.refusal:
            text, finish = choice.message.refusal, "refusal"
        return Parsed(
            text=text,
            finish=finish,
            model=reply.model or "",
            data=data_of(text, finish, request),
            tool_calls=calls,
            extras=extras,
            seed=seed,
            dropped=dropped,
        )

    def _without_choices(self, raw: RawReply, seed: SeedState, dropped: tuple[str, ...]) -> Parsed:
        if (declined := policy_text(raw.body)) is not None:
            return Parsed(text=declined, finish="refusal", seed=seed, dropped=dropped)
        if raw.status != 200:
            raise ReplyUnreadable(
                f"{self.name} says that the reply does not fit its schema", text=_unfit(raw.body)
            )
        raise ReplyUnreadable(
            f"{self.name} sent an empty reply: {self._told(raw.body) or 'it holds no choice'}"
        )

    def _told(self, body: bytes) -> str:
        """What the server says of a failure, fit to be shown."""
        return self._keys.hide_in(problem_in(body).message)[:LONGEST_MESSAGE]


_Skipped = msgspec.Raw
_ABSENT = msgspec.Raw()


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str | None = None


class _Wish(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | list[dict[str, object]] | None = None
    refusal: str | None = None
    tool_calls: list[_Wish] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None
    error: object = None


class _Reply(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()
    model: str | None = ""
    system_fingerprint: str | None = None


class _PlainMessage(_Message, frozen=True, forbid_unknown_fields=True):
    """One that has nothing beside what the protocol knows. The same is true of the next two."""

    annotations: _Skipped = _ABSENT
    name: _Skipped = _ABSENT
    prefix: _Skipped = _ABSENT
    function_call: _Skipped = _ABSENT
    reasoning: _Skipped = _ABSENT
    reasoning_content: _Skipped = _ABSENT
    reasoning_details: _Skipped = _ABSENT
    role: _Skipped = _ABSENT


class _PlainChoice(_Choice, frozen=True, forbid_unknown_fields=True, kw_only=True):
    message: _PlainMessage
    content_filter_results: _Skipped = _ABSENT
    index: _Skipped = _ABSENT
    native_finish_reason: _Skipped = _ABSENT
    seed: _Skipped = _ABSENT
    stop_reason: _Skipped = _ABSENT
    logprobs: None = None
    token_ids: None = None
    """Not known, but sent by many servers, as nothing."""


class _PlainReply(_Reply, frozen=True, forbid_unknown_fields=True):
    choices: tuple[_PlainChoice, ...] = ()
    citations: _Skipped = _ABSENT
    created: _Skipped = _ABSENT
    id: _Skipped = _ABSENT
    object: _Skipped = _ABSENT
    provider: _Skipped = _ABSENT
    service_tier: _Skipped = _ABSENT
    stats: _Skipped = _ABSENT
    timings: _Skipped = _ABSENT
    usage: _Skipped = _ABSENT
    usage_breakdown: _Skipped = _ABSENT
    warning: _Skipped = _ABSENT
    x_groq: _Skipped = _ABSENT
    kv_transfer_params: None = None
    prompt_logprobs: None = None
    prompt_token_ids: None = None


_SENT_AS_NOTHING = {"kv_transfer_params", "logprobs", "prompt_logprobs", "prompt_token_ids", "token_ids"}
_KNOWN = frozenset(_PlainReply.__struct_fields__) - _SENT_AS_NOTHING
_KNOWN_IN_CHOICE = frozenset(_PlainChoice.__struct_fields__) - _SENT_AS_NOTHING
_KNOWN_IN_MESSAGE = frozenset(_PlainMessage.__struct_fields__)


class _Failure(msgspec.Struct):
    code: int | None = None


class _Failed(msgspec.Struct):
    """A body of status 200 that reports a failure."""

    error: _Failure | None = None
    choices: object = None
    usage: object = None


class _Unfit(msgspec.Struct):
    failed_generation: str = ""


class _UnfitReply(msgspec.Struct):
    error: _Unfit


_FAILED = msgspec.json.Decoder(_Failed)
_UNFIT_REPLY = msgspec.json.Decoder(_UnfitReply)
_PLAIN = msgspec.json.Decoder(_PlainReply)
_REPLY = msgspec.json.Decoder(_Reply)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHOICES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def _read(body: bytes) -> tuple[_Reply, dict[str, object]]:
    """The reply, and what came beside the protocol. Most replies have nothing there: one decoding tells."""
    try:
        return _PLAIN.decode(body), {}
    except msgspec.ValidationError:
        reply = _REPLY.decode(body)
        return reply, _extras(body) if reply.choices else {}


def _extras(body: bytes) -> dict[str, object]:
    """What the server sent beside the protocol: in the reply, in the choice, in the message."""
    fields = _FIELDS.decode(body)
    choice = _CHOICES.decode(fields["choices"])[0]
    return {
        **extras_in(fields, _KNOWN),
        **extras_in(choice, _KNOWN_IN_CHOICE),
        **extras_in(_FIELDS.decode(choice["message"]), _KNOWN_IN_MESSAGE),
    }


def _unfit(body: bytes) -> str:
    """What the model wrote, of which the server says that it does not fit."""
    try:
        return _UNFIT_REPLY.decode(body).error.failed_generation
    except READ_ERRORS:
        return ""


def _backend(reply: _Reply) -> str | None:
    """The backend that the server names. Some put a word there that is always the same."""
    named = reply.system_fingerprint
    return None if named in (_NO_BACKEND, reply.model) else named


def _text_of(content: str | list[dict[str, object]] | None) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if part.get("type", "text") == "text")
    return content or ""


def _spelled(message: Message) -> Body:
    if message.answers:
        return {"role": "tool", "tool_call_id": message.answers, "content": message.text}
    if message.tool_calls:
        wishes = [
            {
                "id": wish.id,
                "type": "function",
                "function": {"name": wish.name, "arguments": arguments_of(wish)},
            }
            for wish in message.tool_calls
        ]
        return {"role": "assistant", "content": message.text or None, "tool_calls": wishes}
    return {"role": message.role, "content": message.text}


def _tool(tool: Tool) -> Body:
    function: Body = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}
