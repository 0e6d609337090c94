"""Prices that a study states, in what its calls are booked at: each key counts, live and in a batch.

The far end is the emulator, over HTTP; what it says that a call used is priced here by hand.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.behaviour.support import make_plan
from trialrun.app.running import Exit, run_study
from trialrun.core.calls import Message
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.store.tables import CallAttempt
from trialrun.testing.emulator import Emulator

Rates = Mapping[str, Any]
RATES = ("input", "output", "cached_input", "cache_write", "reasoning")
SENTENCE = (
    "The wedding was by the sea, and everybody in the family had come to see it, by boat and by train. "
)
PARTIES: dict[str, Any] = {
    "a": {"model": "openai/gpt-5-mini", "prompt": "You are A.", "max_tokens": 3000},
    "b": {
        "model": "anthropic/claude-haiku-4-5",
        "prompt": "You are B.",
        "max_tokens": 300,
        "params": {"cache_control": {"type": "ephemeral"}},
    },
}
PRICE: dict[str, Any] = {
    "input": 3,
    "output": 7,
    "cached_input": 0.11,
    "cache_write": 13,
    "reasoning": 17,
    "tiers": [
        # The order of the file is not that of the tiers.
        {"above": 2000, "input": 5, "output": 19, "cached_input": 0.23, "cache_write": 29, "reasoning": 31},
        {"above": 1500, "input": 1.9, "output": 11},
    ],
}
BATCH: dict[str, Any] = {
    "input": 2,
    "output": 5,
    "cached_input": 0.07,
    "cache_write": 3,
    "reasoning": 23,
    "tiers": [
        {"above": 2000, "input": 4, "output": 37, "cached_input": 0.41, "cache_write": 43, "reasoning": 0.47}
    ],
}


def priced(row: CallAttempt, price: Rates) -> Decimal:
    """What a call costs by a price of the study file."""
    rates = price
    for tier in sorted(price.get("tiers", ()), key=lambda tier: tier["above"]):
        if (row.tokens_in or 0) > tier["above"]:
            rates = tier
    cached, written, reasoned = row.tokens_cached or 0, row.tokens_cache_write or 0, row.tokens_reasoning or 0
    amounts = (
        (rates["input"], (row.tokens_in or 0) - cached - written),
        (rates.get("cached_input", rates["input"]), cached),
        (rates.get("cache_write", rates["input"]), written),
        (rates["output"], (row.tokens_out or 0) - reasoned),
        (rates.get("reasoning", rates["output"]), reasoned),
    )
    return sum((Decimal(str(rate)) * tokens for rate, tokens in amounts), Decimal(0)) / 1_000_000


def without_each(price: Rates) -> Iterable[tuple[str, Rates]]:
    """The price with one of its keys left out, or with zero where it may not be."""
    for key in RATES:
        yield (
            key,
            {**price, key: 0} if key in ("input", "output") else {k: v for k, v in price.items() if k != key},
        )
    for number, tier in enumerate(price["tiers"]):
        others = [one for one in price["tiers"] if one is not tier]
        yield f"tiers.{number}", {**price, "tiers": others}
        for key in RATES:
            if key in tier:
                less = {**tier, key: 0}
                yield f"tiers.{number}.{key}", {**price, "tiers": [*others, less]}


async def ask_much(trial: Trial, lab: Lab) -> dict[str, object]:
    """Short and long questions, each long one twice over, so that caches fill and are read."""
    for party in PARTIES:
        for words in (1, 50, 68, 100):
            said = [Message("user", SENTENCE * words)]
            await lab.ask(party, said)
            await lab.ask(party, [*said, Message("assistant", "Yes."), Message("user", "And then?")])
    return {}


@pytest.mark.parametrize(("lane", "price"), [("live", PRICE), ("batch", BATCH)])
async def test_each_key_of_a_price_is_in_what_calls_are_booked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane: Literal["live", "batch"], price: Rates
) -> None:
    batches = {"validating_s": 0, "queued_s": 0, "running_s": 0.01, "finalizing_s": 0}
    async with Emulator({"seed": 3, "batches": batches}) as server:
        for name, value in server.settings("openai", "anthropic").items():
            monkeypatch.setenv(name, value)
        plan = make_plan(
            tmp_path,
            ask_much,
            lane=lane,
            parties=PARTIES,
            factors={},
            replicates=1,
            budget_usd=50,
            prices={"openai/gpt-5-mini": {**PRICE, "batch": BATCH}, "anthropic/*": {**PRICE, "batch": BATCH}},
            batch={"poll_s": 0.05, "flush_s": 0.01},
        )
        ran = await run_study(plan)
    assert ran.exit is Exit.DONE
    with Archive(plan.folder) as archive:
        rows, total = list(archive.calls()), archive.total()
    assert [(row.at, row.cost_usd) for row in rows] == [(row.at, priced(row, price)) for row in rows]
    assert total.spent_usd == sum(priced(row, price) for row in rows)
    assert {row.priced_by for row in rows} == {"study" if lane == "live" else "study, batch"}
    for key, other in without_each(price):
        assert sum(priced(row, other) for row in rows) != total.spent_usd, (
            f"no call tells whether `{key}` counts"
        )
