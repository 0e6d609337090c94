"""What a reply costs, when the provider's own words about it make no sense, and when our reading of it breaks."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.gateway.test_budget import AuditedLedger, OnePrice, call_of, delta
from trialrun.core import facts as f
from trialrun.core.calls import Call, Parsed, RawReply, Request, Usage
from trialrun.core.errors import KernelBug
from trialrun.core.ports import Answer
from trialrun.core.pricing import ceiling_usd, cost_usd
from trialrun.core.study import Budget, Limits, Price
from trialrun.gateway.gateway import Gateway
from trialrun.gateway.purse import Purse
from trialrun.gateway.settling import Metered, settlement_of
from trialrun.testing.clock import ManualClock
from trialrun.testing.memory import MemoryJournal
from trialrun.testing.scripted import Scripted

PRICE = Price(input=Decimal(2), output=Decimal(10), cached_input=Decimal("0.2"), cache_write=Decimal("2.5"))


async def ask(provider: Scripted) -> tuple[Answer | BaseException, list[f.Fact], AuditedLedger]:
    """One call; how it ended, what the journal says, and the ledger."""
    clock = ManualClock(auto=True)
    journal, ledger = MemoryJournal(clock=clock), AuditedLedger(budget=Budget(study_usd=Decimal(1)))
    answer: Answer | BaseException
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=journal,
            route=lambda _: provider,
            prices=OnePrice(PRICE),
            purse=Purse(ledger),
            limits=Limits(),
            clock=clock,
            group=group,
        )
        try:
            answer = await gateway.ask(
                call_of("c/t", 0, "?", 1000), attempts_before=0, delta=delta(), texts={}
            )
        except (Exception, KernelBug) as error:  # noqa: BLE001 - it is looked at
            answer = error
    return answer, [entry.fact for entry in await journal.facts_of("c/t")], ledger


def counted(**tokens: Any) -> Callable[[Call, str], Usage]:
    usage = Usage(**tokens)
    return lambda call, text: usage


@pytest.mark.parametrize(
    "tokens",
    [
        {"tokens_in": -5, "tokens_out": 1},
        {"tokens_in": 5, "tokens_out": -1_000_000},
        {"tokens_in": 5, "tokens_out": 1, "tokens_cached": -900_000},
        {"tokens_in": 10**30, "tokens_out": 1},
        {"tokens_in": 5, "tokens_out": 1, "billed_usd": Decimal("-0.1")},
        {"tokens_in": 5, "tokens_out": 1, "billed_usd": Decimal(10**9)},
    ],
)
async def test_a_count_that_cannot_be_is_no_count(tokens: dict[str, Any]) -> None:
    answer, facts, ledger = await ask(Scripted("fine", usage=counted(**tokens)))
    assert isinstance(answer, Answer), "the reply itself is good"
    (settled,) = [fact for fact in facts if isinstance(fact, f.Settled)]
    assert settled.usage is None
    assert settled.cost_usd is None
    assert ledger.study.settled_usd == 0
    assert ledger.study.held_usd == ceiling_usd(call_of("c/t", 0, "?", 1000).request, PRICE), "it stays held"


async def test_what_a_provider_says_that_it_charged_goes_before_any_price() -> None:
    usage = Usage(tokens_in=5, tokens_out=1, billed_usd=Decimal("0.000123456"))
    _, facts, ledger = await ask(Scripted("fine", usage=lambda call, text: usage))
    (settled,) = [fact for fact in facts if isinstance(fact, f.Settled)]
    assert settled.cost_usd == ledger.study.settled_usd == Decimal("0.000123456")
    assert settled.priced_by.endswith(": as billed")
    assert ledger.study.held_usd == 0
    unpriced = settlement_of(
        RawReply(body=b"{}"),
        Request(model="x", messages=(), max_tokens=1),
        Scripted("fine"),
        None,
        Metered(usage),
        at="0",
        attempt=1,
        turn=0,
    )
    assert unpriced.cost_usd == usage.billed_usd, "also where nobody knows a price"


async def test_more_cached_tokens_than_tokens_cost_no_less_than_nothing() -> None:
    usage = Usage(tokens_in=10, tokens_cached=4000, tokens_out=0)
    assert cost_usd(usage, PRICE) >= 10 * Decimal("0.2") / 1_000_000
    mixed = Usage(tokens_in=100, tokens_cached=80, tokens_cache_write=80, tokens_out=0)
    assert cost_usd(mixed, PRICE) >= 0


class Broken(Scripted):
    """An adapter with a bug of ours in it."""

    def __init__(self, *, where: str) -> None:
        super().__init__("a good reply")
        self.where = where

    def meter(self, raw: RawReply) -> Usage | None:
        if self.where == "meter":
            raise KeyError("usage")
        return super().meter(raw)

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        if self.where == "parse":
            raise IndexError("choices")
        return super().parse(raw, request)


@pytest.mark.parametrize("where", ["meter", "parse"])
async def test_a_reply_on_which_our_reading_breaks_is_paid_and_kept_before_the_run_stops(where: str) -> None:
    """G2. Otherwise the next run would pay for the same reply, and break again."""
    answer, facts, ledger = await ask(Broken(where=where))
    assert isinstance(answer, KernelBug)
    assert "Error" in str(answer)
    (settled,) = [fact for fact in facts if isinstance(fact, f.Settled)]
    assert settled.raw, "the raw reply is kept"
    assert settled.unreadable if where == "parse" else settled.cost_usd is None
    assert ledger.study.in_flight_usd == 0
    assert ledger.study.committed_usd > 0


@pytest.mark.parametrize("reset", ["1.2.3s", "\u00b2", "soon", "9" * 400])
async def test_a_header_that_cannot_be_read_costs_nobody_the_reply(reset: str) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}
    raw = RawReply(body=b'{"text": "paid", "finish": "stop", "model": "m"}', headers=headers)
    answer, facts, ledger = await ask(Scripted([raw]))
    assert isinstance(answer, Answer)
    assert any(isinstance(fact, f.Settled) for fact in facts)
    assert ledger.study.in_flight_usd == 0
