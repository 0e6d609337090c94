"""Chat completions as OpenAI speaks them, and many others after it: bodies out, replies in, errors made ours.

What differs between those servers is data, in a `Dialect`. What a reply means is decided here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from trialrun.core import chance
from trialrun.core.calls import Call, Finish, Parsed, RawReply, Request, Usage
from trialrun.core.errors import AuthRefused, QuotaExhausted, ReplyUnreadable, RequestRefused, Throttled
from trialrun.providers.http import HttpClient, Secret, error_at_gateway, retry_after_s
from trialrun.providers.reading import data_of

SchemaStyle = Literal["json_schema", "json_object"]

_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_balance",
        "insufficient_credits",
    }
)
# These would change what a reply costs, or how many there are, behind the back of the ceiling.
_OURS = frozenset(
    {
        "best_of",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "n",
        "response_format",
        "seed",
        "stop",
        "stream",
    }
)
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "tool_calls": "tool",
    "function_call": "tool",
}
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How a server spells what they all can do. A None leaves the thing out."""

    limit: str = "max_tokens"
    seed: str | None = "seed"
    schema: SchemaStyle = "json_schema"


OPENAI = Dialect(limit="max_completion_tokens")
"""Reasoning models refuse `max_tokens`, and all models of OpenAI know the newer name."""


def chat_body(call: Call, dialect: Dialect) -> bytes:
    """The body of the request. The same call gives the same bytes, whichever lane they travel."""
    request = call.request
    forbidden = sorted(_OURS.intersection(request.params))
    if forbidden:
        raise RequestRefused(
            f"`params` may not set {', '.join(f'`{name}`' for name in forbidden)}",
            where=call.place,
            fix="use the party's own settings; one call has one reply within one token limit",
        )
    body: dict[str, object] = {
        "model": request.model.partition("/")[2] or request.model,
        "messages": [{"role": message.role, "content": message.text} for message in request.messages],
        dialect.limit: request.max_tokens,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.stop:
        body["stop"] = list(request.stop)
    if dialect.seed:
        body[dialect.seed] = chance.integer(chance.derive(call.key, "provider seed"), bits=31)
    if request.schema is not None:
        body["response_format"] = _response_format(request.schema, dialect)
    body.update(request.params)
    return msgspec.json.encode(body)


class OpenAICompatible:
    """One account at one server."""

    is_rehearsal = False

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        key: str = "",
        key_name: str = "",
        dialect: Dialect | None = None,
        http: HttpClient | None = None,
    ) -> None:
        self.name = name
        self.dialect = dialect or Dialect()
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._key = Secret(key)
        self._key_name = key_name or "the API key"
        self._http = http or HttpClient()
        self._owns_http = http is None

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.name!r}, {self._url!r})"

    def prepare(self, call: Call) -> bytes:
        return chat_body(call, self.dialect)

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        headers = {"Content-Type": "application/json"}
        if key := self._key.reveal():
            headers["Authorization"] = f"Bearer {key}"
        raw = await self._http.post(self._url, body, headers=headers, timeout_s=timeout_s)
        if raw.status != 200:
            raise self._error(raw, call)
        return raw

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            usage = _BILL.decode(raw.body).usage
        except msgspec.DecodeError:
            return None
        if usage is None:
            return None
        return Usage(
            tokens_in=usage.prompt_tokens,
            # Some servers count reasoning beside the completion and only the total says so.
            tokens_out=max(usage.completion_tokens, usage.total_tokens - usage.prompt_tokens),
            tokens_cached=usage.cached,
            tokens_reasoning=usage.reasoning,
        )

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            reply = _REPLY.decode(raw.body)
        except msgspec.DecodeError as error:
            kind = raw.headers.get("content-type", "unknown type")
            raise ReplyUnreadable(f"{self.name} sent no chat completion ({kind}): {error}") from error
        if not reply.choices:
            problem = self._message(raw) or "it holds no choice"
            raise ReplyUnreadable(f"{self.name} sent an empty reply: {problem}")
        choice = reply.choices[0]
        text, finish = _text_of(choice.message.content), _FINISH.get(choice.finish_reason or "", "other")
        if choice.message.refusal:
            text, finish = choice.message.refusal, "refusal"
        return Parsed(text=text, finish=finish, model=reply.model, data=data_of(text, finish, request))

    async def close(self) -> None:
        if self._owns_http:
            await self._http.close()

    def _error(self, raw: RawReply, call: Call) -> Exception:
        """What a status other than 200 means for the call, or for the whole run."""
        status, code = raw.status, _problem(raw).code
        what = f"{self.name} answered {status}" + (f": {message}" if (message := self._message(raw)) else "")
        if status == 402 or (code in _QUOTA_CODES and status in (403, 429)):
            return QuotaExhausted(
                what, where=call.request.model, fix=f"raise the limit of the account at {self.name}"
            )
        if status == 429:
            return Throttled(what, retry_after_s=retry_after_s(raw.headers))
        if status in (401, 403):
            return AuthRefused(what, where=call.request.model, fix=f"check {self._key_name}")
        if error := error_at_gateway(status, what, raw.headers):
            return error
        fix = "check the model's name and what it supports"
        if 300 <= status < 400:
            fix = "the server redirects: give its final address as the base URL"
        return RequestRefused(what, status=status, where=call.place, fix=fix)

    def _message(self, raw: RawReply) -> str:
        """The provider's own words, cut short and without the key."""
        return self._key.hide_in(_problem(raw).message)[:_LONGEST_MESSAGE]


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int = 0

    @property
    def cached(self) -> int:
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else None) or self.prompt_cache_hit_tokens

    @property
    def reasoning(self) -> int:
        details = self.completion_tokens_details
        return (details.reasoning_tokens if details else None) or 0


class _Message(msgspec.Struct):
    content: str | list[dict[str, object]] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []
    model: str = ""


class _Bill(msgspec.Struct):
    """The same body, read for its tokens alone: neither half may spoil the other."""

    usage: _Usage | None = None


class _Problem(msgspec.Struct):
    code: str = ""
    message: str = ""


_REPLY = msgspec.json.Decoder(_Reply)
_BILL = msgspec.json.Decoder(_Bill)


def _problem(raw: RawReply) -> _Problem:
    """What an error body says; its shapes differ, and some are not JSON at all."""
    try:
        body = cast("object", msgspec.json.decode(raw.body))
    except msgspec.DecodeError:
        return _Problem(message=raw.body[:_LONGEST_MESSAGE].decode("utf-8", "replace").strip())
    fields = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    error: object = fields.get("error") or cast("object", body)
    if not isinstance(error, dict):
        return _Problem(message=str(error))
    fields = cast("dict[str, object]", error)
    codes = [str(value) for name in ("code", "type") if (value := fields.get(name))]
    known = next((code for code in codes if code in _QUOTA_CODES), codes[0] if codes else "")
    return _Problem(code=known, message=str(fields.get("message") or fields.get("detail") or ""))


def _text_of(content: str | list[dict[str, object]] | None) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if part.get("type", "text") == "text")
    return content or ""


def _response_format(schema: Mapping[str, object], dialect: Dialect) -> dict[str, object]:
    if dialect.schema == "json_object":
        return {"type": "json_object"}
    format_ = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
    return {"type": "json_schema", "json_schema": format_}


def is_strict(schema: object) -> bool:
    """Whether a schema may be enforced strictly: every object closed, and all of its properties required."""
    if isinstance(schema, list):
        return all(is_strict(part) for part in cast("list[object]", schema))
    if not isinstance(schema, Mapping):
        return True
    rules = cast("Mapping[str, object]", schema)
    properties = rules.get("properties")
    if rules.get("type") == "object" or isinstance(properties, Mapping):
        names = set(cast("Mapping[str, object]", properties or {}))
        required = set(cast("list[str]", rules.get("required") or []))
        if rules.get("additionalProperties") is not False or names != required:
            return False
    return all(
        is_strict(part) for keyword, part in rules.items() if keyword not in ("enum", "const", "default")
    )
