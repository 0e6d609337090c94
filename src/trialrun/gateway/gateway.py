"""Hold, pace, send, journal and settle: the order in which a call spends money.

G1. An attempt is durable in the journal, with its ceiling held, before its bytes leave.
G2. What it cost is settled before anybody reads the reply: a reply that we cannot read is still paid.
G3. A hold is released only when the provider surely did not bill. A time-out is not sure: the hold stays, in doubt.
G4. Attempts are recorded and never overwritten.
"""

from asyncio import FIRST_COMPLETED, CancelledError, TaskGroup, wait
from asyncio import Event as AsyncEvent
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

from trialrun.core import chance
from trialrun.core import facts as f
from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import CallError, Drained, ReplyUnreadable, StoreError, StudyStop
from trialrun.core.ports import Answer, Clock, Journal, PriceBook, Provider
from trialrun.core.retry import next_wait
from trialrun.core.study import Limits, Price
from trialrun.gateway.breaker import Breaker
from trialrun.gateway.pace import Pacer
from trialrun.gateway.purse import Purse
from trialrun.gateway.settling import Metered, metered, settlement_of

_ZERO = Decimal(0)
_BYTES_PER_TOKEN = 4


class _NotNow(Exception):
    """The call waits for its turn once more."""


@dataclass(kw_only=True, slots=True)
class Meter:
    """What the run did so far, for progress lines. The journal, not this, is the truth."""

    calls: int = 0
    batched: int = 0
    """Calls that were answered in a batch; not among `calls`."""
    attempts: int = 0
    retries: int = 0
    unknown_costs: int = 0
    errors: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sending:
    """A call on its way out: everything about it that does not change from attempt to attempt."""

    call: Call
    provider: Provider
    body: bytes
    price: Price | None
    ceiling_usd: Decimal | None
    tokens: int
    """A fair guess of input and output together, for the pacer."""
    delta: f.RequestDelta
    texts: Mapping[str, str | bytes]

    @property
    def held_usd(self) -> Decimal:
        return self.ceiling_usd or _ZERO

    @property
    def model(self) -> str:
        return self.call.request.model


class Gateway:
    """The only door to money."""

    def __init__(
        self,
        *,
        journal: Journal,
        route: Callable[[str], Provider],
        prices: PriceBook,
        purse: Purse,
        limits: Limits,
        clock: Clock,
        group: TaskGroup,
        account_of: Callable[[str], str] | None = None,
    ) -> None:
        self.purse = purse
        self.pacer = Pacer(limits.rates, clock, group, account_of=account_of)
        self.breaker = Breaker(limit=limits.identical_failures)
        self.meter = Meter()
        self._journal = journal
        self._route = route
        self._prices = prices
        self._limits = limits
        self._clock = clock
        self._group = group
        self._draining = AsyncEvent()

    def drain(self) -> None:
        """Let nothing new leave. Calls in flight settle; everybody else is unwound with `Drained`."""
        self._draining.set()
        self.purse.drain()
        self.pacer.drain()

    async def ask(
        self, call: Call, *, attempts_before: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        """Bring the reply to this call, with as many attempts as are worth it."""
        sending = self._prepare(call, delta, texts)
        number = 0
        while True:
            number += 1
            self._stop_if_draining()
            try:
                return await self._attempt(sending, attempts_before + number)
            except _NotNow:
                number -= 1
            except CallError as error:
                wait_s = self._wait_after(sending, error, number)
                if wait_s is None:
                    await self._give_up(sending, error)
                    raise
                self.meter.retries += 1
                await self._pause(wait_s)

    def _prepare(self, call: Call, delta: f.RequestDelta, texts: Mapping[str, str | bytes]) -> _Sending:
        request = call.request
        provider = self._route(request.model)
        price = self._prices.price_of(request.model)
        return _Sending(
            call=call,
            provider=provider,
            body=provider.prepare(call),
            price=price,
            ceiling_usd=self.purse.ceiling_of(call, request, price),
            tokens=request.size_bytes // _BYTES_PER_TOKEN + request.max_tokens,
            delta=delta,
            texts=texts,
        )

    async def _attempt(self, sending: _Sending, attempt: int) -> Answer:
        await self.purse.hold(sending.call, sending.held_usd)
        try:
            entered_at = await self.pacer.enter(sending.model, sending.tokens)
        except BaseException:
            self.purse.release(sending.call, sending.held_usd)
            raise
        tokens: int | None = None
        try:
            await self._announce(sending, attempt)
            if self.pacer.holds_back(sending.model, entered_at):
                tokens = 0
                self._stay(sending, attempt)
            raw = await self._send(sending, attempt, entered_at)
            counted = metered(sending.provider, raw)
            if counted.usage is not None:
                tokens = counted.usage.tokens_in + counted.usage.tokens_out
        finally:
            self.pacer.leave(sending.model, sending.tokens, tokens)
        return await self._settle(sending, attempt, entered_at, raw, counted)

    async def _announce(self, sending: _Sending, attempt: int) -> None:
        """G1: the intent to send, durable before anything leaves."""
        call = sending.call
        intent = f.Held(
            at=call.address,
            attempt=attempt,
            model=sending.model,
            party=call.party,
            fingerprint=call.request.fingerprint,
            ceiling_usd=sending.ceiling_usd,
            purpose=call.purpose,
            turn=call.turn,
            request=sending.delta if attempt == 1 else None,
        )
        is_written = False
        try:
            self._stop_if_draining()
            self._journal.append(call.trial, [intent], sending.texts if attempt == 1 else None)
            is_written = True
            await self._journal.commit()
        except BaseException as error:
            # Nothing has left. The journal must say so too, or it would hold what the purse gives to others.
            if is_written:
                with suppress(StoreError):
                    self._take_back(sending, attempt, error)
            self.purse.release(call, sending.held_usd)
            raise

    def _stay(self, sending: _Sending, attempt: int) -> None:
        """While the intent was written, a refusal told of a limit: what leaves now would be refused as well.

        The attempt was none, and its number is free again.
        """
        reason = "the provider's limit was met before it left"
        fact = f.Released(at=sending.call.address, attempt=attempt, error=f.NEVER_SENT, reason=reason)
        self._journal.append(sending.call.trial, [fact])
        self.purse.release(sending.call, sending.held_usd)
        raise _NotNow

    def _take_back(self, sending: _Sending, attempt: int, error: BaseException) -> None:
        fact = f.Released(
            at=sending.call.address,
            attempt=attempt,
            error=type(error).__name__,
            reason="stopped before it left",
        )
        self._journal.append(sending.call.trial, [fact])

    async def _send(self, sending: _Sending, attempt: int, entered_at: float) -> RawReply:
        self.meter.attempts += 1
        timeout_s = self._limits.call_timeout_s
        try:
            return await sending.provider.send(
                sending.call, sending.body, attempt=attempt, timeout_s=timeout_s
            )
        except CallError as error:
            self.pacer.failed(sending.model, error, entered_at)
            if error.billed == "no":
                self._release(sending, attempt, error, error.status)
            else:
                self._doubt(sending, attempt, error, error.what)
            raise
        except StudyStop as error:
            self._release(sending, attempt, error, None)
            raise
        except CancelledError as error:
            self._doubt(sending, attempt, error, "cancelled while in flight")
            raise

    def _release(self, sending: _Sending, attempt: int, error: Exception, status: int | None) -> None:
        name = self._count(error)
        fact = f.Released(
            at=sending.call.address, attempt=attempt, error=name, reason=str(error), status=status
        )
        self._journal.append(sending.call.trial, [fact])
        self.purse.release(sending.call, sending.held_usd)

    def _doubt(self, sending: _Sending, attempt: int, error: BaseException, reason: str) -> None:
        name = self._count(error)
        fact = f.Doubted(at=sending.call.address, attempt=attempt, error=name, reason=reason)
        self._journal.append(sending.call.trial, [fact])
        self.purse.doubt(sending.call, sending.held_usd)

    def _count(self, error: BaseException) -> str:
        name = type(error).__name__
        self.meter.errors[name] = self.meter.errors.get(name, 0) + 1
        return name

    async def _settle(
        self, sending: _Sending, attempt: int, entered_at: float, raw: RawReply, counted: Metered
    ) -> Answer:
        """G2: book the cost and store the reply, and only then say whether it could be read."""
        call, price = sending.call, sending.price
        settlement = settlement_of(
            raw,
            call.request,
            sending.provider,
            price,
            counted,
            at=call.address,
            attempt=attempt,
            turn=call.turn,
        )
        settled, parsed, cost = settlement.settled, settlement.parsed, settlement.cost_usd
        self._journal.append(call.trial, settlement.facts, settlement.texts)
        if cost is None:
            # Paid, and nobody can say how much: the ceiling stays held until somebody looks it up.
            self.purse.doubt(call, sending.held_usd)
        else:
            self.purse.settle(call, sending.held_usd, cost)
        self.pacer.succeeded(sending.model, raw.headers, entered_at)
        self.meter.calls += 1
        self.meter.unknown_costs += cost is None
        await self._journal.commit()
        if settlement.bug is not None:
            raise settlement.bug
        if settlement.problem is not None:
            self.breaker.failure(sending.model, f"ReplyUnreadable: {settled.unreadable}")
            raise ReplyUnreadable(
                settled.unreadable,
                where=call.place,
                fix="read the raw reply: `trialrun export STUDY --table calls`",
                text=parsed.text if settled.text else None,
            )
        self.breaker.success(sending.model)
        return Answer(settled=settled, text=parsed.text, extras=parsed.extras)

    def _wait_after(self, sending: _Sending, error: CallError, number: int) -> float | None:
        jitter = chance.fraction(chance.derive(sending.call.key, "wait", number))
        return next_wait(error, attempt=number, attempts=self._limits.call_attempts, jitter=jitter)

    async def _give_up(self, sending: _Sending, error: CallError) -> None:
        name = type(error).__name__
        fact = f.GaveUp(at=sending.call.address, error=name, reason=error.what)
        self._journal.append(sending.call.trial, [fact])
        await self._journal.commit()
        self.breaker.failure(sending.model, f"{name}: {error.what}")

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the run is stopping."""
        sleeping = self._group.create_task(self._clock.sleep(seconds))
        draining = self._group.create_task(self._draining.wait())
        try:
            await wait({sleeping, draining}, return_when=FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            draining.cancel()

    def _stop_if_draining(self) -> None:
        if self._draining.is_set():
            raise Drained
