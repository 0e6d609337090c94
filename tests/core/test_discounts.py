"""What a batch costs, from the live price and the provider's rule."""

from decimal import Decimal

import pytest

from trialrun.core.discounts import BATCH_RULES, batch_price
from trialrun.core.study import Price

LIVE = Price(
    input=Decimal(4),
    output=Decimal(20),
    cached_input=Decimal("0.4"),
    cache_write=Decimal(5),
    source="list",
    tiers=((200_000, Price(input=Decimal(8), output=Decimal(30))),),
)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "mistral"])
def test_half_of_everything_where_discounts_add_up(provider: str):
    price = batch_price(provider, LIVE)
    assert (price.input, price.output) == (2, 10)
    assert (price.cached_input, price.cache_write) == (Decimal("0.2"), Decimal("2.5"))
    assert price.tiers[0][1].output == 15


@pytest.mark.parametrize("provider", ["google", "gemini", "vertex"])
def test_a_cache_hit_has_its_own_discount_in_place_of_the_batch_at_google(provider: str):
    price = batch_price(provider, LIVE)
    assert (price.input, price.output) == (2, 10)
    assert price.cached_input == Decimal("0.4"), "nine tenths off already, and no half of that"
    assert price.cache_write == 2, "never dearer than a fresh token"


def test_a_provider_without_a_published_rule_costs_what_it_costs_live_and_says_so():
    price = batch_price("mylab", LIVE)
    assert (price.input, price.output, price.tiers) == (LIVE.input, LIVE.output, LIVE.tiers)
    assert "no batch discount known" in price.source


def test_no_rule_makes_anything_dearer():
    for provider in BATCH_RULES:
        price = batch_price(provider, LIVE)
        assert price.input < LIVE.input
        assert price.output < LIVE.output
        assert price.source != LIVE.source
