"""I5: settled + held never above any cap, at any instant, whatever providers, prices and timing do."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trialrun.core import facts as f
from trialrun.core.budget import Ledger
from trialrun.core.calls import Call, Message, Parsed, RawReply, Request, Usage
from trialrun.core.errors import (
    BudgetExhausted,
    CallError,
    CallTimedOut,
    ReplyUnreadable,
    RequestRefused,
    StudyStop,
    Throttled,
    Unavailable,
)
from trialrun.core.pricing import most_tokens_in
from trialrun.core.state import TrialState
from trialrun.core.study import Budget, Limits, Price
from trialrun.gateway.gateway import Gateway
from trialrun.gateway.purse import Purse
from trialrun.testing.clock import ManualClock
from trialrun.testing.memory import MemoryJournal
from trialrun.testing.scripted import Scripted

FAILURES = (
    Throttled("slow down", retry_after_s=2.0),
    Throttled("slow down"),
    Unavailable("broken", status=500),
    Unavailable("the connection was lost", billed="unknown"),
    CallTimedOut("no reply in time"),
    RequestRefused("a body that nobody can read", status=400),
)


class AuditedJournal(MemoryJournal):
    """Adds the money of all facts up after each append, independently of the ledger."""

    def __init__(self, budget: Budget, clock: ManualClock, dice: random.Random) -> None:
        super().__init__(clock=clock)
        self.budget = budget
        self.clock, self.dice = clock, dice
        self.folds: dict[str, TrialState] = {}
        self.committed_usd = Decimal(0)
        self.by_condition: dict[str, Decimal] = defaultdict(Decimal)

    def append(
        self,
        trial: str,
        facts: Sequence[f.TrialFact] | Sequence[f.StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        super().append(trial, facts, texts)
        fold = self.folds.setdefault(trial, TrialState(id=trial))
        before = fold.spent_usd + fold.held_usd
        for fact in facts:
            assert not isinstance(fact, f.StudyFact)
            fold.apply(fact, 0.0)
        after = fold.spent_usd + fold.held_usd
        condition = trial.split("/", maxsplit=1)[0]
        self.committed_usd += after - before
        self.by_condition[condition] += after - before
        for committed, cap in (
            (after, self.budget.trial_usd),
            (self.by_condition[condition], self.budget.condition_usd),
            (self.committed_usd, self.budget.study_usd),
        ):
            assert cap is None or committed <= cap

    async def commit(self) -> None:
        """The disk takes a moment, in which a caller may be cancelled."""
        await self.clock.sleep(self.dice.random() / 5)
        await super().commit()


class AuditedLedger(Ledger):
    """Checks every account after every change."""

    def _check(self) -> None:
        for account in [self.study, *self._conditions.values(), *self._trials.values()]:
            assert account.cap_usd is None or account.committed_usd <= account.cap_usd
            assert account.held_usd >= 0
            assert 0 <= account.in_flight_usd <= account.held_usd

    def hold(self, condition: str, trial: str, amount: Decimal) -> None:
        super().hold(condition, trial, amount)
        self._check()

    def settle(self, condition: str, trial: str, held: Decimal, cost: Decimal) -> None:
        super().settle(condition, trial, held, cost)
        self._check()

    def doubt(self, condition: str, trial: str, held: Decimal) -> None:
        super().doubt(condition, trial, held)
        self._check()


class OnePrice:
    def __init__(self, price: Price) -> None:
        self.price = price

    def price_of(self, model: str) -> Price:
        return self.price

    def batch_price_of(self, model: str) -> Price:
        return self.price_of(model)


class Fuzzed(Scripted):
    """Bills anything up to the limits that the request set, and sometimes does not say how much."""

    def __init__(self, dice: random.Random, share: float, clock: ManualClock) -> None:
        super().__init__(self._answer, clock=clock)
        self.dice, self.share, self.clock = dice, share, clock

    async def _answer(self, call: Call) -> str | Exception:
        await self.clock.sleep(self.dice.random() * 3)
        if self.dice.random() < self.share:
            failure = self.dice.choice(FAILURES)
            return type(failure)(*failure.args) if isinstance(failure, CallTimedOut) else failure
        return "x" * self.dice.randrange(1, 40)

    def meter(self, raw: RawReply) -> Usage | None:
        if self.dice.random() < 0.05:
            return None
        most_in, most_out = self.bounds
        cached = self.dice.randrange(0, most_in + 1)
        fresh = self.dice.randrange(0, most_in - cached + 1)
        return Usage(
            tokens_in=cached + fresh, tokens_cached=cached, tokens_out=self.dice.randrange(0, most_out + 1)
        )

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        if self.dice.random() < 0.05:
            raise ReplyUnreadable("gibberish")
        return super().parse(raw, request)

    bounds: tuple[int, int] = (1, 1)


def call_of(trial: str, number: int, words: str, max_tokens: int) -> Call:
    request = Request(model="x/m", messages=(Message("user", words),), max_tokens=max_tokens)
    return Call(
        trial=trial,
        condition=trial.split("/", maxsplit=1)[0],
        address=str(number),
        party="a",
        purpose="",
        turn=1,
        request=request,
        key=number.to_bytes(4, "big"),
    )


def delta() -> f.RequestDelta:
    return f.RequestDelta(add=[])


money = st.decimals("0.01", "40", places=2)
caps = st.none() | st.decimals("0.001", "2", places=3)


anything = given(
    seed=st.integers(0, 2**32),
    width=st.sampled_from([1, 2, 7, 50, 300, 1000]),
    budget=st.builds(Budget, study_usd=caps, condition_usd=caps, trial_usd=caps),
    price=st.builds(Price, input=money, output=money, cached_input=st.none() | money),
    share=st.floats(0, 0.6),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@anything
def test_settled_plus_held_is_never_above_a_cap(
    seed: int, width: int, budget: Budget, price: Price, share: float
) -> None:
    asyncio.run(_fuzz(seed, width, budget, price, share))


@pytest.mark.long
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@anything
def test_a_thousand_times_settled_plus_held_is_never_above_a_cap(
    seed: int, width: int, budget: Budget, price: Price, share: float
) -> None:
    asyncio.run(_fuzz(seed, width, budget, price, share))


def test_a_thousand_calls_at_once_under_a_budget_for_a_few() -> None:
    """The fuzz comes by this corner in many runs; here it is in all."""
    price = Price(input=Decimal(2), output=Decimal(8))
    asyncio.run(_fuzz(7, 1000, Budget(study_usd=Decimal("0.02")), price, 0.3))


async def _caught(asking: Awaitable[object]) -> Exception | None:
    try:
        await asking
    except Exception as error:  # noqa: BLE001 - it is raised again by the task that waits
        return error
    return None


async def _cancel_after(task: "asyncio.Task[Exception | None]", seconds: float, clock: ManualClock) -> None:
    await clock.sleep(seconds)
    task.cancel()


async def _fuzz(
    seed: int, width: int, budget: Budget, price: Price, share: float, *, cancels: float = 0.2
) -> None:
    dice = random.Random(seed)
    clock = ManualClock(auto=True)
    journal = AuditedJournal(budget, clock, dice)
    ledger = AuditedLedger(budget=budget)
    provider = Fuzzed(dice, share, clock)
    ends: list[str] = []
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=journal,
            route=lambda _: provider,
            prices=OnePrice(price),
            purse=Purse(ledger),
            limits=Limits(call_attempts=3, identical_failures=10**9),
            clock=clock,
            group=group,
        )

        async def impatient(asking: Awaitable[object]) -> None:
            """Cancels the call after a moment, as the time limit of a turn does."""
            task = group.create_task(_caught(asking))
            if dice.random() < cancels:
                group.create_task(_cancel_after(task, dice.random() * 4, clock))
            error = await task
            if error is not None:
                raise error

        async def trial(number: int) -> None:
            name = f"c{number % 3}/t{number}"
            ledger.open_trial(name, settled_usd=Decimal(0), held_usd=Decimal(0))
            for position in range(3):
                call = call_of(name, position, "w" * dice.randrange(1, 300), 64)
                provider.bounds = (min(64, most_tokens_in(call.request)), 64)
                try:
                    await impatient(gateway.ask(call, attempts_before=0, delta=delta(), texts={}))
                    ends.append("answered")
                except asyncio.CancelledError:
                    ends.append("cancelled")
                except (CallError, ReplyUnreadable) as error:
                    ends.append(type(error).__name__)
                except BudgetExhausted as error:
                    ends.append(error.level)
                    return
                except StudyStop:
                    raise

        async with asyncio.TaskGroup() as trials:
            for number in range(width):
                trials.create_task(trial(number))
    assert len(ends) >= width, "every trial came to an end: nobody waits for money for ever"
    assert ledger.overruns == 0
    assert gateway.purse.waiting == 0
    assert gateway.pacer.in_flight == 0
    folded = sum((fold.spent_usd + fold.held_usd for fold in journal.folds.values()), Decimal(0))
    assert folded == ledger.study.committed_usd, "the journal and the ledger tell the same"
    assert ledger.study.in_flight_usd == 0


async def _run_dry(budget_usd: str, calls: int) -> tuple[list[str], Ledger]:
    """Many calls at once whose ceilings are far above their cost."""
    clock = ManualClock(auto=True)
    ledger = AuditedLedger(budget=Budget(study_usd=Decimal(budget_usd)))
    price = Price(input=Decimal(1), output=Decimal(1000))

    async def slow(call: Call) -> str:
        await clock.sleep(1)
        return "yes"

    provider = Scripted(slow, clock=clock)
    ends: list[str] = []
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=MemoryJournal(clock=clock),
            route=lambda _: provider,
            prices=OnePrice(price),
            purse=Purse(ledger),
            limits=Limits(),
            clock=clock,
            group=group,
        )

        async def one(number: int) -> None:
            try:
                await gateway.ask(
                    call_of(f"c/t{number}", 0, "?", 1000), attempts_before=0, delta=delta(), texts={}
                )
                ends.append("answered")
            except BudgetExhausted:
                ends.append("exhausted")

        async with asyncio.TaskGroup() as trials:
            for number in range(calls):
                trials.create_task(one(number))
    return ends, ledger


async def test_calls_wait_for_room_instead_of_ending_a_study_that_has_money_left() -> None:
    ends, ledger = await _run_dry("3.01", calls=200)
    assert ends == ["answered"] * 200
    assert ledger.study.settled_usd < Decimal("0.5"), "three ceilings fit at a time, and real costs are small"


async def test_when_no_call_in_flight_can_make_room_the_last_dollar_is_said_to_be_spent() -> None:
    ends, ledger = await _run_dry("1.05", calls=200)
    assert set(ends) == {"exhausted", "answered"}
    assert ledger.study.committed_usd <= Decimal("1.05")


@pytest.mark.parametrize("level", ["study", "condition", "trial"])
async def test_a_ceiling_above_a_cap_is_refused_before_anything_leaves(level: str) -> None:
    clock = ManualClock(auto=True)
    budget = Budget(**{f"{level}_usd": Decimal("0.0001")})
    ledger = Ledger(budget=budget)
    provider = Scripted("never")
    journal = MemoryJournal(clock=clock)
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=journal,
            route=lambda _: provider,
            prices=OnePrice(Price(input=Decimal(1), output=Decimal(10))),
            purse=Purse(ledger),
            limits=Limits(),
            clock=clock,
            group=group,
        )
        ledger.open_trial("c/t", settled_usd=Decimal(0), held_usd=Decimal(0))
        with pytest.raises(BudgetExhausted) as caught:
            await gateway.ask(call_of("c/t", 0, "?", 1000), attempts_before=0, delta=delta(), texts={})
    assert caught.value.level == level
    assert "budget_usd" in caught.value.fix
    assert not provider.sent
    assert await journal.facts_of("c/t") == []


async def test_a_call_that_is_cancelled_while_its_intent_is_written_holds_nothing_afterwards() -> None:
    """Nothing has left: what the ledger gives to others, the journal must not go on holding."""
    clock = ManualClock(auto=True)
    budget = Budget(study_usd=Decimal(1))
    journal, ledger = AuditedJournal(budget, clock, random.Random(1)), AuditedLedger(budget=budget)
    provider = Scripted("never")
    async with asyncio.TaskGroup() as group:
        gateway = Gateway(
            journal=journal,
            route=lambda _: provider,
            prices=OnePrice(Price(input=Decimal(1), output=Decimal(10))),
            purse=Purse(ledger),
            limits=Limits(),
            clock=clock,
            group=group,
        )
        asking = group.create_task(
            _caught(gateway.ask(call_of("c/t", 0, "?", 1000), attempts_before=0, delta=delta(), texts={}))
        )
        await asyncio.sleep(0)
        assert journal.folds["c/t"].held_usd > 0, "the intent is on its way to the disk"
        asking.cancel()
    assert not provider.sent
    assert ledger.study.committed_usd == 0
    assert journal.folds["c/t"].held_usd == 0
