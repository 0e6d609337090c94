"""What a request file may cost in a batch, and what its answers did cost.

P1. The most that it can cost is a true bound, and unknown where a line has no limit or nobody knows the price.
P2. The estimate reckons four bytes a token and answers of a usual length; it is a range, and not a bound.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from trialrun.compat.batch_files.lines import RequestLine
from trialrun.core.calls import Request, Usage
from trialrun.core.ports import PriceBook
from trialrun.core.pricing import ceiling_usd, cost_usd

_BYTES_PER_TOKEN = 4
_SHORT, _LONG = 100, 500
"""Tokens of an answer to a question of one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What requests may cost at the batch price. None is unknown."""

    requests: int
    low_usd: Decimal | None
    high_usd: Decimal | None
    live_high_usd: Decimal | None
    """The high end at the live price, to compare."""
    ceiling_usd: Decimal | None
    """More than this they cannot cost."""
    why_unknown: str = ""


def estimate(lines: Iterable[RequestLine], model: str, prices: PriceBook) -> Estimate:
    """The range for these requests, all to one model."""
    found = list(lines)
    batch, live = prices.batch_price_of(model), prices.price_of(model)
    if batch is None or live is None:
        return Estimate(
            requests=len(found), low_usd=None, high_usd=None, live_high_usd=None, ceiling_usd=None,
            why_unknown=f"no price of `{model}` is known",
        )  # fmt: skip
    low = high = dear = most = Decimal(0)
    is_bounded = True
    for line in found:
        request = Request(model=model, messages=line.talk, max_tokens=line.max_tokens or _LONG)
        tokens_in = request.size_bytes // _BYTES_PER_TOKEN + 8
        limit = line.max_tokens or _LONG
        low += cost_usd(Usage(tokens_in=tokens_in, tokens_out=min(_SHORT, limit)), batch)
        usual = Usage(tokens_in=tokens_in, tokens_out=min(_LONG, limit))
        high += cost_usd(usual, batch)
        dear += cost_usd(usual, live)
        most += ceiling_usd(request, batch)
        is_bounded = is_bounded and line.max_tokens is not None
    return Estimate(
        requests=len(found),
        low_usd=low,
        high_usd=high,
        live_high_usd=dear,
        ceiling_usd=most if is_bounded else None,
        why_unknown="" if is_bounded else "the requests set no limit to the answers",
    )


def calculate_batch_cost(
    provider: str,
    model: str,
    num_requests: int,
    *,
    prices: PriceBook,
    tokens_in: int = 60,
    tokens_out: int = 300,
) -> Decimal | None:
    """What so many requests cost in a batch, at so many tokens each; None if nobody knows the price."""
    from trialrun.compat.batch_files.services import full_name

    price = prices.batch_price_of(full_name(provider, model))
    return (
        None
        if price is None
        else num_requests * cost_usd(Usage(tokens_in=tokens_in, tokens_out=tokens_out), price)
    )
