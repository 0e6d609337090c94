"""What a status other than 200 means: for the call, for the whole run, or for the trial as an outcome.

The providers say it in different shapes and under different statuses; what they say is data here, in four tables.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from trialrun.core.calls import RawReply
from trialrun.core.errors import (
    AuthRefused,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.providers.limits import bounded, retry_after_s, window_s

LONGEST_MESSAGE = 500

QUOTA_CODES = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "contract_spend_limit_reached",
        "credit_balance_exhausted",
        "credit_balance_too_low",
        "enforced_spend_limit_reached",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_quota",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
        "quota_exceeded",
        # OpenRouter, as the source of a limit
        "openrouter_guardrail_budget",
        "openrouter_key_limit",
        "openrouter_workspace_budget",
        # xAI
        "personal-team-blocked:spending-limit",
    }
)
"""Money or a limit of the account, under whatever status: no call will go through until a person does something."""

QUOTA_WORDS = (
    "credit balance is too low",
    "free-models-per-day",
    "key limit exceeded",
    "monthly spending limit",
    "prepayment credits are depleted",
    "run out of credits",
    "spending cap",
    "used all available credits",
    "workspace api usage limits",
    "your specified api usage limits",
)
"""The same, where only the words say it."""

PASSING_CODES = frozenset({"openrouter_in_flight_budget"})
"""Money of calls that are under way: there is room again as soon as they are settled."""

AUTH_CODES = frozenset(
    {
        "API_KEY_EXPIRED",
        "API_KEY_INVALID",
        "API_KEY_SERVICE_BLOCKED",
        "FAILED_PRECONDITION",
        "organization_on_hold",
    }
)
"""A key or an account that is not let in, under status 400."""

AUTH_WORDS = ("incorrect api key provided",)
"""The same, where only the words say it."""

POLICY_CODES = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "cyber_policy",
        "invalid_prompt",
        "moderation",
    }
)
"""The provider declined what the prompt asks for: an outcome of the trial, and no failure of the call."""

POLICY_WORDS = ("content violates usage guidelines",)
"""The same, where only the words say it. xAI asks a fee for some of these: what they cost, nobody can know."""

_DAILY = "PerDay"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error body as read."""

    codes: frozenset[str] = frozenset()
    message: str = ""
    quotas: tuple[str, ...] = ()
    """Google: the names of the quotas that are used up."""
    retry_after_s: float | None = None


def problem_in(body: bytes) -> Problem:
    """What an error body says; its shapes differ, and some are not JSON at all."""
    decoded: object
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Problem(message=body[:LONGEST_MESSAGE].decode("utf-8", "replace").strip())
    if isinstance(decoded, list):
        decoded = next(iter(cast("list[object]", decoded)), None)
    outer = _mapping(decoded)
    error = outer.get("error") or decoded
    fields = _mapping(error)
    if not fields:
        code = outer.get("code")
        return Problem(codes=frozenset({code} if isinstance(code, str) else ()), message=str(error or ""))
    details = list(_details(fields.get("details")))
    codes = {
        value
        for source in (fields, *details)
        for name in ("code", "type", "status", "reason", "error_code")
        if isinstance(value := source.get(name), str)
    }
    metadata = _mapping(fields.get("metadata"))
    if isinstance(source := metadata.get("limit_source"), str):
        codes.add(source)
    if metadata.get("reasons") and "flagged_input" in metadata:
        codes.add("moderation")
    quotas = [
        str(violation.get("quotaId", ""))
        for detail in details
        for violation in _details(detail.get("violations"))
    ]
    return Problem(
        codes=frozenset(codes),
        message=str(fields.get("message") or fields.get("detail") or outer.get("message") or ""),
        quotas=tuple(quotas),
        retry_after_s=next((wait for detail in details if (wait := _delay_s(detail)) is not None), None),
    )


def is_policy(raw: RawReply) -> bool:
    """Whether the provider declined the prompt before any model ran. The reply is then read like any other."""
    return raw.status in (400, 403) and policy_text(raw.body) is not None


def policy_text(body: bytes) -> str | None:
    """Why the provider declined, from the body of such a reply; None if it is another body."""
    problem = problem_in(body)
    is_told = not problem.codes.isdisjoint(POLICY_CODES) or _says(problem, POLICY_WORDS)
    return problem.message if is_told else None


def is_free_policy(body: bytes) -> bool:
    """Whether the provider declined, and asks nothing for it."""
    return not problem_in(body).codes.isdisjoint(POLICY_CODES)


def error_of(
    raw: RawReply, problem: Problem, *, name: str, message: str, model: str, place: str, key_name: str
) -> TrialrunError:
    """The error for this status. `message` is the provider's own word, fit to be shown."""
    status = raw.status
    what = f"{name} answered {status}" + (f": {message}" if message else "")
    if is_quota(status, problem):
        return QuotaExhausted(
            what, where=model, fix=f"raise the limit of the account at {name}, or wait for its reset"
        )
    if status == 429 or is_passing(problem):
        return Throttled(what, retry_after_s=_wait_s(raw, problem), status=status)
    if status in (401, 403) or (
        status == 400 and (not problem.codes.isdisjoint(AUTH_CODES) or _says(problem, AUTH_WORDS))
    ):
        return AuthRefused(what, where=model, fix=f"check {key_name}, and what its account may use")
    if status in (408, 409, 425, 499) or status >= 500:
        # 504 and 524 come from a proxy that gave up waiting: behind it the model may have run.
        billed = "unknown" if status in (504, 524) else "no"
        return Unavailable(what, billed=billed, status=status, retry_after_s=_wait_s(raw, problem))
    fix = "check the model's name and what it supports"
    if 300 <= status < 400:
        fix = "the server redirects: give its final address as the base URL"
    return RequestRefused(what, status=status, where=place, fix=fix)


def is_passing(problem: Problem) -> bool:
    """Whether it is a limit of money that waiting helps against."""
    return not problem.codes.isdisjoint(PASSING_CODES)


def is_quota(status: int, problem: Problem) -> bool:
    """Whether the account's own limit is reached, and not the pace of a minute."""
    if is_passing(problem):
        return False
    if status == 402:
        return True
    if status not in (400, 403, 412, 429):
        return False
    return (
        not problem.codes.isdisjoint(QUOTA_CODES)
        or _says(problem, QUOTA_WORDS)
        or any(_DAILY in quota for quota in problem.quotas)
    )


def _says(problem: Problem, known: tuple[str, ...]) -> bool:
    words = problem.message.lower()
    return any(one in words for one in known)


def _wait_s(raw: RawReply, problem: Problem) -> float | None:
    told = (retry_after_s(raw.headers), problem.retry_after_s, window_s(raw.headers))
    return next((seconds for seconds in told if seconds is not None), None)


def _delay_s(detail: Mapping[str, object]) -> float | None:
    """`retryDelay` of Google's RetryInfo: `46s`, `1.5s`."""
    delay = detail.get("retryDelay")
    if not isinstance(delay, str):
        return None
    try:
        return bounded(float(delay.removesuffix("s")))
    except ValueError:
        return None


def _details(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        yield from (_mapping(item) for item in cast("list[object]", value))
    elif value:
        yield _mapping(value)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
