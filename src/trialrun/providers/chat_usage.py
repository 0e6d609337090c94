"""What a chat completion says of its tokens and of what it cost. It is read apart from the reply: neither may spoil the
other."""

import re
from decimal import Decimal
from typing import Literal

import msgspec

from trialrun.core.calls import Usage

Bill = Literal["usd", "ticks"]
"""`cost` in USD, as OpenRouter says it, or `cost_in_usd_ticks`, as xAI does: what was charged, discounts and all."""

TICKS_A_USD = Decimal(10**10)


def usage_in(body: bytes, bill: Bill | None) -> Usage | None:
    """The usage of a reply; None if it tells none. Raises what decoding raises."""
    usage = _BILL.decode(body).usage
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        tokens_in=usage.prompt_tokens,
        # Some servers count reasoning beside the completion and only the total says so.
        tokens_out=max(usage.completion_tokens, usage.total_tokens - usage.prompt_tokens),
        tokens_cached=(prompt.cached_tokens if prompt else None) or usage.prompt_cache_hit_tokens or 0,
        tokens_cache_write=(prompt.cache_write_tokens if prompt else None) or 0,
        tokens_reasoning=(completion.reasoning_tokens if completion else None) or 0,
        billed_usd=_billed_usd(usage, bill) if bill else None,
    )


_ABSENT = msgspec.Raw(b"null")
_NUMBER = re.compile(rb"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
"""Nothing that is longer, or has more zeros, is an amount of money."""


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _CostDetails(msgspec.Struct):
    upstream_inference_cost: msgspec.Raw = _ABSENT


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = 0
    # As they stand there: a number that is none, or a field that means something else elsewhere, costs us no tokens.
    cost: msgspec.Raw = _ABSENT
    cost_details: msgspec.Raw = _ABSENT
    cost_in_usd_ticks: msgspec.Raw = _ABSENT
    is_byok: msgspec.Raw = _ABSENT


class _Bill(msgspec.Struct):
    usage: _Usage | None = None


_BILL = msgspec.json.Decoder(_Bill)
_DETAILS = msgspec.json.Decoder(_CostDetails | None)


def _billed_usd(usage: _Usage, bill: Bill) -> Decimal | None:
    if bill == "ticks":
        ticks = _amount(usage.cost_in_usd_ticks)
        return None if ticks is None else ticks / TICKS_A_USD
    cost = _amount(usage.cost)
    if cost is None or bytes(usage.is_byok) != b"true":
        return cost
    # With a key of the user's own at the model's maker, `cost` is the fee alone.
    try:
        details = _DETAILS.decode(usage.cost_details)
    except msgspec.ValidationError:
        return None
    upstream = _amount(details.upstream_inference_cost) if details else None
    return None if upstream is None else cost + upstream


def _amount(value: msgspec.Raw) -> Decimal | None:
    """A number as it was written; None for anything else."""
    text = bytes(value)
    return Decimal(text.decode()) if _NUMBER.fullmatch(text) else None
