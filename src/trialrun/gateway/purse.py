"""Holds that wait: the ledger's arithmetic, with a queue of calls that wait for room."""

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from trialrun.core.budget import Ledger, LevelName
from trialrun.core.calls import Request
from trialrun.core.errors import BudgetExhausted, Drained
from trialrun.core.pricing import ceiling_usd
from trialrun.core.study import Price

_ZERO, _CENT = Decimal(0), Decimal("0.01")


class Payer(Protocol):
    """Whose money it is: a call, or its row in a pack."""

    @property
    def trial(self) -> str: ...

    @property
    def condition(self) -> str: ...

    @property
    def place(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Waiter:
    call: Payer
    amount: Decimal
    turn: "Future[None]"


class Purse:
    """Gives out holds in the order in which they were asked for.

    A call whose ceiling does not fit beside the calls in flight waits for them to settle. When no call in flight could
    make room any more, the cap is exhausted, and everybody who waits for it is told so.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._waiting: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def hold(self, call: Payer, amount: Decimal) -> None:
        """Take a hold of `amount`, waiting for room if calls in flight may make some."""
        # No await between this check and the hold: two trials must not both take the last dollar.
        if not self._waiting and self.take(call, amount):
            return
        loop: AbstractEventLoop = get_running_loop()
        waiter = _Waiter(call, amount, loop.create_future())
        self._waiting.append(waiter)
        self._serve()
        try:
            await waiter.turn
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.turn.cancelled() and waiter.turn.exception() is None:
                # The hold was granted in the same moment in which the caller was cancelled.
                self.release(call, amount)
            raise

    def take(self, call: Payer, amount: Decimal) -> bool:
        """A hold without waiting. False if calls in flight may make room; raises BudgetExhausted if nothing can."""
        room, level = self.ledger.room_for(call.condition, call.trial, amount)
        if room == "never":
            raise exhausted(self.ledger, level, call, amount)
        if room == "fits":
            self.ledger.hold(call.condition, call.trial, amount)
        return room == "fits"

    def ceiling_of(self, call: Payer, request: Request, price: Price | None) -> Decimal | None:
        """The most that the call can cost; None where nobody knows, which only a study without any cap may pay for."""
        if price is not None:
            return ceiling_usd(request, price)
        if self.ledger.budget.has_cap:
            raise BudgetExhausted(
                f"there is a budget, but nobody knows the price of {request.model}",
                level="study",
                where=call.place,
                fix=f"state it under `prices`, as `{request.model}: {{input: 0.25, output: 2.00}}` (USD per million "
                "tokens), then run the study again: it continues",
            )
        return None

    def settle(self, call: Payer, held: Decimal, cost: Decimal) -> None:
        self.ledger.settle(call.condition, call.trial, held, cost)
        self._serve()

    def charge(self, call: Payer, cost: Decimal) -> None:
        """A bill that nobody held for: it came all the same."""
        self.ledger.settle(call.condition, call.trial, Decimal(0), cost)

    def release(self, call: Payer, held: Decimal) -> None:
        self.ledger.release(call.condition, call.trial, held)
        self._serve()

    def doubt(self, call: Payer, held: Decimal) -> None:
        self.ledger.doubt(call.condition, call.trial, held)
        self._serve()

    def drain(self) -> None:
        """Nobody waits any longer: what is in flight may be a batch that takes a day."""
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if not waiter.turn.done():
                waiter.turn.set_exception(Drained())

    def _serve(self) -> None:
        """Let everybody go on who can, in order; a call that waits for the study's money blocks those behind it."""
        if not self._waiting:
            return
        still: deque[_Waiter] = deque()
        while self._waiting:
            waiter = self._waiting.popleft()
            if waiter.turn.done():
                continue
            room, level = self.ledger.room_for(waiter.call.condition, waiter.call.trial, waiter.amount)
            if room == "fits":
                self.ledger.hold(waiter.call.condition, waiter.call.trial, waiter.amount)
                waiter.turn.set_result(None)
            elif room == "never":
                waiter.turn.set_exception(exhausted(self.ledger, level, waiter.call, waiter.amount))
            else:
                still.append(waiter)
                if level == "study":
                    break
        still.extend(self._waiting)
        self._waiting = still


def exhausted(ledger: Ledger, level: LevelName, call: Payer, amount: Decimal) -> BudgetExhausted:
    """The last dollar, said so that a user knows what to raise."""
    keys = {"study": "budget_usd", "condition": "budget_usd.condition", "trial": "budget_usd.trial"}
    caps = ledger.budget
    cap = {"study": caps.study_usd, "condition": caps.condition_usd, "trial": caps.trial_usd}[level] or _ZERO
    told = cents if (cents := cap.quantize(_CENT)) == cap else cap
    flag = ", or say `--budget`" if level == "study" else ""
    return BudgetExhausted(
        f"the next call could cost {amount:.6f} USD and pass the {level} budget of {told} USD",
        level=level,
        where=call.place,
        fix=f"raise `{keys[level]}` in the study file{flag}, and run the study again: it continues",
    )
