"""One pack's way to the provider and back: a state machine whose every step is durable before the next is taken.

    built → intent → uploaded → intent → created → seen ... → fetched (raw bytes kept) → settled line by line → closed

C1. Nothing is created while it is possible that it was created before: an ambiguous creation is looked up by the
    provider's anchor first. Where there is none, the pack is in doubt, its money stays held, and a person decides.
C2. An answer that nobody understands is looked at again, slowly; it is never a reason to send again.
C3. Results are stored as they came before anybody reads them, and read only as they were stored.
"""

import re
from asyncio import Event
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trialrun.core import chance
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import BatchRoute, Look, PackFile
from trialrun.core.packs import UNSENT, Pack, seen
from trialrun.core.ports import Clock
from trialrun.core.retry import next_wait
from trialrun.core.study import Batching
from trialrun.core.totals import spelled
from trialrun.gateway.batches.balance import balance_of, summed
from trialrun.gateway.batches.deadline import REASON, Deadline
from trialrun.gateway.batches.unpacking import Till, Unpacked, dissolve, unpack
from trialrun.gateway.pausing import pause

T = TypeVar("T")
_FIRST_LOOK_S = 2.0
_GROWTH = 1.5
_SLOWEST_LOOK_S = 600.0
_LOOKUPS = 3
"""So often a batch that may exist is looked for before it is taken for never made: lists lag behind."""
_LOOKUP_PAUSE_S = 10.0
_NOT_FOUND = 404
_UNKNOWN = "the provider does not know it"
_MEND = "mend the cause and run the study again; `--lane live` sends its calls one by one"
_PATIENCE = 120
"""So often a step that begins no work is tried again: two hours of a provider that is away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Office:
    """What all couriers of a run share."""

    till: Till
    settings: Batching
    deadline: Deadline
    clock: Clock
    stopping: Event
    """Set when the run wants to end: a courier stops at the next point where nothing is lost."""
    tell: Callable[[str], None]
    is_detached: bool = False
    """Whether a courier's work is done when its batch is created."""


class Courier:
    """Carries one pack."""

    def __init__(self, pack: Pack, file: PackFile, route: BatchRoute, office: Office) -> None:
        self.pack = pack
        self._file = file
        self._route = route
        self._office = office
        self._journal = office.till.journal
        self._clock = office.clock
        self._refusals = 0
        """Of its creation, in this run."""
        self._is_pulled_out = False
        """Whether this run has asked the provider to cancel it."""

    async def carry(self) -> Unpacked | None:
        """Bring the pack as far as it goes in this run. Gives what was unpacked, or None if it is not back yet."""
        pack = self.pack
        is_waiting = False
        await self._fetch_again_if_damaged()
        while not (self._is_stopping or is_waiting):
            if pack.stage in UNSENT and self._office.deadline.is_past:
                await self._take_apart()
            match pack.stage:
                case "built" | "uploading":
                    await self._upload()
                case "uploaded":
                    await self._create()
                case "creating":
                    await self._look_up()
                case "created":
                    await self._follow()
                    is_waiting = pack.stage == "created"
                case "doubted":
                    await self._identify()
                    is_waiting = pack.stage == "doubted"
                case _:
                    break
        return await self._unpack() if pack.stage == "fetched" else None

    # --- there ------------------------------------------------------------------------------------------------------

    async def _upload(self) -> None:
        """A second upload of the same bytes costs nothing: only creation begins work."""
        await self._record(p.PackIntended(pack=self.pack.id, step="upload"))
        try:
            input_ = await self._insist("upload it", lambda: self._route.upload(self._file))
        except e.RequestRefused as error:
            raise self._not_taken(error) from error
        await self._record(p.PackUploaded(pack=self.pack.id, input=input_))

    async def _create(self) -> None:
        pack = self.pack
        await self._record(p.PackIntended(pack=pack.id, step="create"))
        try:
            batch = await self._route.create(self._file, pack.input)
        except e.CallError as error:
            if error.billed == "unknown":
                await self._look_up()
                return
            await self._record(p.PackRefused(pack=pack.id, error=type(error).__name__, reason=error.what))
            self._refusals += 1
            await self._wait_after_refusal(error)
        except e.StudyStop as error:
            await self._record(p.PackRefused(pack=pack.id, error=type(error).__name__, reason=error.what))
            raise
        else:
            await self._made(batch)

    async def _made(self, batch: str, *, is_found: bool = False) -> None:
        await self._record(p.PackCreated(pack=self.pack.id, batch=batch, is_found=is_found))
        self._office.deadline.begin(self._clock.now())

    async def _wait_after_refusal(self, error: e.CallError) -> None:
        """Wait before the next attempt, or give up: then the study stops, and its next run tries again."""
        wait_s = self._wait_s(error, self._refusals)
        if wait_s is None:
            raise self._not_taken(error) from error
        await pause(self._clock, wait_s, self._office.stopping)

    def _not_taken(self, error: e.CallError) -> e.BreakerOpen:
        return e.BreakerOpen(
            f"the provider does not take the batch: {error.what}", where=self.pack.model, fix=_MEND
        )

    async def _look_up(self) -> None:
        """C1: the batch may exist. Find it, or be sure that it does not."""
        pack, route = self.pack, self._route
        found: list[str] = []
        for number in range(_LOOKUPS):
            if number:
                await pause(self._clock, _LOOKUP_PAUSE_S, self._office.stopping)
                if self._is_stopping:
                    return
            found = [batch for batch in await self._candidates() if batch not in pack.former]
            if found:
                break
        if found and route.anchor != "none":
            await self._made(found[0], is_found=True)
        elif route.anchor == "none":
            await self._doubt_creation(found)
        else:
            reason = f"its creation got no reply, and the provider lists no batch of it ({_LOOKUPS} looks)"
            await self._record(p.PackRefused(pack=pack.id, error="NotFound", reason=reason))

    async def _candidates(self) -> list[str]:
        return await self._ask("look for it", lambda: self._route.find(self._file, self.pack.input))

    async def _doubt_creation(self, candidates: list[str]) -> None:
        listed = (
            f"; it may be {', '.join(candidates[:5])}" if candidates else "; the provider lists none like it"
        )
        await self._doubt(f"its creation got no reply{listed}", self.pack.requests)

    # --- the wait ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Look until the batch has ended, and fetch what it left. Faster at first: most are done soon."""
        wait_s, look = _FIRST_LOOK_S, None
        while not self._is_stopping:
            await self._pull_out_if_late(look)
            look = await self._look_once()
            if self.pack.stage != "created" or self._office.is_detached:
                return
            slowest = _SLOWEST_LOOK_S if look.phase == "unknown" else self._office.settings.poll_s
            wait_s = min(slowest, wait_s * _GROWTH)
            await pause(self._clock, min(wait_s, self._until_deadline_s()), self._office.stopping)

    async def _look_once(self) -> Look:
        """What the provider says now; if the batch has ended, its results are here afterwards."""
        pack = self.pack
        look = await self._look_at_ours()
        if pack.look is None or seen(pack.id, look) != seen(pack.id, pack.look):
            if look.phase == "unknown":
                self._office.tell(
                    f"batch {pack.batch}: the provider says `{look.word}`, which nobody knows here; waiting"
                )
            await self._record(seen(pack.id, look))
        match look.phase:
            case "ended":
                await self._fetch(look)
            case "failed":
                await self._fail(look)
            case "gone":
                await self._doubt("the provider has deleted its results", pack.requests)
            case _:
                pass
        return look

    async def _look_at_ours(self) -> Look:
        """A batch that its provider does not know: the key is another account's, or it was deleted. Only a person can
        tell; the study stops, and its next run looks once more."""
        pack = self.pack
        try:
            return await self._insist("look at it", lambda: self._route.look(pack.batch))
        except e.RequestRefused as error:
            stop = self._stop("look at it", error)
            if error.status == _NOT_FOUND:
                stop.fix += "; if it was deleted, `trialrun batch resolve` decides what becomes of its calls"
                if pack.stage == "created":
                    await self._doubt(f"{_UNKNOWN}: {error.what}", pack.requests)
            raise stop from error

    async def _fetch(self, look: Look) -> None:
        """C3. A download that breaks off begins anew; one that finds nothing any more leaves the pack in doubt."""
        pack = self.pack
        files: list[tuple[str, str, int]] = []
        for number, result in enumerate(look.results, start=1):
            name = f"results-{number}.jsonl"
            try:
                digest, size = await self._insist(
                    "fetch its results", lambda n=name, r=result: self._kept(n, r)
                )
            except e.RequestRefused as error:
                await self._doubt(f"its results cannot be had any more: {error.what}", pack.requests)
                return
            files.append((name, digest, size))
        await self._record(p.PackFetched(pack=pack.id, files=tuple(files)))

    async def _fetch_again_if_damaged(self) -> None:
        """What an earlier run stored is read only as it was stored; the provider still has it, as a rule."""
        pack, packs = self.pack, self._office.till.packs
        if pack.stage != "fetched" or pack.look is None:
            return
        damaged = [name for name, digest, _ in pack.files if not packs.has(pack.id, name, digest)]
        if damaged:
            self._office.tell(
                f"batch {pack.batch}: {', '.join(damaged)} is not as it was stored; fetched again"
            )
            await self._fetch(pack.look)

    async def _kept(self, name: str, result: str) -> tuple[str, int]:
        chunks: AsyncIterator[bytes] = self._route.fetch(self.pack.batch, result)
        return await self._office.till.packs.keep(self.pack.id, name, chunks)

    async def _fail(self, look: Look) -> None:
        """The provider refused the pack as a whole: nothing ran, and nothing was billed."""
        pack = self.pack
        reason = "; ".join(look.problems[:5]) or f"the provider says `{look.word}` and no reason"
        if _is_about_room(look):
            await self._record(p.PackRefused(pack=pack.id, error="QueueFull", reason=reason))
            self._office.tell(
                f"batch {pack.batch}: the provider's queue is full; it is handed in again later"
            )
            await pause(self._clock, self._office.settings.poll_s, self._office.stopping)
            return
        lines = refused_lines(look.problems)
        till = self._office.till
        await dissolve(pack, till, clock=self._clock, error="BatchFailed", reason=reason, refused=lines)
        if not lines:
            raise e.BreakerOpen(
                f"the provider refused a batch of {pack.requests} calls as a whole: {reason}",
                where=pack.model,
                fix=_MEND,
            )

    async def _unpack(self) -> Unpacked:
        """Settle the lines, and lay beside them what the provider says of the whole."""
        till, settled = summed(self._office.till, self.pack)
        unpacked = await unpack(self.pack, self._route, till)
        balance = balance_of(self.pack, settled.totals)
        if balance is not None and not unpacked.foreign:
            await self._record(balance)
            if off := spelled(self.pack.off):
                self._office.tell(
                    f"batch {self.pack.batch}: the provider's totals say {off} beyond what its results come to; "
                    "`trialrun batch list` keeps it"
                )
        return unpacked

    # --- late, and in doubt -----------------------------------------------------------------------------------------

    def _until_deadline_s(self) -> float:
        return float("inf") if self.pack.is_cancelled else self._office.deadline.left_s

    async def _pull_out_if_late(self, look: Look | None) -> None:
        """Past the deadline the rest is cancelled; what is done by then comes back with its results.

        The cancelling of an earlier run may never have left: where a look says so, it is done again.
        """
        pack = self.pack
        if self._is_pulled_out or not self._office.deadline.is_past:
            return
        if not pack.is_cancelled:
            await self._record(p.PackIntended(pack=pack.id, step="cancel", reason=REASON))
        elif look is None or look.phase not in ("queued", "running"):
            return
        self._is_pulled_out = True
        try:
            await self._insist("cancel it", lambda: self._route.cancel(pack.batch))
        except e.RequestRefused as error:
            # Most likely it has just ended; what it left says so, and nothing is lost by waiting for it.
            self._office.tell(f"batch {pack.batch}: the provider does not cancel it: {error.what}")

    async def _take_apart(self) -> None:
        """Past the deadline nothing leaves any more: the calls go back to their trials."""
        pack = self.pack
        await self._record(p.PackIntended(pack=pack.id, step="cancel", reason=REASON))
        await dissolve(pack, self._office.till, clock=self._clock, error=f.NEVER_SENT, reason=REASON)

    async def _identify(self) -> None:
        """A batch without an anchor is ours if its results have our ids; that much can be known without a person."""
        pack, route = self.pack, self._route
        if pack.decision is None and pack.batch and pack.reason.startswith(_UNKNOWN):
            await self._look_at_ours()
            await self._made(pack.batch, is_found=True)
        if pack.batch or pack.decision is not None:
            return
        strangers = set[str]()
        while not self._is_stopping:
            running = False
            for batch in await self._candidates():
                if batch in strangers:
                    continue
                look = await self._ask("look at it", lambda b=batch: route.look(b))
                if look.phase == "ended":
                    if await self._has_our_ids(batch, look):
                        await self._made(batch, is_found=True)
                        return
                    strangers.add(batch)
                running |= look.phase not in ("ended", "failed", "gone")
            if not running or self._office.is_detached:
                return
            await pause(self._clock, self._office.settings.poll_s, self._office.stopping)

    async def _has_our_ids(self, batch: str, look: Look) -> bool:
        for result in look.results:
            try:
                first = await self._insist("read its results", lambda r=result: self._first_line(batch, r))
            except e.RequestRefused:
                return False  # they are deleted, or not for us
            id_ = self._route.read(first).id
            return any(row.id == id_ for row in self._office.till.packs.rows(self.pack.id))
        return False

    async def _first_line(self, batch: str, result: str) -> bytes:
        begin = b""
        async for chunk in self._route.fetch(batch, result):
            begin += chunk
            if b"\n" in begin:
                break
        return begin.partition(b"\n")[0]

    async def _doubt(self, reason: str, lines: int) -> None:
        await self._record(p.PackDoubted(pack=self.pack.id, reason=reason, lines=lines))

    # --- steps ------------------------------------------------------------------------------------------------------

    @property
    def _is_stopping(self) -> bool:
        return self._office.stopping.is_set()

    async def _record(self, fact: p.PackFact) -> None:
        """Durable before the next step."""
        self._journal.append("", [fact])
        self.pack.apply(fact, self._clock.now())
        await self._journal.commit()

    async def _ask(self, what: str, step: Callable[[], Awaitable[T]]) -> T:
        """A step that a provider has no reason to refuse: if it does, the study stops, and a later run goes on."""
        try:
            return await self._insist(what, step)
        except e.RequestRefused as error:
            raise self._stop(what, error) from error

    def _stop(self, what: str, error: e.RequestRefused) -> e.BreakerOpen:
        return e.BreakerOpen(
            f"the provider refuses to {what}: {error.what}",
            where=f"batch {self.pack.batch or self.pack.id}",
            fix=f"{error.fix or 'mend the cause'}; then run the study again: nothing is lost",
        )

    async def _insist(self, what: str, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step that begins no work until it succeeds, or until there is no sense in it."""
        number = 0
        while True:
            number += 1
            try:
                return await step()
            except e.RequestRefused:
                raise
            except e.CallError as error:
                wait_s = self._wait_s(error, number, attempts=None if self._office.is_detached else _PATIENCE)
                if wait_s is None or self._is_stopping:
                    raise e.BreakerOpen(
                        f"{number} attempts to {what} failed: {error.what}",
                        where=f"batch {self.pack.batch or self.pack.id}",
                        fix="run the study again later: nothing is lost, and what is out is collected then",
                    ) from error
                await pause(self._clock, wait_s, self._office.stopping)

    def _wait_s(self, error: e.CallError, number: int, *, attempts: int | None = None) -> float | None:
        jitter = chance.fraction(chance.derive(self.pack.id.encode(), "wait", number))
        most = attempts or self._office.till.limits.call_attempts
        return next_wait(error, attempt=number, attempts=most, jitter=jitter)


_LINE = re.compile(r"\bline (\d+)\b", re.IGNORECASE)


def refused_lines(problems: Sequence[str]) -> dict[int, str]:
    """Which lines of the file the provider named, counted from 1, and what it says of them."""
    found: dict[int, str] = {}
    for problem in problems:
        if named := _LINE.search(problem):
            found.setdefault(int(named.group(1)), problem)
    return found


_ROOM = ("token_limit", "enqueued", "queue")


def _is_about_room(look: Look) -> bool:
    """Whether the provider's queue for this model is full: the same batch will be taken later."""
    return any(word in problem.lower() for problem in look.problems for word in _ROOM)
