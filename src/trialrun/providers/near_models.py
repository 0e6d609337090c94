"""Models whose price nobody knows: usually a slip of the pen, and then the list knows which one was meant."""

from collections.abc import Iterable

from trialrun.core.near import nearest
from trialrun.providers.prices import GenaiPrices, listed_models
from trialrun.providers.registry import ENDPOINTS


def near_model(model: str) -> str | None:
    """The model of the price list that was probably meant."""
    provider, _, name = model.lower().partition("/")
    known = provider if provider in ENDPOINTS else nearest(provider, ENDPOINTS)
    meant = nearest(name, listed_models(known)) if known else None
    found = f"{known}/{meant}"
    return found if meant and found != model and GenaiPrices().price_of(found) is not None else None


def in_words(models: Iterable[str]) -> str:
    """The models, each with its near miss: `openai/gpt5 (did you mean openai/gpt-5?)`."""
    return ", ".join(
        f"{model} (did you mean {near}?)" if (near := near_model(model)) else model for model in models
    )
