"""From the results of a pack to facts of its trials, line by line.

U1. Every line becomes exactly one of: settled, refused for good, back into the pool, never run, a second bill for what
    is settled. What has no line is missing: in doubt, its money held. (A stopped batch of Google has no
    line for what never ran: there its own counts have to account for all others.)
U2. Unpacking twice gives the same journal: a line whose attempt has ended since its pack was built is passed over.
U3. Order means nothing, ids everything. A foreign id means that these are not our results, or not only: nothing is
    unpacked before a person has said so.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import BatchRoute, Directory, PackStore, Result, Row, attempt_key
from trialrun.core.calls import RawReply, Request
from trialrun.core.facts import tag_of
from trialrun.core.marks import Marks
from trialrun.core.packs import Pack
from trialrun.core.ports import Clock, Journal, PriceBook
from trialrun.core.pricing import paid_usd
from trialrun.core.study import Limits, Price
from trialrun.gateway.breaker import Breaker
from trialrun.gateway.purse import Purse
from trialrun.gateway.settling import metered, settlement_of

_ZERO = Decimal(0)
_LINES_A_COMMIT = 2000
"""Enough to share the pages of a transaction, and few enough for memory: each is 5 KB of facts, texts and state."""
_ENDINGS = tuple(
    tag_of(fact)
    for fact in (
        f.Settled(at="", attempt=0, cost_usd=None, usage=None),
        f.Released(at="", attempt=0, error="", reason=""),
        f.Doubted(at="", attempt=0, error="", reason=""),
        f.Confirmed(at="", attempt=0, cost_usd=_ZERO),
        f.Charged(at="", attempt=0, cost_usd=None, usage=None, reason=""),
    )
)
MISSING = "Missing"


@dataclass(kw_only=True, slots=True)
class Unpacked:
    """What became of a pack's lines."""

    counts: Counter[str] = field(default_factory=Counter[str])
    missing: Marks = field(default_factory=Marks)
    """Attempts without a result, by key."""
    foreign: int = 0
    """How many ids are not ours, while nothing is unpacked for it."""
    example: str = ""
    """One of these."""
    stop: e.StudyStop | None = None
    """Why the study should not go on, found in a line or in too many equal ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Till:
    """What settling a line needs."""

    journal: Journal
    purse: Purse
    prices: PriceBook
    packs: PackStore
    breaker: Breaker
    limits: Limits


async def unpack(pack: Pack, route: BatchRoute, till: Till) -> Unpacked:
    """Settle every line of a fetched pack that has not been."""
    with closing(till.packs.directory(pack.id)) as rows:
        return await _Unpacking(pack, rows, route, till).run()


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of attempts since a fact, by key."""

    surely: Marks = field(default_factory=Marks)
    in_doubt: Marks = field(default_factory=Marks)
    charged: Marks = field(default_factory=Marks)
    """Those that were billed once more."""


async def ended_since_built(pack: Pack, journal: Journal) -> Ended:
    """The endings of attempts of all trials since the pack was built, by an earlier run. Within the run that built it,
    nothing of it ends but by its own results; what ended before may have had the same numbers, and never left."""
    ended = Ended()
    if not pack.built_seq:
        return ended
    async for entry in journal.since(pack.built_seq, *_ENDINGS):
        match entry.fact:
            case f.Settled() | f.Released() | f.Confirmed() as fact:
                key = attempt_key(entry.trial, fact.at, fact.attempt)
                ended.surely.add(key)
                ended.in_doubt.discard(key)
            case f.Doubted() as fact:
                ended.in_doubt.add(attempt_key(entry.trial, fact.at, fact.attempt))
            case f.Charged() as fact:
                ended.charged.add(attempt_key(entry.trial, fact.at, fact.attempt))
            case _:
                pass
    return ended


async def dissolve(
    pack: Pack, till: Till, *, clock: Clock, error: str, reason: str, refused: Mapping[int, str] | None = None
) -> None:
    """Give the calls of a pack that surely never ran back to their trials; `refused` lines are given up for good.

    No await between the first fact and the last: all of them are one write, and a pack whose calls were given back is
    never sent.
    """
    counts = Counter[str]()
    refused = refused or {}
    ended = await ended_since_built(pack, till.journal)
    for number, row in enumerate(till.packs.rows(pack.id), start=1):
        if row.key in ended.surely:
            continue
        why = refused.get(number)
        facts: list[f.TrialFact] = [
            f.Released(at=row.at, attempt=row.attempt, error=error, reason=why or reason)
        ]
        if why:
            facts.append(f.GaveUp(at=row.at, error="RequestRefused", reason=why))
        till.journal.append(row.trial, facts)
        if row.key in ended.in_doubt:
            till.purse.ledger.expect(row.condition, row.trial, row.ceiling_usd or _ZERO)
        till.purse.release(row, row.ceiling_usd or _ZERO)
        counts["refused" if why else "to be tried again"] += 1
    closed = p.PackClosed(pack=pack.id, counts=dict(counts))
    till.journal.append("", [closed])
    pack.apply(closed, clock.now())
    await till.journal.commit()


class _Unpacking:
    def __init__(self, pack: Pack, rows: Directory, route: BatchRoute, till: Till) -> None:
        self._pack = pack
        self._rows = rows
        self._route = route
        self._till = till
        self._price: Price | None = till.prices.batch_price_of(pack.model)
        self._forms: list[Request] = [form.request for form in till.packs.forms(pack.id)]
        self._is_seen = bytearray(len(rows))
        """By number: whether the row has had a result."""
        self._seen = 0
        self._ended = Ended()
        self._unpacked = Unpacked()
        self._bug: e.KernelBug | None = None

    async def run(self) -> Unpacked:
        unpacked = self._unpacked
        is_accepted = self._pack.decision is not None and self._pack.decision.decision == "accept"
        if not is_accepted:
            self._look_for_foreign()
            if unpacked.foreign:
                return unpacked
        self._ended = await ended_since_built(self._pack, self._till.journal)
        for number, result in enumerate(self._results(), start=1):
            self._take(result)
            if number % _LINES_A_COMMIT == 0:
                await self._till.journal.commit()
        self._miss()
        await self._till.journal.commit()
        if self._bug is not None:
            raise self._bug
        return unpacked

    def _results(self) -> Iterator[Result]:
        read = self._route.read
        for name, _, _ in self._pack.files:
            for line in self._till.packs.lines(self._pack.id, name):
                if not line.isspace():
                    yield read(line)

    def _look_for_foreign(self) -> None:
        number_of, unpacked = self._rows.number_of, self._unpacked
        for result in self._results():
            if number_of(result.id) is None:
                unpacked.foreign += 1
                unpacked.example = unpacked.example or result.id

    def _take(self, result: Result) -> None:
        number = self._rows.number_of(result.id)
        row = None if number is None else self._rows.row(number)
        if number is None or row is None or row.id != result.id:
            self._unpacked.counts["foreign"] += 1
        elif self._is_seen[number]:
            self._take_again(row, result)
        else:
            self._is_seen[number] = True
            self._seen += 1
            key = row.key
            if key in self._ended.surely:
                self._unpacked.counts["settled before"] += 1
                return
            if key in self._ended.in_doubt:
                self._till.purse.ledger.expect(row.condition, row.trial, row.ceiling_usd or _ZERO)
            if result.raw is not None:
                self._settle(row, result.raw)
            else:
                self._release(row, result)

    def _settle(self, row: Row, raw: RawReply) -> None:
        till, provider = self._till, self._route.provider
        settlement = settlement_of(
            raw,
            self._forms[row.form],
            provider,
            self._price,
            metered(provider, raw),
            at=row.at,
            attempt=row.attempt,
            turn=row.turn,
            pack=self._pack.id,
        )
        till.journal.append(row.trial, settlement.facts, settlement.texts)
        self._bug = self._bug or settlement.bug
        held = row.ceiling_usd or _ZERO
        if settlement.cost_usd is None:
            till.purse.doubt(row, held)
        else:
            till.purse.settle(row, held, settlement.cost_usd)
        if settlement.problem is None:
            self._unpacked.counts["ok"] += 1
            till.breaker.success(self._pack.model)
        else:
            self._unpacked.counts["unreadable"] += 1
            self._count_failure(f"ReplyUnreadable: {settlement.problem.what}")

    def _release(self, row: Row, result: Result) -> None:
        """No reply, and no bill: what follows depends on why."""
        error, till = result.error, self._till
        name = "NeverRan" if error is None else type(error).__name__
        reason = result.reason or "the batch ended before it ran" if error is None else error.what
        status = error.status if isinstance(error, e.CallError) else None
        facts: list[f.TrialFact] = [
            f.Released(at=row.at, attempt=row.attempt, error=name, reason=reason, status=status)
        ]
        is_final = isinstance(error, e.RequestRefused) or (
            isinstance(error, e.CallError) and row.attempt >= till.limits.call_attempts
        )
        if is_final:
            facts.append(f.GaveUp(at=row.at, error=name, reason=reason))
            self._count_failure(f"{name}: {reason}")
        till.journal.append(row.trial, facts)
        till.purse.release(row, row.ceiling_usd or _ZERO)
        kind = "refused" if is_final else "never run" if error is None else "to be tried again"
        self._unpacked.counts[kind] += 1
        if isinstance(error, e.StudyStop):
            self._unpacked.stop = self._unpacked.stop or error

    def _take_again(self, row: Row, result: Result) -> None:
        """The first result stands; a second reply may be a second bill."""
        self._unpacked.counts["duplicate"] += 1
        if result.raw is None or row.key in self._ended.charged:
            return
        usage = metered(self._route.provider, result.raw).usage
        cost = paid_usd(usage, self._price) if usage else None
        charged = f.Charged(
            at=row.at, attempt=row.attempt, cost_usd=cost, usage=usage, reason="its result came twice"
        )
        self._till.journal.append(row.trial, [charged])
        self._till.purse.charge(row, cost or _ZERO)

    def _miss(self) -> None:
        """Lines without a result: nobody knows whether they ran, unless the counts of a stopped batch say it."""
        look, has_all = self._pack.look, self._has_all_that_ran
        for number, is_seen in enumerate(self._is_seen):
            if is_seen:
                continue
            row = self._rows.row(number)
            if row.key in self._ended.surely:
                continue
            if look is not None and has_all:
                if row.key in self._ended.in_doubt:
                    self._till.purse.ledger.expect(row.condition, row.trial, row.ceiling_usd or _ZERO)
                self._release(row, Result(id=row.id, reason=f"the batch ended before it ran ({look.word})"))
                continue
            self._unpacked.missing.add(row.key)
            self._unpacked.counts["missing"] += 1
            if row.key in self._ended.in_doubt:
                continue
            doubted = f.Doubted(
                at=row.at,
                attempt=row.attempt,
                error=MISSING,
                reason="the results of its batch do not have it",
            )
            self._till.journal.append(row.trial, [doubted])
            self._till.purse.doubt(row, row.ceiling_usd or _ZERO)

    @property
    def _has_all_that_ran(self) -> bool:
        """Whether the batch was stopped, and has a result for everything that it says ran."""
        look = self._pack.look
        if look is None or not look.is_stopped or look.done is None or look.failed is None:
            return False
        return self._seen >= look.done + look.failed

    def _count_failure(self, reason: str) -> None:
        """Too many equal failures stop the study, but not the unpacking of what is paid."""
        try:
            self._till.breaker.failure(self._pack.model, reason)
        except e.BreakerOpen as stop:
            self._unpacked.stop = self._unpacked.stop or stop
