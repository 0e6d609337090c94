"""What a model costs, as a run would reckon it."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from trialrun.core.errors import UsageError
from trialrun.core.study import Price
from trialrun.providers.prices import GenaiPrices


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """The price in force today, live and in a batch."""

    live: Price
    batch: Price
    on: date
    list_name: str
    list_latest_change: date | None
    """The newest dated price in the list: it is no older than this."""


def quote_of(model: str, *, study: Path | None = None) -> Quote:
    """The price in force for `provider/model`; a study's own prices go before the list."""
    if "/" not in model.strip("/"):
        raise UsageError(
            f"`{model}` names no provider", fix="write provider/model, such as openai/gpt-5-mini"
        )
    given = None
    if study is not None:
        from trialrun.app.studies import load

        given = load(study).study.prices
    now = datetime.now(tz=UTC)
    book = GenaiPrices(given, at=now)
    live, batch = book.price_of(model), book.batch_price_of(model)
    if live is None or batch is None:
        from trialrun.providers.near_models import in_words

        example = f"prices: {{{model}: {{input: 0.25, output: 2.00}}}}"
        raise UsageError(
            f"nobody knows the price of {in_words([model])}",
            where=book.snapshot,
            fix=f"state it in the study file, in USD per million tokens: `{example}`",
        )
    return Quote(
        live=live,
        batch=batch,
        on=now.date(),
        list_name=book.snapshot,
        list_latest_change=book.latest_change,
    )
