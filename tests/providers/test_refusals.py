"""What providers say when they do not answer: each in its own words, told apart by what a study has to do."""

from typing import Any

import msgspec
import pytest

from tests.oracles.table import call_of
from trialrun.core.calls import RawReply
from trialrun.core.errors import (
    AuthRefused,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.gemini import Gemini
from trialrun.providers.keys import Keys
from trialrun.providers.openai_chat import OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses

THIS = call_of("plain", {"samples": "x/y"})


def openai(code: str | None, message: str = "x", type_: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def anthropic(type_: str, message: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type_, "message": message, **more}, "request_id": "r"}


def xai(code: str, words: str) -> dict[str, Any]:
    return {"code": code, "error": words}


def google(code: int, status: str, message: str = "x", *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(name: str) -> dict[str, Any]:
    violation = {"quotaMetric": "generate_content_free_tier_requests", "quotaId": name, "quotaValue": "5"}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def wait(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def info(reason: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}


MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
TOO_LOW = "Your credit balance is too low to access the Anthropic API."
OVER = "You have reached your specified API usage limits. You will regain access on 2026-12-01."

SPENT = "Your team has either used all available credits or reached its monthly spending limit."
SUSPENDED = "Account lab is suspended, possibly due to reaching the monthly spending limit or failure to pay."
FREE = "Rate limit exceeded: free-models-per-{}."

CASES: list[tuple[int, dict[str, Any], type[TrialrunError]]] = [
    (401, openai("invalid_api_key"), AuthRefused),
    (403, openai("unsupported_country_region_territory"), AuthRefused),
    (404, openai("model_not_found"), RequestRefused),
    (429, openai("rate_limit_exceeded", type_="requests"), Throttled),
    (429, openai("slow_down"), Throttled),
    (429, openai("insufficient_quota", type_="insufficient_quota"), QuotaExhausted),
    (429, openai("credit_balance_exhausted", type_="insufficient_quota"), QuotaExhausted),
    (429, openai("project_spend_limit_exceeded", type_="insufficient_quota"), QuotaExhausted),
    (429, openai(None, type_="insufficient_quota"), QuotaExhausted),
    (402, {"error": {"message": "Insufficient credits", "code": 402}}, QuotaExhausted),
    (500, openai(None, type_="server_error"), Unavailable),
    (503, openai(None, "The engine is currently overloaded"), Unavailable),
    (400, openai("context_length_exceeded"), RequestRefused),
    (400, anthropic("invalid_request_error", "max_tokens: too large"), RequestRefused),
    (400, anthropic("invalid_request_error", TOO_LOW), QuotaExhausted),
    (400, anthropic("invalid_request_error", OVER), QuotaExhausted),
    (
        400,
        anthropic("invalid_request_error", details={"error_code": "organization_on_hold"}),
        AuthRefused,
    ),
    (401, anthropic("authentication_error"), AuthRefused),
    (402, anthropic("billing_error"), QuotaExhausted),
    (403, anthropic("permission_error"), AuthRefused),
    (404, anthropic("not_found_error"), RequestRefused),
    (409, anthropic("conflict_error"), Unavailable),
    (413, anthropic("request_too_large"), RequestRefused),
    (429, anthropic("rate_limit_error"), Throttled),
    (429, anthropic("rate_limit_error", details={"error_code": "ramp_limit_exceeded"}), Throttled),
    (
        429,
        anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        QuotaExhausted,
    ),
    (500, anthropic("api_error"), Unavailable),
    (504, anthropic("timeout_error"), Unavailable),
    (529, anthropic("overloaded_error"), Unavailable),
    (400, google(400, "INVALID_ARGUMENT"), RequestRefused),
    (400, google(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID")), AuthRefused),
    (400, google(400, "FAILED_PRECONDITION", "User location is not supported"), AuthRefused),
    (402, google(402, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), QuotaExhausted),
    (403, google(403, "PERMISSION_DENIED"), AuthRefused),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(MINUTE), wait("46s")), Throttled),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(DAY), wait("35640s")), QuotaExhausted),
    (429, google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."), Throttled),
    (499, google(499, "CANCELLED"), Unavailable),
    (500, google(500, "INTERNAL"), Unavailable),
    (503, google(503, "UNAVAILABLE"), Unavailable),
    (504, google(504, "DEADLINE_EXCEEDED"), Unavailable),
    (400, xai("Client specified an invalid argument", "Incorrect API key provided: xa***ab."), AuthRefused),
    (403, xai("The caller does not have permission", SPENT), QuotaExhausted),
    (403, xai("permission-denied", "Access to the chat endpoint is denied."), AuthRefused),
    (429, xai("Some resource has been exhausted", SPENT), QuotaExhausted),
    (429, xai("Some resource has been exhausted", "Too many requests for team."), Throttled),
    (412, openai("PRECONDITION_FAILED", SUSPENDED, type_="error"), QuotaExhausted),
    (412, openai("PRECONDITION_FAILED", "The deployment is scaled to zero.", type_="error"), RequestRefused),
    (429, {"error": {"message": FREE.format("day"), "code": 429}}, QuotaExhausted),
    (429, {"error": {"message": FREE.format("min"), "code": 429}}, Throttled),
]


BUDGET = "Your running requests already fill your spending budget."
CASES.extend(
    [
        (402, {"error": {"message": BUDGET, "code": 402, "metadata": {"limit_source": source}}}, kind)
        for source, kind in (
            ("openrouter_in_flight_budget", Throttled),
            ("openrouter_credits", QuotaExhausted),
        )
    ]
)
CASES.extend(
    [
        (
            403,
            {
                "error": {
                    "message": "Budget limit exceeded",
                    "code": 403,
                    "metadata": {"limit_source": source},
                }
            },
            kind,
        )
        for source, kind in (
            ("openrouter_key_limit", QuotaExhausted),
            ("openrouter_guardrail_budget", QuotaExhausted),
            ("openrouter_workspace_budget", QuotaExhausted),
            ("somewhere", AuthRefused),
        )
    ]
)
OUT = "You have run out of credits or need a subscription."
CASES.extend(
    [
        (403, {"error": {"message": "Key limit exceeded (total limit).", "code": 403}}, QuotaExhausted),
        (403, xai("permission-denied", OUT), QuotaExhausted),
        (403, xai("personal-team-blocked:spending-limit", "x"), QuotaExhausted),
        (429, openai("organization_usage_limit_exceeded", type_="insufficient_quota"), QuotaExhausted),
    ]
)


def error_for(status: int, body: object, headers: dict[str, str] | None = None) -> TrialrunError:
    raw = RawReply(body=msgspec.json.encode(body), status=status, headers=headers or {})
    with pytest.raises(TrialrunError) as caught:
        OpenAIChat("openai", base_url="http://x").checked(raw, THIS, Keys())
    return caught.value


@pytest.mark.parametrize(("status", "body", "kind"), CASES)
def test_a_refusal_is_what_it_says(status: int, body: dict[str, Any], kind: type[TrialrunError]) -> None:
    error = error_for(status, body)
    assert type(error) is kind
    if isinstance(error, Unavailable):
        assert error.billed == ("unknown" if status == 504 else "no")
    # Google wraps what its older doors say into a list.
    assert type(error_for(status, [body])) is kind


def test_a_wait_is_taken_from_the_header_or_from_the_body() -> None:
    asked = google(429, "RESOURCE_EXHAUSTED", "x", quota(MINUTE), wait("46.5s"))
    for headers, seconds in (({}, 46.5), ({"retry-after": "3"}, 3.0)):
        error = error_for(429, asked, headers)
        assert isinstance(error, Throttled)
        assert error.retry_after_s == seconds
    error = error_for(429, google(429, "RESOURCE_EXHAUSTED", "x", wait("soon")))
    assert isinstance(error, Throttled)
    assert error.retry_after_s is None


@pytest.mark.parametrize(
    ("adapter", "status", "body"),
    [
        (OpenAIChat, 400, openai("content_filter", "Your prompt was filtered.")),
        (OpenAIChat, 400, openai("content_policy_violation", "Your prompt was filtered.")),
        (
            OpenAIChat,
            403,
            {
                "error": {
                    "code": 403,
                    "message": "Your prompt was filtered.",
                    "metadata": {"reasons": ["violence"], "flagged_input": "…"},
                }
            },
        ),
        (OpenAIResponses, 400, openai("invalid_prompt", "Your prompt was filtered.")),
        (
            OpenAIResponses,
            200,
            {
                "status": "failed",
                "output": [],
                "error": {"code": "bio_policy", "message": "Your prompt was filtered."},
            },
        ),
    ],
)
def test_a_declined_prompt_is_an_outcome_that_cost_nothing(
    adapter: Any, status: int, body: dict[str, Any]
) -> None:
    ours = adapter("openai", base_url="http://x")
    raw = ours.checked(RawReply(body=msgspec.json.encode(body), status=status), THIS, Keys())
    parsed, usage = ours.parse(raw, THIS.request), ours.meter(raw)
    assert (parsed.text, parsed.finish, parsed.data) == ("Your prompt was filtered.", "refusal", None)
    assert (usage.tokens_in, usage.tokens_out) == (0, 0)


def test_where_a_declined_prompt_may_cost_a_fee_its_cost_is_unknown() -> None:
    words = "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"
    body = msgspec.json.encode(xai("The caller does not have permission", words))
    ours = OpenAIChat("xai", base_url="http://x")
    raw = ours.checked(RawReply(body=body, status=403), THIS, Keys())
    parsed = ours.parse(raw, THIS.request)
    assert (parsed.text, parsed.finish) == (words, "refusal")
    assert ours.meter(raw) is None


@pytest.mark.parametrize("adapter", [OpenAIChat, OpenAIResponses, Anthropic, Gemini])
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"3", b'"no"', b"\xff\xfe", b"[" * 5000, b'{"error": 3}']
)
def test_an_error_body_of_any_kind_is_read(adapter: Any, body: bytes) -> None:
    ours = adapter("x", base_url="http://x")
    with pytest.raises(RequestRefused):
        ours.checked(RawReply(body=body, status=418), THIS, Keys())
