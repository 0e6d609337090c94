"""What a model costs, as a run would reckon it."""

from pathlib import Path

from trialrun.core.errors import UsageError
from trialrun.core.study import Price
from trialrun.providers.prices import GenaiPrices


def price_of(model: str, *, study: Path | None = None) -> Price:
    """The price in force for `provider/model`; a study's own prices go before the list."""
    if "/" not in model.strip("/"):
        raise UsageError(
            f"`{model}` names no provider", fix="write provider/model, such as openai/gpt-5-mini"
        )
    given = None
    if study is not None:
        from trialrun.app.studies import load

        given = load(study).study.prices
    book = GenaiPrices(given)
    price = book.price_of(model)
    if price is None:
        from trialrun.providers.near_models import in_words

        example = f"prices: {{{model}: {{input: 0.25, output: 2.00}}}}"
        raise UsageError(
            f"nobody knows the price of {in_words([model])}",
            where=book.snapshot,
            fix=f"state it in the study file, in USD per million tokens: `{example}`",
        )
    return price
