"""Prices: overrides, the list behind them, tiers, and what nobody knows. The oracle is the list's own arithmetic."""

from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest
from genai_prices import data_snapshot
from hypothesis import given
from hypothesis import strategies as st

from trialrun.core import pricing
from trialrun.core.calls import Message, Request, Usage
from trialrun.core.study import Price
from trialrun.providers.prices import GenaiPrices

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
BOOK = GenaiPrices(at=NOW)


def test_a_study_price_wins_by_name_and_then_by_the_longest_pattern() -> None:
    mine, theirs = Price(input=Decimal(1), output=Decimal(2)), Price(input=Decimal(3), output=Decimal(4))
    book = GenaiPrices({"openai/gpt-5": mine, "openai/*": theirs, "*": mine}, at=NOW)
    assert book.price_of("openai/gpt-5") is mine
    assert book.price_of("openai/gpt-5-mini") is theirs
    assert book.price_of("nobody/nothing") is mine


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("openai/gpt-5-mini-2025-08-07", "openai/gpt-5-mini (alias)"),
        ("openai/gpt-5-mini-2031-02-03", "openai/gpt-5-mini (longest prefix, assumed)"),
        ("anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("google/gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("gemini/gemini-2.5-flash", "google/gemini-2.5-flash"),
    ],
)
def test_a_listed_price_says_how_it_was_found_and_in_which_version(model: str, found: str) -> None:
    price = BOOK.price_of(model)
    assert price is not None
    assert price.source == f"genai-prices {genai_prices.__version__}: {found}"


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-5-mini-turbo-pro-max",
        "openai/nothing",
        "opnai/gpt-5",
        "gpt-5",
        "",
        "perplexity/sonar",
        "openai/tts-1",
    ],
)
def test_what_nobody_knows_is_none(model: str) -> None:
    assert BOOK.price_of(model) is None


def test_only_a_stated_zero_is_zero() -> None:
    for model in ("local/smollm2", "rehearsal/openai/gpt-5"):
        price = BOOK.price_of(model)
        assert price is not None
        assert (price.input, price.output) == (0, 0)


TOKEN_PRICED = {
    f"{provider.id}/{entry.id}": (provider, entry)
    for provider in data_snapshot.get_snapshot().providers
    for entry in provider.models
    if BOOK.price_of(f"{provider.id}/{entry.id}") is not None
}


def test_most_of_the_list_can_be_priced_by_tokens() -> None:
    assert len(TOKEN_PRICED) > 2000


@given(
    model=st.sampled_from(sorted(TOKEN_PRICED)),
    tokens_in=st.one_of(st.integers(0, 400_000), st.sampled_from([200_000, 200_001, 128_000, 272_001])),
    tokens_out=st.integers(0, 100_000),
    cached=st.floats(0, 1),
)
def test_a_cost_is_what_the_list_computes_and_never_less_where_the_hour_matters(
    model: str, tokens_in: int, tokens_out: int, cached: float
) -> None:
    provider, entry = TOKEN_PRICED[model]
    usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=int(tokens_in * cached))
    theirs = entry.calc_price(
        genai_prices.Usage(
            input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=usage.tokens_cached
        ),
        provider,
        genai_request_timestamp=NOW,
    ).total_price
    price = BOOK.price_of(model)
    assert price is not None
    ours = pricing.cost_usd(usage, price)
    if isinstance(entry.prices, list):
        assert ours >= theirs
    else:
        assert ours == pytest.approx(theirs)


@given(st.sampled_from(["google/gemini-2.5-pro", "anthropic/claude-sonnet-4-5"]), st.integers(1, 900_000))
def test_a_ceiling_covers_every_tier_within_reach(model: str, size: int) -> None:
    price = BOOK.price_of(model)
    assert price is not None
    assert price.tiers
    request = Request(model=model, messages=(Message("user", "x" * size),), max_tokens=100)
    ceiling = pricing.ceiling_usd(request, price)
    for tokens_in in (1, size, pricing.most_tokens_in(request)):
        assert pricing.cost_usd(Usage(tokens_in=tokens_in, tokens_out=100), price) <= ceiling


def test_reasoning_has_a_rate_of_its_own_where_one_is_stated_and_the_ceiling_covers_it() -> None:
    price = Price(input=Decimal(0), output=Decimal(2), reasoning=Decimal(9))
    usage = Usage(tokens_in=0, tokens_out=100, tokens_reasoning=30)
    assert pricing.cost_usd(usage, price) * 1_000_000 == 70 * 2 + 30 * 9
    request = Request(model="a/b", messages=(), max_tokens=100)
    assert pricing.ceiling_usd(request, price) * 1_000_000 == 900
    odd = Usage(tokens_in=0, tokens_out=10, tokens_reasoning=5000)
    assert pricing.cost_usd(odd, price) * 1_000_000 == 90, "there is no more reasoning than output"


def test_a_lookup_is_cheap_the_second_time() -> None:
    assert BOOK.price_of("openai/gpt-5") is BOOK.price_of("openai/gpt-5")
