"""What is settled line by line, laid beside what the provider says that the whole batch comes to."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.batches.far import every_provider, far_plan, reach, run_far, script
from tests.batches.support import batch_plan, jumping, route_of, run_batches
from tests.batches.test_doubts import packs
from tests.behaviour.support import facts, states
from trialrun.app.exits import Exit
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.totals import Totals, difference, spelled
from trialrun.gateway.batches import unpacking
from trialrun.store.journal import SqliteJournal
from trialrun.testing.emulator import Emulator
from trialrun.testing.scripted_batches import Course, doubled


@every_provider
async def test_what_is_settled_is_what_the_provider_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async with Emulator(script()) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan)).exit is Exit.DONE
        for pack in packs(plan):
            assert pack.balance is not None
            assert pack.balance.said.replies == pack.requests
            assert not pack.off
        sent = [entry for entry in server.book if entry.call]
        settled = [pack.balance.settled for pack in packs(plan) if pack.balance]
        assert sum(each.tokens_in or 0 for each in settled) == sum(e.usage.tokens_in for e in sent if e.usage)
        assert sum(each.replies or 0 for each in settled) == len(sent)


@every_provider
async def test_totals_that_do_not_add_up_are_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    told: list[str] = []
    prices: dict[str, Any] = {"*": {"input": "1", "output": "1"}}
    async with Emulator(script({"fault": "other_totals", "nth": [1]}, prices=prices)) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan, tell=told.append)).exit is Exit.DONE
    first, second = packs(plan)
    assert first.off.replies == -1
    assert first.off.tokens_in == (1000 if kind in ("openai", "groq") else None)
    assert first.off.cost_usd == (Decimal("0.001") if kind == "xai" else None)
    assert not second.off, "each batch has its own"
    assert any("totals say" in line and "-1 reply" in line for line in told)


class EndsInTheMiddle(SqliteJournal):
    """A process that ends when half of a pack is settled."""

    settled = 0

    def append(self, trial: str, facts: Sequence[Any], texts: Any = None) -> None:
        self.settled += sum(isinstance(fact, f.Settled) for fact in facts)
        if self.settled > 2:
            raise e.StoreError("the process ended here")
        super().append(trial, facts, texts)


async def test_what_an_earlier_run_settled_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unpacking, "_LINES_A_COMMIT", 1)
    clock = jumping()
    route = route_of(clock, Course(change=doubled(1)))
    plan = batch_plan(tmp_path)
    journal = EndsInTheMiddle.open(plan.folder, clock=clock)
    assert (await run_batches(plan, route, clock, journal=journal)).exit is Exit.STORE
    assert sum(state.calls for state in states(plan).values()) == 2, "half of it is durable"
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    first = packs(plan)[0]
    assert first.balance is not None
    assert first.balance.settled.replies == first.requests == 4
    charged = [fact for id_ in states(plan) for fact in facts(plan, id_) if isinstance(fact, f.Charged)]
    assert len(charged) == 1
    whole = sum(
        fact.usage.tokens_in
        for id_ in states(plan)
        for fact in facts(plan, id_)
        if isinstance(fact, f.Settled | f.Charged)
        and fact.usage
        and (isinstance(fact, f.Charged) or fact.pack == first.id)
    )
    assert first.balance.settled.tokens_in == whole


def test_a_journal_of_before_is_read_as_it_was():
    old = b'{"fact":"pack_seen","pack":"p1","phase":"ended","word":"completed","total":4,"done":4,"failed":0}'
    fact = msgspec.json.decode(old, type=f.Fact)
    assert isinstance(fact, p.PackSeen)
    assert fact.totals is None


def test_a_difference_is_spelled_as_what_the_provider_has_too_much():
    said = Totals(replies=3, tokens_in=1500, tokens_out=7, cost_usd=Decimal("0.0012"))
    settled = Totals(replies=4, tokens_in=500, tokens_out=7, cost_usd=Decimal("0.0010"))
    off = difference(said, settled)
    assert spelled(off) == "-1 reply, +1,000 input tokens, +0.0002 USD"
    assert not difference(said, said)
    assert not difference(Totals(tokens_in=3), Totals(replies=2)), (
        "what one of them does not say is no difference"
    )
