"""Gemini: `generateContent` of the Developer API and of Vertex AI, which differ in keys, paths and errors only."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from trialrun.core.calls import Message, Usage
from trialrun.testing.emulator.asked import Answer, Asked, Kind, Sent, Stamp, Tool, Trouble, refused
from trialrun.testing.emulator.dialect import Json, decoded, html, message_of, wait_headers
from trialrun.testing.emulator.limits import Standing

_PROBLEMS: Mapping[Kind, tuple[int, str, str]] = {
    "throttled": (429, "RESOURCE_EXHAUSTED", ""),
    "quota": (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "spend_limit": (
        429,
        "RESOURCE_EXHAUSTED",
        "Your project has exceeded its monthly spending cap. Please raise the cap to continue.",
    ),
    "billing": (400, "FAILED_PRECONDITION", "Please enable billing on your project in Google AI Studio."),
    "broken": (500, "INTERNAL", "An internal error has occurred. Please retry."),
    "unavailable": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "gateway_timeout": (504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
    "on_hold": (403, "PERMISSION_DENIED", "Consumer has been suspended."),
    "revoked": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "forbidden": (403, "PERMISSION_DENIED", "The caller does not have permission."),
    "unknown_model": (404, "NOT_FOUND", "models/{model} is not found for this API version."),
    "unknown_path": (404, "NOT_FOUND", "Requested entity was not found."),
    "unknown_object": (404, "NOT_FOUND", "Requested entity was not found."),
    "conflict": (400, "FAILED_PRECONDITION", "The operation is not in a state that allows this."),
    "refused": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "too_long": (
        400,
        "INVALID_ARGUMENT",
        "The input token count exceeds the maximum number of tokens allowed.",
    ),
    "too_large": (413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
}
_PAGES: Mapping[Kind, tuple[int, str]] = {
    "bad_gateway": (502, "502. That's an error."),
    "redirect": (302, "302 Moved"),
}
_TYPE = "type.googleapis.com/google.rpc."


class Google:
    """`POST …/models/{model}:generateContent`."""

    caches_by_marks = False
    content_field = "candidates"
    usage_field = "usageMetadata"

    def __init__(self, *, is_vertex: bool = False) -> None:
        self.is_vertex = is_vertex

    def key_in(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        bearer = headers.get("Authorization", "").removeprefix("Bearer ").strip()
        return (
            bearer if self.is_vertex else headers.get("x-goog-api-key", "") or query.get("key", "") or bearer
        )

    def read(self, body: bytes, *, provider: str, model: str) -> Asked:
        given = decoded(_REQUEST, _in_camel_case(body))
        config = given.generationConfig
        if not given.contents:
            raise refused("* GenerateContentRequest.contents: contents is not specified")
        system = _texts(given.systemInstruction.parts) if given.systemInstruction else ""
        messages = [Message("system", system)] if system else []
        messages += [message_of(content.role, _texts(content.parts)) for content in given.contents]
        thinking = config.thinkingConfig or {}
        budget = thinking.get("thinkingBudget")
        level = str(thinking.get("thinkingLevel") or "").lower()
        return Asked(
            given=given,
            provider=provider,
            model=model,
            messages=tuple(messages),
            max_tokens=config.maxOutputTokens,
            temperature=config.temperature,
            top_p=config.topP,
            stop=tuple(config.stopSequences or ()),
            schema=_schema_in(config),
            tool=_forced_tool(given),
            seed=config.seed,
            effort="none" if budget == 0 else level,
            count=config.candidateCount or 1,
        )

    def check(self, asked: Asked) -> None:
        if asked.temperature is not None and not 0 <= asked.temperature <= 2:
            raise refused(
                "* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0]."
            )
        given = cast("_Request", asked.given)
        if {content.role for content in given.contents} - {"user", "model", "function", ""}:
            raise refused("Please use a valid role: user, model.")
        config = given.generationConfig
        if (config.responseSchema or config.responseJsonSchema) and not config.responseMimeType:
            raise refused(
                "* GenerateContentRequest.generation_config.response_schema: "
                "only allowed when generation_config.response_mime_type is application/json"
            )

    def render(self, asked: Asked, answer: Answer, stamp: Stamp) -> Json:
        texts = (answer.text, *answer.more)
        reply: Json = {
            "candidates": [_candidate(asked, answer, text, number) for number, text in enumerate(texts)],
            "usageMetadata": _usage(answer.usage, is_vertex=self.is_vertex),
            "modelVersion": stamp.model,
            "responseId": stamp.id[:22],
        }
        return reply

    def headers(self, standings: Sequence[Standing], stamp: Stamp) -> dict[str, str]:
        # Google says nothing about limits before they are reached, and names no request.
        return {
            "server-timing": "gfet4t7; dur=1",
            "x-content-type-options": "nosniff",
            "server": "scaffolding on HTTPServer2",
        }

    def problem(self, trouble: Trouble, stamp: Stamp) -> Sent:
        headers = {} if trouble.wait_as == "header" else wait_headers(trouble, stamp.at)
        if trouble.kind in _PAGES:
            status, title = _PAGES[trouble.kind]
            where = {"location": "/__moved"} if trouble.kind == "redirect" else {}
            page = {"content-type": "text/html", **where, **headers}
            return Sent(status=trouble.status or status, body=html(title), headers=page)
        status, name, words = _PROBLEMS[trouble.kind]
        if trouble.kind == "revoked" and self.is_vertex:
            status, name, words = 401, "UNAUTHENTICATED", "Request had invalid authentication credentials."
        status = trouble.status or status
        message = trouble.message or words.format(model=trouble.model) or _too_many(trouble)
        error: Json = {"code": status, "message": message, "status": name}
        if details := _details(trouble, is_vertex=self.is_vertex):
            error["details"] = details
        return Sent(status=status, body=msgspec.json.encode({"error": error}), headers=headers)


def _in_camel_case(body: bytes) -> bytes:
    """Google reads `system_instruction` like `systemInstruction`, and its own SDK sends both kinds."""
    if not _SNAKE.search(body):
        return body
    try:
        return msgspec.json.encode(_renamed(cast("object", msgspec.json.decode(body))))
    except msgspec.DecodeError:
        return body


def _renamed(value: object) -> object:
    if isinstance(value, list):
        return [_renamed(part) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    renamed: Json = {}
    for name, part in cast("Json", value).items():
        first, *rest = name.split("_")
        camel = first + "".join(word.capitalize() for word in rest)
        renamed[camel] = part if camel in _OF_THE_USER else _renamed(part)
    return renamed


_SNAKE = re.compile(rb'"[a-z]+(_[a-z]+)+"\s*:')
_OF_THE_USER = frozenset(
    {"args", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "responseSchema"}
)
"""Below these, names are not Google's."""


def _details(trouble: Trouble, *, is_vertex: bool) -> list[Json]:
    """Which quota, and when to come again; Vertex keeps that to itself while it throttles."""
    details: list[Json] = []
    if trouble.kind == "revoked" and not is_vertex:
        info: Json = {"reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        details.append({"@type": f"{_TYPE}ErrorInfo", **info})
    is_used_up = trouble.kind in ("quota", "spend_limit")
    if is_used_up or (trouble.kind == "throttled" and not is_vertex):
        unit = "InputTokens" if trouble.limit == "tokens" else "Requests"
        per = "Day" if is_used_up else trouble.per.capitalize()
        service = "aiplatform" if is_vertex else "generativelanguage"
        violation: Json = {
            "quotaMetric": f"{service}.googleapis.com/generate_content_{trouble.limit}",
            "quotaId": f"Generate{unit}Per{per}PerProjectPerModel",
            "quotaDimensions": {"model": trouble.model, "location": "global"},
        }
        details.append({"@type": f"{_TYPE}QuotaFailure", "violations": [violation]})
    if trouble.wait_s is not None and trouble.wait_as == "header" and not is_vertex:
        seconds = f"{trouble.wait_s:.9f}".rstrip("0").rstrip(".")
        details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{seconds}s"})
    return details


def _candidate(asked: Asked, answer: Answer, text: str, number: int) -> Json:
    if answer.finish == "refusal":
        return {"finishReason": "SAFETY", "index": number, "safetyRatings": _UNSAFE}
    parts: list[Json] = [{"text": text}] if text else []
    if asked.tool is not None:
        try:
            arguments = cast("object", msgspec.json.decode(text))
        except msgspec.DecodeError:
            return {"finishReason": "MALFORMED_FUNCTION_CALL", "index": number}
        parts = [{"functionCall": {"name": asked.tool.name, "args": arguments}}]
    finish = {"length": "MAX_TOKENS", "other": "OTHER"}.get(answer.finish, "STOP")
    candidate: Json = {"content": {"role": "model"}, "finishReason": finish, "index": number}
    if parts:
        candidate["content"] = {"parts": parts, "role": "model"}
    return candidate


_UNSAFE: list[Json] = [
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True},
]


def _usage(usage: Usage, *, is_vertex: bool) -> Json:
    """Here the candidates do not include the thoughts."""
    counted: Json = {
        "promptTokenCount": usage.tokens_in,
        "candidatesTokenCount": usage.tokens_out - usage.tokens_reasoning,
        "totalTokenCount": usage.tokens_in + usage.tokens_out,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.tokens_in}],
    }
    if usage.tokens_reasoning:
        counted["thoughtsTokenCount"] = usage.tokens_reasoning
    if usage.tokens_cached:
        counted["cachedContentTokenCount"] = usage.tokens_cached
    if is_vertex:
        counted["trafficType"] = "ON_DEMAND"
    return counted


def _forced_tool(given: "_Request") -> Tool | None:
    config = cast("Json", (given.toolConfig or {}).get("functionCallingConfig") or {})
    if config.get("mode") != "ANY":
        return None
    declared = [
        cast("Json", function)
        for tool in given.tools or []
        for function in cast("list[object]", tool.get("functionDeclarations") or [])
    ]
    allowed = cast("list[str]", config.get("allowedFunctionNames") or [])
    found = next((each for each in declared if not allowed or each.get("name") in allowed), None)
    if found is None:
        raise refused("Function calling mode ANY needs a function declaration that is allowed.")
    schema = found.get("parametersJsonSchema") or json_schema(found.get("parameters"))
    return Tool(
        name=str(found.get("name", "")),
        schema=cast("Json", schema or {"type": "object", "properties": {}}),
    )


def _schema_in(config: "_Config") -> Json | None:
    if config.responseJsonSchema is not None:
        return config.responseJsonSchema
    if config.responseSchema is not None:
        return cast("Json", json_schema(config.responseSchema))
    return {"type": "object"} if config.responseMimeType == "application/json" else None


def json_schema(schema: object) -> object:
    """Google's own dialect of schemas as JSON Schema: types in capitals, `nullable`, an order of properties."""
    if isinstance(schema, list):
        return [json_schema(part) for part in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    rules = cast("Json", schema)
    plain: Json = {}
    for word, value in rules.items():
        match word:
            case "type":
                plain["type"] = value.lower() if isinstance(value, str) else value
            case "properties" if isinstance(value, dict):
                plain["properties"] = {name: json_schema(part) for name, part in cast("Json", value).items()}
            case "items" | "anyOf" | "additionalProperties":
                plain[word] = json_schema(value)
            case "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties":
                plain[word] = int(cast("str", value))  # a 64-bit number, and so a string on the wire
            case "propertyOrdering" | "nullable" | "example":
                pass
            case _:
                plain[word] = value
    if rules.get("nullable") and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    return plain


def _texts(parts: Sequence[Json]) -> str:
    """The text of all parts, calls of functions and their results included."""
    texts: list[str] = []
    for part in parts:
        if "text" in part:
            texts.append(str(part["text"]))
        elif function := part.get("functionCall") or part.get("functionResponse"):
            texts.append(msgspec.json.encode(function).decode())
    return "\n".join(texts)


def _too_many(trouble: Trouble) -> str:
    wait = f" Please retry in {trouble.wait_s:g}s." if trouble.wait_s is not None else ""
    return f"Quota exceeded for {trouble.limit} per {trouble.per}, model: {trouble.model}.{wait}"


# The wire's own names, in its own spelling.
class _Content(msgspec.Struct):
    parts: list[Json] = []
    role: str = "user"


class _Config(msgspec.Struct, frozen=True):
    maxOutputTokens: int | None = None  # noqa: N815
    temperature: float | None = None
    topP: float | None = None  # noqa: N815
    stopSequences: list[str] | None = None  # noqa: N815
    candidateCount: int | None = None  # noqa: N815
    seed: int | None = None
    responseMimeType: str | None = None  # noqa: N815
    responseSchema: Json | None = None  # noqa: N815
    responseJsonSchema: Json | None = None  # noqa: N815
    thinkingConfig: Json | None = None  # noqa: N815


class _Request(msgspec.Struct):
    contents: list[_Content]
    systemInstruction: _Content | None = None  # noqa: N815
    generationConfig: _Config = _Config()  # noqa: N815
    tools: list[Json] | None = None
    toolConfig: Json | None = None  # noqa: N815


_REQUEST = msgspec.json.Decoder(_Request)
