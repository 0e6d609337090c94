"""Costs that nobody knows: held at their ceilings, shown, and settled by whoever looks them up."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.behaviour.support import make_plan, run, states
from trialrun.app import doctoring
from trialrun.app.findings.tables import table_of
from trialrun.cli.conditions import money
from trialrun.core.calls import RawReply, Usage
from trialrun.core.errors import CallTimedOut, UsageError
from trialrun.testing.scripted import Scripted


class Untold(Scripted):
    """A provider that does not say what a reply cost."""

    def meter(self, raw: RawReply) -> Usage | None:
        return None


async def test_a_cost_that_was_looked_up_is_unknown_no_longer(tmp_path: Path):
    plan = make_plan(tmp_path, budget_usd=1, factors={}, replicates=2)
    await run(plan, Untold(lambda call: "fine"))
    account = table_of(plan.folder).money
    assert (account.unknown_costs, account.doubts) == (2, 0)
    assert account.held_usd > 0
    assert account.spent_usd == 0
    for doubt in doctoring.doubts_of(plan.folder):
        assert await doctoring.confirm(plan.folder, doubt.call, "0.01") == [doubt]
    account = table_of(plan.folder).money
    assert (account.unknown_costs, account.doubts, account.held_usd) == (0, 0, 0)
    assert account.spent_usd == Decimal("0.02")
    assert money(account) == "0.02 USD spent, 0.98 left of 1.00"
    assert doctoring.doubts_of(plan.folder) == []


async def test_a_lost_reply_that_was_looked_up_is_in_doubt_no_longer(tmp_path: Path):
    plan = make_plan(tmp_path, budget_usd=1, factors={}, replicates=1)
    replies = iter([CallTimedOut("no reply in time")])
    await run(plan, Scripted(lambda call: next(replies, "fine")))
    account = table_of(plan.folder).money
    assert (account.unknown_costs, account.doubts) == (0, 1)
    (doubt,) = doctoring.doubts_of(plan.folder)
    await doctoring.confirm(plan.folder, doubt.call, "0")
    account = table_of(plan.folder).money
    assert (account.unknown_costs, account.doubts, account.held_usd) == (0, 0, 0)


@pytest.mark.parametrize("total", ["0", "0.010000000001"])
async def test_all_doubts_can_be_settled_at_what_they_cost_together(tmp_path: Path, total: str):
    plan = make_plan(tmp_path, budget_usd=1, factors={}, replicates=3)
    replies = iter([CallTimedOut("no reply in time")] * 3)
    await run(plan, Scripted(lambda call: next(replies, "fine")))
    before = table_of(plan.folder).money
    assert before.doubts == 3
    confirmed = await doctoring.confirm(plan.folder, "all", total)
    assert len(confirmed) == 3
    account = table_of(plan.folder).money
    assert (account.unknown_costs, account.doubts, account.held_usd) == (0, 0, 0)
    assert account.spent_usd == before.spent_usd + Decimal(total), "to the last part of a cent"
    assert all(state.held_usd == 0 for state in states(plan).values())
    with pytest.raises(UsageError):
        await doctoring.confirm(plan.folder, "all", "0")
