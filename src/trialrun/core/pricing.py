"""What a call costs, and the most that it can cost.

I4. The ceiling is a true upper bound: an input token is at least one byte, a chat template adds at most a fixed number
    of tokens for each message, and the output (reasoning included) is bounded by the limit that is always sent.
"""

from decimal import Decimal

from trialrun.core.calls import Request, Usage
from trialrun.core.study import Price

TEMPLATE_TOKENS = 64
"""Begin, end and role marks of a chat template, and what a provider adds of its own, for the request as a whole."""
TEMPLATE_TOKENS_PER_MESSAGE = 16
TEMPLATE_TOKENS_OF_FORMS = 1024
"""What providers say to a model about tools, or about the form of a structured reply, beside their description."""

_MILLION = Decimal(1_000_000)
_ZERO = Decimal(0)
_MOST_TOKENS = 10**12
_MOST_USD = 10**6


def most_tokens_in(request: Request) -> int:
    """More input tokens than this are impossible."""
    forms = TEMPLATE_TOKENS_OF_FORMS if request.tools or request.schema else 0
    return request.size_bytes + TEMPLATE_TOKENS + forms + TEMPLATE_TOKENS_PER_MESSAGE * len(request.messages)


def ceiling_usd(request: Request, price: Price) -> Decimal:
    """More than this the call cannot cost."""
    tokens_in = most_tokens_in(request)
    within_reach = [price, *(rates for above, rates in price.tiers if tokens_in > above)]
    return max(_most_usd(tokens_in, request.max_tokens, rates) for rates in within_reach)


def is_possible(usage: Usage) -> bool:
    """Whether so much can be meant: a count or a charge below zero, or beyond all models, is the provider's fault."""
    counts = (
        usage.tokens_in,
        usage.tokens_out,
        usage.tokens_cached,
        usage.tokens_cache_write,
        usage.tokens_reasoning,
    )
    billed_usd = usage.billed_usd or _ZERO
    return min(counts) >= 0 and max(counts) < _MOST_TOKENS and 0 <= billed_usd < _MOST_USD


def paid_usd(usage: Usage, price: Price | None) -> Decimal | None:
    """What was paid for a reply: what the provider says that it charges, else its tokens at this price; None if nobody
    knows."""
    if usage.billed_usd is not None:
        return usage.billed_usd
    return cost_usd(usage, price) if price else None


def cost_usd(usage: Usage, price: Price) -> Decimal:
    """What this usage costs at this price. Cached tokens without a rate of their own count as fresh ones, and reasoning
    without one as any other output."""
    for above, rates in price.tiers:
        if usage.tokens_in > above:
            price = rates
    cached_rate = price.input if price.cached_input is None else price.cached_input
    write_rate = price.input if price.cache_write is None else price.cache_write
    reasoning_rate = price.output if price.reasoning is None else price.reasoning
    reasoned = min(usage.tokens_reasoning, usage.tokens_out)
    fresh = max(0, usage.tokens_in - usage.tokens_cached - usage.tokens_cache_write)
    total = (
        fresh * price.input
        + usage.tokens_cached * cached_rate
        + usage.tokens_cache_write * write_rate
        + reasoned * reasoning_rate
        + (usage.tokens_out - reasoned) * price.output
    )
    return total / _MILLION


def _most_usd(tokens_in: int, tokens_out: int, price: Price) -> Decimal:
    dearest_in = max(price.input, price.cached_input or _ZERO, price.cache_write or _ZERO)
    dearest_out = max(price.output, price.reasoning or _ZERO)
    return (tokens_in * dearest_in + tokens_out * dearest_out) / _MILLION
