"""A call whose intent is being written when a limit is met: it does not leave, and nothing is owed for it."""

import asyncio
from decimal import Decimal

from tests.gateway.test_budget import AuditedLedger, OnePrice, call_of, delta
from trialrun.core import facts as f
from trialrun.core.errors import Throttled
from trialrun.core.study import Budget, Limits, Price
from trialrun.gateway.gateway import Gateway
from trialrun.gateway.purse import Purse
from trialrun.testing.clock import ManualClock
from trialrun.testing.memory import MemoryJournal
from trialrun.testing.scripted import Scripted

CALLS, ADMITTED = 150, 40


class SlowDisk(MemoryJournal):
    """Every commit takes a while, in which other calls are let go."""

    async def commit(self) -> None:
        await self.clock.sleep(0.05)
        await super().commit()

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.clock = clock


async def test_what_waits_for_the_disk_while_a_limit_is_met_stays_here() -> None:
    clock = ManualClock(auto=True)
    refused: list[float] = []
    admitted = 0

    def answer(_: object) -> str | Throttled:
        nonlocal admitted
        if admitted >= ADMITTED and clock.monotonic() < 2.0:
            refused.append(clock.monotonic())
            return Throttled("slow down", retry_after_s=2.0)
        admitted += 1
        return "fine"

    provider = Scripted(answer, clock=clock)
    journal, ledger = SlowDisk(clock), AuditedLedger(budget=Budget(study_usd=Decimal(1000)))
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=journal,
            route=lambda _: provider,
            prices=OnePrice(Price(input=Decimal(2), output=Decimal(10))),
            purse=Purse(ledger),
            limits=Limits(),
            clock=clock,
            group=group,
        )
        async with asyncio.TaskGroup() as calls:
            for number in range(CALLS):
                call = call_of(f"c/t{number}", 0, "?", 100)
                calls.create_task(gateway.ask(call, attempts_before=0, delta=delta(), texts={}))
    assert admitted == CALLS
    assert len(refused) <= 12, "without a second look, all that waited for the disk would have been refused"
    assert ledger.study.held_usd == 0
    stayed = 0
    for number in range(CALLS):
        facts = [entry.fact for entry in await journal.facts_of(f"c/t{number}")]
        held = [fact.attempt for fact in facts if isinstance(fact, f.Held)]
        released = [fact for fact in facts if isinstance(fact, f.Released)]
        never = sum(fact.error == f.NEVER_SENT for fact in released)
        assert held[-1] == 1 + len(released) - never, "an attempt that was none gives its number back"
        assert isinstance(facts[-1], f.Settled)
        stayed += never
    assert stayed > 20
