"""The protocols of the providers as a far end speaks them: where requests come, and what goes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ANSWER = "It was fine, you said: "
STRUCTURED = '{"label": "yes", "reason": "It was said."}'
CUT = '{"label": "ye'

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One protocol."""

    path: str
    reply: Callable[[Body, str, bool], Body]
    """From a request's body, a text, and whether it was cut, to the body of the reply."""
    asked: Callable[[Body], str]
    """The last message of a request."""
    wants_data: Callable[[Body], bool]
    problem: Callable[[int, str, str], Body]
    codes: Mapping[str, str]
    """What the provider calls a fault, where it does not call it as OpenAI does."""
    headers: Mapping[str, str]


def tokens(text: str) -> int:
    return max(1, len(text) // 4)


def _chat(body: Body, text: str, cut: bool) -> Body:
    tokens_in = sum(tokens(str(message["content"])) for message in body["messages"])
    choice = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": f"{body['model']}-2025-01-01",
        "choices": [{"index": 0, "message": choice, "finish_reason": "length" if cut else "stop"}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens(text),
            "total_tokens": tokens_in + tokens(text),
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def _responses(body: Body, text: str, cut: bool) -> Body:
    tokens_in = sum(tokens(str(item.get("content", ""))) for item in body["input"])
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if cut else "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": body["model"],
        "output": [{"id": "rs_1", "type": "reasoning", "summary": []}, message],
        "usage": {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": tokens(text),
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": tokens_in + tokens(text),
        },
    }


def _anthropic(body: Body, text: str, cut: bool) -> Body:
    tokens_in = sum(tokens(str(message["content"])) for message in body["messages"])
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "max_tokens" if cut else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens_in,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
            "output_tokens": tokens(text),
        },
    }


def _gemini(body: Body, text: str, cut: bool) -> Body:
    tokens_in = sum(tokens(content["parts"][0]["text"]) for content in body["contents"])
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": text}]},
                "finishReason": "MAX_TOKENS" if cut else "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": tokens_in,
            "candidatesTokenCount": tokens(text) - 1,
            "thoughtsTokenCount": 1,
            "cachedContentTokenCount": 2,
            "totalTokenCount": tokens_in + tokens(text),
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "resp-7",
    }


def _openai_problem(status: int, code: str, message: str) -> Body:
    return {"error": {"message": message, "type": "some_error", "code": code, "param": None}}


def _anthropic_problem(status: int, code: str, message: str) -> Body:
    return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}


def _google_problem(status: int, code: str, message: str) -> Body:
    error: Body = {"code": status, "message": message, "status": code}
    if code == "RESOURCE_EXHAUSTED-PerDay":
        error["status"] = "RESOURCE_EXHAUSTED"
        violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
        error["details"] = [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "35640s"},
        ]
    return {"error": error}


CHAT = Wire(
    path="/v1/chat/completions",
    reply=_chat,
    asked=lambda body: str(body["messages"][-1]["content"]),
    wants_data=lambda body: "response_format" in body,
    problem=_openai_problem,
    codes={},
    headers={"x-ratelimit-remaining-requests": "99", "x-request-id": "req-1"},
)
RESPONSES = Wire(
    path="/v1/responses",
    reply=_responses,
    asked=lambda body: str(body["input"][-1]["content"]),
    wants_data=lambda body: "text" in body,
    problem=_openai_problem,
    codes={},
    headers={"x-ratelimit-remaining-requests": "99", "x-request-id": "req-1"},
)
ANTHROPIC = Wire(
    path="/v1/messages",
    reply=_anthropic,
    asked=lambda body: str(body["messages"][-1]["content"]),
    wants_data=lambda body: "format" in body.get("output_config", {}),
    problem=_anthropic_problem,
    codes={
        "rate_limit_exceeded": "rate_limit_error",
        "insufficient_quota": "billing_error",
        "server_error": "api_error",
        "invalid_api_key": "authentication_error",
        "permission_denied": "permission_error",
        "model_not_found": "not_found_error",
    },
    headers={"anthropic-ratelimit-requests-remaining": "99", "request-id": "req-1"},
)
GEMINI = Wire(
    path="/{rest:.*}",
    reply=_gemini,
    asked=lambda body: str(body["contents"][-1]["parts"][0]["text"]),
    wants_data=lambda body: "responseJsonSchema" in body["generationConfig"],
    problem=_google_problem,
    codes={
        "rate_limit_exceeded": "RESOURCE_EXHAUSTED",
        "insufficient_quota": "RESOURCE_EXHAUSTED-PerDay",
        "server_error": "INTERNAL",
        "overloaded_error": "UNAVAILABLE",
        "invalid_api_key": "UNAUTHENTICATED",
        "permission_denied": "PERMISSION_DENIED",
        "invalid_request_error": "INVALID_ARGUMENT",
        "model_not_found": "NOT_FOUND",
    },
    headers={},
)
