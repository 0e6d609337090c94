"""The batch lane as a study sees it: a door where calls are put down, and a carrier that wakes whose calls came back.

L1. A call waits in one place only: in a load, or in a pack. Asked again meanwhile (by a replay), it waits on.
L2. A hold is taken when the call is put down and stands until its line is settled. Nothing leaves before the pack that
    holds it is durable.
L3. What is out is collected by every run of the study, whatever lane its new calls take.
L4. Whose a pack's calls are is read only as it was stored. A row that is lost would be a call that leaves once more.
"""

from asyncio import Event, TaskGroup
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import BatchRoute, PackFile, PackStore, attempt_key
from trialrun.core.calls import Call
from trialrun.core.marks import Marks
from trialrun.core.packs import UNSENT, Pack, pack_id, pack_of, packs_in
from trialrun.core.ports import Answer, Clock, Journal, PriceBook
from trialrun.core.state import BATCH, TrialState
from trialrun.core.study import Batching, Limits
from trialrun.gateway.batches.courier import Courier, Office
from trialrun.gateway.batches.deadline import Deadline
from trialrun.gateway.batches.decisions import carry_out
from trialrun.gateway.batches.loads import Load, Loads
from trialrun.gateway.batches.stored import TrialsOf, file_of, must_be_whole
from trialrun.gateway.batches.telling import bug_in, late_line, line_of, lines_of
from trialrun.gateway.batches.unpacking import Till, Unpacked, dissolve, ended_since_built
from trialrun.gateway.batches.waiting_room import WaitingRoom
from trialrun.gateway.gateway import Gateway
from trialrun.gateway.pausing import pause, to_its_end

_ZERO = Decimal(0)
_CALLS_A_COMMIT = 256
"""So many calls are put down before the disk has to follow. Nobody else waits for it, and memory would hold them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneParts:
    """What a batch lane is made of."""

    gateway: Gateway
    journal: Journal
    route: Callable[[str], BatchRoute]
    """The batch API of a model's provider. Raises UsageError where there is none."""
    prices: PriceBook
    packs: PackStore
    settings: Batching
    limits: Limits
    clock: Clock
    study: str
    tag: str
    tell: Callable[[str], None]
    is_detached: bool = False
    takes_new: bool = True
    """Whether new calls travel in batches; if not, only what is out is collected."""


class BatchLane:
    """Puts calls into packs, and carries the packs."""

    def __init__(self, parts: LaneParts) -> None:
        self._parts = parts
        self._purse = parts.gateway.purse
        self._out = Marks()
        """Attempts that wait here, by key: a call may be out a second time, when the first is in doubt."""
        self._short: dict[str, None] = {}
        """Trials that wait for money which packs that are out hold."""
        self._later = Marks()
        """Trials whose calls are left for a later run."""
        self._lost = Marks()
        """Attempts, by key, that are out, and of which nothing comes in this run."""
        self._loads = Loads(packs=parts.packs, settings=parts.settings, tag=parts.tag, depart=self._depart)
        self._departing: list[Load] = []
        self._sealing: list[Load] = []
        self._packs: dict[str, Pack] = {}
        self._taken_ids: set[str] = set()
        """Of all packs that were ever built."""
        self._carried = 0
        self._not_durable = 0
        """Calls that were put down since somebody waited for the disk."""
        self._news = Event()
        self._stopping = Event()
        self._deadline = Deadline(parts.settings, parts.clock, self._tell_deadline)
        self._room = WaitingRoom(
            parts.settings, parts.clock, self._stopping, self._deadline, is_detached=parts.is_detached
        )
        self._wake: Callable[[Iterable[str]], None] = lambda _trials: None
        self._is_over = False
        self._is_resting = False
        self._stop: e.StudyStop | e.StoreError | None = None
        self._quiet = Event()

    # --- before the run ----------------------------------------------------------------------------------------------

    async def recall(self) -> None:
        """Remember what is out: before any trial is opened, and after the money of earlier runs was carried."""
        parts = self._parts
        known = packs_in(await parts.journal.facts_of(""))
        parts.packs.sweep(set(known))
        self._taken_ids = set(known)
        self._packs = {pack.id: pack for pack in known.values() if pack.is_open}
        till = self._till()
        for pack in list(self._packs.values()):
            must_be_whole(pack, parts.packs)
            ended = await ended_since_built(pack, parts.journal)
            for row in parts.packs.rows(pack.id):
                if row.key in ended.surely:
                    continue
                if row.key not in ended.in_doubt:
                    self._purse.ledger.expect(row.condition, row.trial, row.ceiling_usd or _ZERO)
                self._out.add(row.key)
            await carry_out(pack, till, clock=parts.clock, ended=ended)
            await self._dissolve_if_stale(pack)
            if not pack.is_open:
                self._release(pack)
        still = [pack for pack in self._packs.values() if pack.is_open]
        self._carried = len(still)
        self._room.remember(still)
        self._deadline.go_on(known.values())
        await self._deadline.recall(known.values(), parts.packs, parts.journal)

    async def _dissolve_if_stale(self, pack: Pack) -> None:
        """A pack that has not left holds calls that are not wanted any more if their trials began anew since."""
        parts = self._parts
        if pack.stage not in UNSENT:
            return
        anew = {entry.trial async for entry in parts.journal.since(pack.built_seq, "superseded")}
        is_stale = any(row.trial in anew for row in parts.packs.rows(pack.id))
        if is_stale or not parts.takes_new:
            reason = "its pack was taken apart before it left"
            await dissolve(pack, self._till(), clock=parts.clock, error=f.NEVER_SENT, reason=reason)

    # --- the door ---------------------------------------------------------------------------------------------------

    async def ask(
        self, call: Call, *, attempts_before: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        """Put the call down and unwind its trial; the reply is in the journal when the trial is replayed."""
        if self._not_durable >= _CALLS_A_COMMIT:
            await self._parts.journal.commit()
            self._not_durable = 0
        # Also the number that comes next: it is free again in the journal before its pack is let go of here.
        if any(self.has(call.trial, call.address, number) for number in range(1, attempts_before + 2)):
            raise e.Parked(BATCH)
        is_late = self._parts.takes_new and self._deadline.is_past
        if self._goes_live:
            return await self._parts.gateway.ask(
                call, attempts_before=attempts_before, delta=delta, texts=texts
            )
        if self._is_resting:
            raise e.Drained
        if is_late:
            self._later.add(call.trial)
            raise e.Parked(BATCH)
        self._put_down(call, attempts_before + 1, delta, texts)
        raise e.Parked(BATCH)

    @property
    def _goes_live(self) -> bool:
        """Whether new calls leave at once."""
        parts = self._parts
        return not parts.takes_new or (self._deadline.is_past and parts.settings.then == "live")

    def _put_down(
        self, call: Call, attempt: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> None:
        parts, request = self._parts, call.request
        route = parts.route(request.model)
        price = parts.prices.batch_price_of(request.model)
        ceiling = self._purse.ceiling_of(call, request, price)
        body = route.provider.prepare(call)
        if not self._purse.take(call, ceiling or _ZERO):
            self._short[call.trial] = None
            return
        try:
            self._loads.add(call, body, route, attempt=attempt, ceiling_usd=ceiling, now=parts.clock.now())
        except BaseException:
            self._purse.release(call, ceiling or _ZERO)
            raise
        held = f.Held(
            at=call.address,
            attempt=attempt,
            model=request.model,
            party=call.party,
            fingerprint=request.fingerprint,
            ceiling_usd=ceiling,
            purpose=call.purpose,
            turn=call.turn,
            request=delta if attempt == 1 else None,
            lane="batch",
        )
        parts.journal.append(call.trial, [held], texts if attempt == 1 else None)
        self._out.add(attempt_key(call.trial, call.address, attempt))
        self._not_durable += 1
        self._news.set()

    # --- as the engine sees it --------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return not self._is_over and bool(self._loads or self._departing or self._carried)

    def waits_for(self, state: TrialState) -> bool:
        is_out = any(self.has(state.id, at, attempt) for at, attempt in state.holds)
        return is_out or state.id in self._short or state.id in self._later

    def has(self, trial: str, at: str, attempt: int) -> bool:
        return attempt_key(trial, at, attempt) in self._out

    def is_coming(self, trial: str, at: str, attempt: int) -> bool:
        """Whether this attempt is out, and its end is waited for in this run."""
        key = attempt_key(trial, at, attempt)
        return key in self._out and key not in self._lost

    def nothing_else(self) -> None:
        self._loads.flush()

    async def run(self, wake: Callable[[Iterable[str]], None]) -> None:
        """Carry packs until this is cancelled; an error that stops the study is raised when the couriers rest."""
        self._wake = wake
        try:
            async with TaskGroup() as group:
                for pack in [pack for pack in self._packs.values() if pack.is_open]:
                    group.create_task(self._carry(pack))
                while self._stop is None:
                    self._news.clear()
                    for load in self._taken():
                        self._carried += 1
                        self._sealing.append(load)
                        group.create_task(self._seal_and_carry(load))
                    wait_s = self._loads.flush_old(self._parts.clock.now())
                    if self._departing:
                        continue
                    if wait_s is None:
                        await self._news.wait()
                    else:
                        await pause(self._parts.clock, wait_s, self._news)
        except BaseExceptionGroup as many:
            raise bug_in(many) from None
        finally:
            self._is_over = True
            self._put_back()
            self._quiet.set()
        raise self._stop

    async def rest(self, *, is_patient: bool) -> None:
        """Patient: what is put down leaves, and all that is out comes back. Else couriers stop at a safe point."""
        self._is_resting = True
        if is_patient:
            self._loads.flush()
        else:
            self._put_back()
            self._stopping.set()
        while self.is_busy:
            self._quiet.clear()
            await self._quiet.wait()
        if self._stop is not None:
            raise self._stop

    def waits(self) -> tuple[str, ...]:
        """What is waited for, for progress lines."""
        lines: list[str] = []
        if waiting := self._loads.waiting:
            lines.append(f"{waiting:,} calls wait for company")
        out = [pack for pack in self._packs.values() if pack.is_open]
        return (*lines, *([line_of(pack) for pack in out] if len(out) < 3 else [lines_of(out)]))

    # --- packs ------------------------------------------------------------------------------------------------------

    def _depart(self, load: Load) -> None:
        self._departing.append(load)
        self._news.set()

    def _put_back(self) -> None:
        """Forget what has not been sealed: its calls are put down again when their trials are replayed."""
        for load in (*self._loads.discard(), *self._taken()):
            load.spool.discard()
        if self._is_over:
            # Nobody seals these any more: what was cancelled before it began never came to it.
            for load in self._sealing:
                load.spool.discard()

    def _taken(self) -> list[Load]:
        loads, self._departing = self._departing, []
        return loads

    async def _seal_and_carry(self, load: Load) -> None:
        with self._carrying():
            pack, file = await self._sealed(load)
            await self._bring(pack, file)

    async def _carry(self, pack: Pack) -> None:
        with self._carrying():
            file = await file_of(pack, self._parts.packs)
            await self._bring(pack, file)

    @contextmanager
    def _carrying(self) -> Generator[None, None, None]:
        """What stops one pack stops the study, but the others come to rest before it is told: a courier that is cut
        in the middle leaves a doubt behind."""
        try:
            yield
        except (e.StudyStop, e.StoreError) as stop:
            self._stop = self._stop or stop
            self._stopping.set()
            self._news.set()
        finally:
            self._carried -= 1
            self._quiet.set()
            self._wake([])

    async def _sealed(self, load: Load) -> tuple[Pack, PackFile]:
        """Make a pack of a load, and of the pack a fact."""
        parts, spool = self._parts, load.spool
        id_ = pack_id(parts.study, load.model, spool.digest, taken=self._taken_ids)
        self._taken_ids.add(id_)
        try:
            file = await to_its_end(lambda: spool.seal(id_))
        except BaseException:
            spool.discard()
            raise
        finally:
            self._sealing.remove(load)
        built = p.PackBuilt(
            pack=id_,
            model=load.model,
            endpoint=load.endpoint,
            requests=file.requests,
            size_bytes=file.size_bytes,
            digest=spool.digest,
            tokens=load.tokens,
            ceiling_usd=load.ceiling_usd,
            window=file.window,
            beside=file.beside,
        )
        parts.journal.append("", [built])
        await parts.journal.commit()
        pack = self._packs[id_] = pack_of(built, parts.clock.now())
        return pack, file

    async def _bring(self, pack: Pack, file: PackFile) -> None:
        """Carry a pack as far as it goes in this run."""
        if not await self._room.enter(pack):
            self._parts.tell(
                f"{pack.requests} calls of {pack.model} wait for room in the provider's queue; a later run hands "
                "them in"
            )
            return
        try:
            unpacked = await Courier(pack, file, self._parts.route(pack.model), self._office()).carry()
        finally:
            self._room.leave(pack)
        if unpacked is not None:
            await self._finish(pack, unpacked)
        elif not pack.is_open:
            self._release(pack)
        elif pack.stage == "doubted" or self._goes_live:
            await self._stop_expecting(pack)

    async def _finish(self, pack: Pack, unpacked: Unpacked) -> None:
        self._parts.gateway.meter.batched += unpacked.counts["ok"] + unpacked.counts["unreadable"]
        """Everything that came is settled: wake whose it is, and say what is missing."""
        if unpacked.foreign:
            example = unpacked.example[:80]
            reason = f"its results have {unpacked.foreign} ids that were never sent, such as `{example}`"
            await self._doubt(pack, reason, pack.requests)
            await self._stop_expecting(pack)
            return
        if unpacked.missing:
            reason = f"{len(unpacked.missing)} of its {pack.requests} calls are in no result"
            await self._doubt(pack, reason, len(unpacked.missing))
        else:
            await self._record(pack, p.PackClosed(pack=pack.id, counts=dict(unpacked.counts)))
        self._release(pack, missing=unpacked.missing)
        if unpacked.stop is not None:
            raise unpacked.stop

    def _tell_deadline(self) -> None:
        parts = self._parts
        out = [pack for pack in self._packs.values() if pack.is_open]
        parts.tell(late_line(out, parts.settings, parts.prices))

    async def _doubt(self, pack: Pack, reason: str, lines: int) -> None:
        await self._record(pack, p.PackDoubted(pack=pack.id, reason=reason, lines=lines))
        self._parts.tell(
            f"batch {pack.batch or pack.id} is in doubt: {reason}; `trialrun batch resolve` decides"
        )

    async def _record(self, pack: Pack, fact: p.PackFact) -> None:
        self._parts.journal.append("", [fact])
        pack.apply(fact, self._parts.clock.now())
        await self._parts.journal.commit()

    async def _stop_expecting(self, pack: Pack) -> None:
        """Nothing comes of this pack in this run. Who waits for its money to make room must not wait for ever."""
        ended = await ended_since_built(pack, self._parts.journal)
        for row in self._parts.packs.rows(pack.id):
            if row.key not in ended.surely:
                self._lost.add(row.key)
                if row.key not in ended.in_doubt:
                    self._purse.doubt(row, row.ceiling_usd or _ZERO)
        self._wake(self._no_longer_short())

    def _no_longer_short(self) -> list[str]:
        """Those that waited for money may look again whether there is some."""
        trials = list(self._short)
        self._short.clear()
        return trials

    def _release(self, pack: Pack, *, missing: Marks | None = None) -> None:
        """The calls of this pack are not out any more: their trials go on, and those that waited for money.

        What is missing stays out, and lost.
        """
        for row in self._parts.packs.rows(pack.id):
            if missing and row.key in missing:
                self._lost.add(row.key)
            else:
                self._out.discard(row.key)
        self._wake(TrialsOf(pack.id, self._parts.packs, missing or Marks()))
        self._wake(self._no_longer_short())

    def _till(self) -> Till:
        parts = self._parts
        return Till(
            journal=parts.journal,
            purse=self._purse,
            prices=parts.prices,
            packs=parts.packs,
            breaker=parts.gateway.breaker,
            limits=parts.limits,
        )

    def _office(self) -> Office:
        parts = self._parts
        return Office(
            till=self._till(),
            settings=parts.settings,
            deadline=self._deadline,
            clock=parts.clock,
            stopping=self._stopping,
            tell=parts.tell,
            is_detached=parts.is_detached,
        )
