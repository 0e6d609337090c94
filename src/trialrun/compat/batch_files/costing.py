"""What batches cost, line by line: files that may be sent, numbers of requests, and batches that were paid."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from trialrun.compat.batch_files.pricing import calculate_batch_cost, estimate
from trialrun.compat.batch_files.sending import requests_in
from trialrun.compat.batch_files.services import full_name, service_for
from trialrun.compat.batch_files.tracking import Ledger
from trialrun.core.calls import Usage
from trialrun.core.errors import UsageError
from trialrun.core.ports import PriceBook
from trialrun.core.pricing import cost_usd


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """One line. None is unknown, or not asked."""

    what: str
    model: str
    requests: int | None = None
    low_usd: Decimal | None = None
    high_usd: Decimal | None = None
    live_usd: Decimal | None = None
    ceiling_usd: Decimal | None = None
    why_unknown: str = ""
    spent_usd: Decimal | None = None


def before(
    path: Path, ledger: Ledger, prices: PriceBook, *, service: str = "", models: Sequence[str] = ()
) -> list[Cost]:
    """What a request file may cost, to its own model or to others."""
    lines = list(requests_in(path))
    file = next((file for file in ledger.read().files if Path(file.path).resolve() == path.resolve()), None)
    own = service or (file.provider if file else "")
    named = list(models) or [lines[0].model or (file.model if file else "")]
    if not all(named):
        raise UsageError("which model are these requests for?", where=str(path), fix="say `--model`")
    found: list[Cost] = []
    for model in named:
        name = full_name(own if own and not models else service or service_for(model), model)
        range_ = estimate(lines, name, prices)
        found.append(
            Cost(
                what=str(path),
                model=name,
                requests=range_.requests,
                low_usd=range_.low_usd,
                high_usd=range_.high_usd,
                live_usd=range_.live_high_usd,
                ceiling_usd=range_.ceiling_usd,
                why_unknown=range_.why_unknown,
            )
        )
    return found


def of_number(
    service: str, model: str, requests: int, *, prices: PriceBook, tokens_in: int, tokens_out: int
) -> Cost:
    """What so many requests cost, at so many tokens each."""
    provider = service or service_for(model)
    price = prices.price_of(full_name(provider, model))
    usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out)
    cost = calculate_batch_cost(
        provider, model, requests, prices=prices, tokens_in=tokens_in, tokens_out=tokens_out
    )
    return Cost(
        what=f"{requests:,} requests",
        model=full_name(provider, model),
        requests=requests,
        low_usd=cost,
        high_usd=cost,
        live_usd=None if price is None else requests * cost_usd(usage, price),
        why_unknown="" if price else "no price is known",
    )


def so_far(ledger: Ledger) -> list[Cost]:
    """What the batches of the tracking file cost; one that was not downloaded has no cost that is known."""
    return [
        Cost(
            what=batch.name,
            model=full_name(batch.provider, batch.model) if batch.model else "",
            requests=batch.requests,
            ceiling_usd=batch.ceiling_usd,
            spent_usd=batch.spent_usd,
        )
        for batch in ledger.read().batches
    ]
