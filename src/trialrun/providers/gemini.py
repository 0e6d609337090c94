"""Gemini's generateContent, as the Developer API and Vertex AI speak it: bodies out, replies in.

The key is a header and never part of the address, which servers and proxies on the way write into their logs.
"""

import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote

import msgspec

from trialrun.core.calls import Call, Finish, Message, Parsed, RawReply, Request, Tool, ToolCall, Usage
from trialrun.core.errors import ReplyUnreadable
from trialrun.providers import quirks
from trialrun.providers.account import HttpAccount, model_name
from trialrun.providers.bodies import READ_ERRORS, Body, encoded, extras_in, seed_of
from trialrun.providers.keys import Keys, Secret
from trialrun.providers.reading import data_of
from trialrun.providers.refusals import LONGEST_MESSAGE, problem_in

_OURS = frozenset(
    {
        "cachedContent", "contents", "generationConfig.candidateCount", "generationConfig.maxOutputTokens",
        "generationConfig.responseJsonSchema", "generationConfig.responseMimeType",
        "generationConfig.responseSchema", "generationConfig.seed", "generationConfig.stopSequences",
        "generationConfig.temperature", "generationConfig.topP", "serviceTier", "systemInstruction", "tools",
    }
)  # fmt: skip
_FINISH: Mapping[str, Finish] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "IMAGE_SAFETY": "refusal",
    "MODEL_ARMOR": "refusal",
    "ESCALATION": "refusal",
}
_KNOWN_IN_CANDIDATE = frozenset(
    {"content", "finishMessage", "finishReason", "index", "safetyRatings", "tokenCount"}
)
_KNOWN = frozenset(
    {
        "candidates",
        "createTime",
        "modelStatus",
        "modelVersion",
        "promptFeedback",
        "responseId",
        "usageMetadata",
    }
)
_RESPONSE_ID = re.compile(rb'"responseId"\s*:\s*"([^"\\]{1,200})"')
_UNNAMED = "unnamed-"
"""Begins the ids of calls that came without one."""


def generate_body(call: Call) -> bytes:
    """The body of the request. What comes first from the system is the instruction; the model's own role is `model`."""
    request = call.request
    settings = quirks.settings_of(request, quirks.family_of("gemini", model_name(request.model)))
    first = next((n for n, message in enumerate(request.messages) if message.role != "system"), 0)
    config: Body = {"maxOutputTokens": request.max_tokens, "seed": seed_of(call)}
    if settings.temperature is not None:
        config["temperature"] = settings.temperature
    if settings.top_p is not None:
        config["topP"] = settings.top_p
    if settings.stop:
        config["stopSequences"] = list(settings.stop)
    if settings.effort is not None:
        config["thinkingConfig"] = {"thinkingLevel": settings.effort.upper()}
    if request.schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.schema
    body: Body = {"contents": _contents(request.messages[first:]), "generationConfig": config}
    if first:
        text = "\n\n".join(message.text for message in request.messages[:first])
        body["systemInstruction"] = {"role": "user", "parts": [{"text": text}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    return encoded(body, call, _OURS)


def response_id(body: bytes) -> str:
    """The provider's own name for a reply; empty if it gives none."""
    found = _RESPONSE_ID.search(body)
    return found[1].decode("utf-8", "replace") if found else ""


class Gemini(HttpAccount):
    """One account at the Gemini Developer API. The base URL ends in the version: `/v1`, or `/v1beta`."""

    def url_of(self, call: Call) -> str:
        return f"{self._base_url}/models/{quote(model_name(call.request.model), safe='')}:generateContent"

    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        return {"x-goog-api-key": secret.reveal()} if secret else {}

    def checked(self, raw: RawReply, call: Call, keys: Keys) -> RawReply:
        raw = super().checked(raw, call, keys)
        return raw if raw.request_id else msgspec.structs.replace(raw, request_id=response_id(raw.body))

    def prepare(self, call: Call) -> bytes:
        return generate_body(call)

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            usage = _BILL.decode(raw.body).usage
        except READ_ERRORS:
            return None
        if usage is None:
            return None
        tokens_in = usage.prompt + usage.tool_use
        return Usage(
            tokens_in=tokens_in,
            # Thinking is billed as output, and counted beside the candidates.
            tokens_out=max(usage.candidates + usage.thoughts, usage.total - tokens_in),
            tokens_cached=usage.cached,
            tokens_reasoning=usage.thoughts,
        )

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            reply = _REPLY.decode(raw.body)
            extras = _extras(raw.body)
        except READ_ERRORS as error:
            kind = raw.headers.get("content-type", "unknown type")
            raise ReplyUnreadable(f"{self.name} sent no generated content ({kind}): {error}") from error
        settings = quirks.settings_of(request, quirks.family_of("gemini", model_name(request.model)))
        if not reply.candidates:
            if reply.feedback is None or not reply.feedback.reason:
                problem = self._keys.hide_in(problem_in(raw.body).message)[:LONGEST_MESSAGE]
                raise ReplyUnreadable(
                    f"{self.name} sent an empty reply: {problem or 'it holds no candidate'}"
                )
            return Parsed(
                text=reply.feedback.message or "",
                finish="refusal",
                model=reply.model or "",
                seed="sent",
                dropped=settings.dropped,
            )
        candidate = reply.candidates[0]
        parts = (candidate.content.parts if candidate.content else None) or []
        text = "".join(part.text or "" for part in parts if not part.thought)
        calls = _calls(parts)
        finish = _FINISH.get(candidate.finish or "", "other")
        if calls and finish == "stop":
            finish = "tool"
        return Parsed(
            text=text,
            finish=finish,
            model=reply.model or "",
            data=data_of(text, finish, request),
            tool_calls=calls,
            extras=extras,
            seed="sent",
            dropped=settings.dropped,
        )


class _Usage(msgspec.Struct):
    prompt: int = msgspec.field(default=0, name="promptTokenCount")
    tool_use: int = msgspec.field(default=0, name="toolUsePromptTokenCount")
    cached: int = msgspec.field(default=0, name="cachedContentTokenCount")
    candidates: int = msgspec.field(default=0, name="candidatesTokenCount")
    thoughts: int = msgspec.field(default=0, name="thoughtsTokenCount")
    total: int = msgspec.field(default=0, name="totalTokenCount")


class _Wish(msgspec.Struct):
    name: str = ""
    args: dict[str, object] | None = None
    id: str | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = False
    function_call: _Wish | None = None
    thought_signature: str | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finish: str | None = msgspec.field(default=None, name="finishReason")


class _Feedback(msgspec.Struct):
    reason: str | None = msgspec.field(default=None, name="blockReason")
    message: str | None = msgspec.field(default=None, name="blockReasonMessage")


class _Reply(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    model: str | None = msgspec.field(default="", name="modelVersion")
    feedback: _Feedback | None = msgspec.field(default=None, name="promptFeedback")


class _Bill(msgspec.Struct):
    usage: _Usage | None = msgspec.field(default=None, name="usageMetadata")


_REPLY = msgspec.json.Decoder(_Reply)
_BILL = msgspec.json.Decoder(_Bill)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CANDIDATES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)


def _extras(body: bytes) -> dict[str, object]:
    """What came beside the protocol, such as log-probabilities and the sources of a search."""
    fields = _FIELDS.decode(body)
    candidates = _CANDIDATES.decode(fields["candidates"]) if "candidates" in fields else None
    inner = extras_in(candidates[0], _KNOWN_IN_CANDIDATE) if candidates else {}
    return {**extras_in(fields, _KNOWN), **inner}


def _calls(parts: list[_Part]) -> tuple[ToolCall, ...]:
    """The wishes for tools, each with the signature that has to come back with it."""
    calls: list[ToolCall] = []
    for part in parts:
        wish = part.function_call
        if wish is not None:
            signature = part.thought_signature
            carry = msgspec.json.encode({"thoughtSignature": signature}).decode() if signature else ""
            id_ = wish.id or f"{_UNNAMED}{len(calls)}"
            calls.append(ToolCall(id=id_, name=wish.name, arguments=wish.args or {}, carry=carry))
    return tuple(calls)


def _contents(messages: tuple[Message, ...]) -> list[Body]:
    """The messages; what came of several tools is one message, as the API wants it."""
    contents: list[Body] = []
    results: list[Body] = []
    tools: dict[str, str] = {}
    for message in messages:
        if message.answers:
            if not results:
                contents.append({"role": "user", "parts": results})
            results.append({"functionResponse": _result(message, tools.get(message.answers, ""))})
            continue
        results = []
        tools.update({wish.id: wish.name for wish in message.tool_calls})
        role = "model" if message.role == "assistant" else "user"
        contents.append(
            {"role": role, "parts": _parts(message) if message.tool_calls else [{"text": message.text}]}
        )
    return contents


def _parts(message: Message) -> list[Body]:
    parts: list[Body] = [{"text": message.text}] if message.text else []
    for wish in message.tool_calls:
        called: Body = {"name": wish.name, "args": wish.arguments}
        if not wish.id.startswith(_UNNAMED):
            called["id"] = wish.id
        part: Body = {"functionCall": called}
        carried: Body = msgspec.json.decode(wish.carry or "{}")
        if signature := carried.get("thoughtSignature"):
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _result(message: Message, tool: str) -> Body:
    """What came of a tool: an object as it is, anything else as its output."""
    try:
        decoded = cast("object", msgspec.json.decode(message.text))
    except (*READ_ERRORS, UnicodeEncodeError):
        decoded = message.text
    result: Body = {
        "name": tool,
        "response": decoded if isinstance(decoded, dict) else {"output": message.text},
    }
    if not message.answers.startswith(_UNNAMED):
        result["id"] = message.answers
    return result


def _tool(tool: Tool) -> Body:
    made: Body = {"name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if tool.parameters:
        made["parametersJsonSchema"] = tool.parameters
    return made
