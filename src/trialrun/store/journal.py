"""A study's journal in SQLite: facts in, in order, and read back.

J1. Facts become durable in the order in which they were appended.
J2. When `commit` returns, everything appended before it is durable.
J3. After a failed commit nothing later is accepted: the journal never has a hole.
J4. A read shows everything that a `commit` which returned covers; what was appended since may show or not.
J5. A row of `trial` equals the fold of its facts, or says in the same transaction that it lags.

`append` and the reads work in the event loop's thread, and only what waits for the disk in a thread of its own: a
read of a trial takes fractions of a millisecond, while every row fetched in another thread would wait for the
interpreter lock. While one batch is written, the next one gathers.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

import msgspec

from trialrun.core.errors import StoreError
from trialrun.core.facts import (
    ActBegan,
    ActEnded,
    ArtefactKept,
    Entry,
    Finished,
    Measured,
    Rated,
    Said,
    StateLogged,
    StudyFact,
    Ticked,
    TrialFact,
)
from trialrun.core.ports import Clock, Command, Tally
from trialrun.core.state import TrialState
from trialrun.store import database, inbox, queries, rows, schema, wire
from trialrun.store.batch import Batch, write_trials
from trialrun.store.database import Cell, Database
from trialrun.store.failures import store_error
from trialrun.store.lock import StudyLock
from trialrun.store.writer import Writer

_OPEN = frozenset({"planned", "running"})
"""A trial with such a status will get more facts soon; its state is kept in memory and its row may lag."""

SILENT = frozenset({Said, Measured, Rated, StateLogged, ArtefactKept, Ticked, ActBegan, ActEnded})
"""The most frequent kinds of those that change no state: to ask `TrialState.apply` costs as much as to store them."""

_IN_MEMORY = 8192
"""Above this number of open trials, those that rested longest are left to the table (failed ones taken up again)."""

_PACE_S = 0.004
"""With many trials open, batches begin at least so far apart; see `_gather`."""

_ENOUGH = 16
"""With so many who wait, a batch is worth its cost and begins at once."""

_FEW = 8
"""So many open trials are never held up."""

_KNOWN_TEXTS = 4096


class SqliteJournal:
    """The journal of the study in one folder. `open` takes the study's lock, `close` gives it back."""

    def __init__(self, folder: Path, clock: Clock, lock: StudyLock, writing: Database) -> None:
        self._path = folder / schema.FILE
        self.batches = 0
        """Transactions so far; a thousand commits may share one."""
        self._clock = clock
        self._lock = lock
        self._writing = writing
        self._reading = database.open_reader(self._path)
        with self._reading.told():
            self._next_seq = queries.last_seq(self._reading) + 1
        self._states: dict[str, TrialState] = {}
        """Trials that are open, or whose row is on its way. Everything else is read from the table."""
        self._lagging: set[str] = set()
        """Of these, the ones whose row says so."""
        self._unborn: set[str] = set()
        """Trials that were looked for and have no row, so need not be looked for when their first fact comes."""
        self._fresh: set[str] = set()
        self._known: set[str] = set()
        self._pending = Batch()
        self._flight: Batch | None = None
        self._launched_at = 0.0
        self._error: StoreError | None = None
        self._writer = Writer(writing)

    @classmethod
    def open(cls, folder: Path, *, clock: Clock) -> "SqliteJournal":
        """Begin or continue the study in this folder."""
        path = folder / schema.FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise store_error(error, folder) from error
        lock = StudyLock(folder, now=clock.now())
        try:
            writing = database.open_writer(path)
            try:
                catch_up(writing)
                return cls(folder, clock, lock, writing)
            except BaseException:
                writing.close()
                raise
        except BaseException:
            lock.release()
            raise

    # --- writing ----------------------------------------------------------------------------------------------

    def append(
        self,
        trial: str,
        facts: Sequence[TrialFact] | Sequence[StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        """Put facts at the end; a fact that is no plain data is refused before anything is taken."""
        if self._error is not None:
            raise _again(self._error)
        at, seq = self._clock.now(), self._next_seq
        cells: list[Cell] = []
        for fact in facts:
            body = wire.encode(fact)
            cells += (seq, trial, at, wire.KINDS[type(fact)], body, wire.checksum(seq, trial, at, body))
            seq += 1
        if texts:
            self._append_texts(texts)
        pending = self._pending
        if trial and facts:
            changes = tuple(cast("Sequence[TrialFact]", facts))
            state = self._states.pop(trial, None)
            if state is None and trial in self._unborn:
                self._unborn.discard(trial)
                state = TrialState(id=trial)
            if state is None:
                pending.arrivals.append((trial, at, changes))
            else:
                self._states[trial] = state  # at the end: the first are those that rested longest
                _apply(state, at, changes)
            pending.trials[trial] = None
        pending.facts += cells
        self._next_seq = seq

    async def commit(self) -> None:
        """Wait until everything appended so far is durable."""
        self._must_accept()
        loop = asyncio.get_running_loop()
        self._land_from_elsewhere(loop)
        batch = self._pending
        if batch.is_empty:
            if self._flight is None:
                return
            batch = self._flight
        elif batch.loop is not loop:
            batch.loop = loop
            if self._flight is None:
                self._gather(batch, loop)
        waiter = loop.create_future()
        batch.waiters.append(waiter)
        if batch.timer is not None and len(batch.waiters) >= min(_ENOUGH, len(self._lagging)):
            batch.timer.cancel()
            loop.call_soon(self._launch, batch)
        await waiter
        if batch.error is not None:
            raise _again(batch.error)

    async def take(self, command: Command, *, answer: str) -> None:
        """Acknowledge a wish, durably."""
        self._must_accept()
        self._pending.takes.append((self._clock.now(), answer, command.id))
        await self.commit()

    async def heartbeat(self, live: Mapping[str, object]) -> None:
        """Publish where this process stands."""
        self._must_accept()
        at = self._clock.now()
        body = {**live, "pid": os.getpid(), "host": socket.gethostname(), "at": at}
        self._pending.live = (at, msgspec.json.encode(body))
        await self.commit()

    async def close(self) -> None:
        """Commit what is left, fold the log into the file, and let others in."""
        try:
            if self._error is None and self._writer.is_running:
                await self.commit()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything without committing what is pending; what was committed stays."""
        if not self._writer.is_running:
            return
        self._writer.stop()
        self._error = self._error or StoreError("the journal is closed", where=str(self._path))
        self._reading.close()
        try:
            database.close_for_good(self._writing)
        finally:
            self._lock.release()

    # --- reading ----------------------------------------------------------------------------------------------

    async def facts_of(self, trial: str) -> list[Entry]:
        """All facts of one trial (or, with an empty name, of the study), oldest first."""
        with self._reading.told():
            return queries.facts_of(self._reading, trial)

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        """The stored texts of these hashes; unknown ones are left out."""
        with self._reading.told():
            return queries.texts(self._reading, hashes)

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]:
        """Where these trials stand; those that never began are left out."""
        known = self._all_open()
        found = {trial: rows.copy_of(known[trial]) for trial in trials if trial in known}
        rest = [trial for trial in trials if trial not in found] if found else trials
        if rest:
            with self._reading.told():
                found.update((state.id, state) for state in queries.states(self._reading, rest))
            if len(self._unborn) > _IN_MEMORY:
                self._unborn.clear()
            self._unborn.update(trial for trial in rest if trial not in found)
        return found

    async def with_status(self, *statuses: str) -> AsyncIterator[TrialState]:
        """All trials that have one of these statuses; all that ever began when none is named."""
        seen = set(self._all_open())
        for state in [rows.copy_of(state) for state in self._states.values()]:
            if not statuses or state.status in statuses:
                yield state
        for status in statuses or (None,):
            after = 0
            while page := self._page(after, status):
                after = page[-1][0]
                for _, state in page:
                    if state.id not in seen and state.id not in self._all_open():
                        yield state

    async def tallies(self) -> list[Tally]:
        """Sums by condition; forks are not part of them."""
        with self._reading.told():
            return queries.tallies(self._reading, self._all_open().values())

    async def total(self) -> Tally:
        """Sums over everything that ever cost money in this study."""
        with self._reading.told():
            return queries.total(self._reading, self._all_open().values())

    async def since(self, seq: int, *kinds: str) -> AsyncIterator[Entry]:
        """Facts of all trials with a higher number and of one of these kinds, in order."""
        while True:
            with self._reading.told():
                page = queries.since(self._reading, seq, kinds)
            if not page:
                return
            for entry in page:
                yield entry
            seq = page[-1].seq

    async def commands(self) -> list[Command]:
        """Wishes of other processes that nobody has taken yet."""
        taken = {number for batch in (self._pending, self._flight) if batch for _, _, number in batch.takes}
        with self._reading.told():
            return [command for command in inbox.open_commands(self._reading) if command.id not in taken]

    def _page(self, after: int, status: str | None) -> list[tuple[int, TrialState]]:
        with self._reading.told():
            return queries.page(self._reading, after, status)

    # --- how a batch travels -----------------------------------------------------------------------------------

    def _gather(self, batch: Batch, loop: asyncio.AbstractEventLoop) -> None:
        """Give others the time to come along. Nobody can when all open trials wait already.

        A batch costs 0.1 ms of CPU (a dozen system calls), so a thousand trials that settle one by one would pay for a
        batch each. They share one every few milliseconds, which nobody feels whose reply took a second. Few trials,
        or replies that come all at once, are not held up.
        """
        wait_s = self._launched_at + _PACE_S - loop.time() if len(self._lagging) > _FEW else 0.0
        if wait_s > 0.0 and len(batch.waiters) < min(_ENOUGH, len(self._lagging)):
            batch.timer = loop.call_later(wait_s, self._launch, batch)
        else:
            # Not at once: other tasks that are ready now come along.
            loop.call_soon(self._launch, batch)

    def _launch(self, batch: Batch) -> None:
        """Hand the gathered batch to the writer, unless that was done already."""
        if batch is not self._pending or self._flight is not None:
            return
        self._pending = Batch()
        self._flight = batch
        self._launched_at = batch.loop.time() if batch.loop else 0.0
        self.batches += 1
        try:
            self._admit(batch)
            self._write_rows(batch)
        except Exception as error:  # noqa: BLE001  # a callback of the loop: whoever waits must hear of it
            batch.error = error if isinstance(error, StoreError) else self._reading.trouble(error)
            self._land(batch)
        else:
            self._writer.submit(batch, self._land)

    def _admit(self, batch: Batch) -> None:
        """Take the trials into memory that it did not know when their facts came. One read for all: the results of a
        large batch are for 50,000 trials that rest, and a read for each costs as much as settling it.
        """
        if not batch.arrivals:
            return
        names = dict.fromkeys(trial for trial, _, _ in batch.arrivals)
        with self._reading.told():
            found = {state.id: state for state in queries.states(self._reading, names)}
        batch.visitors.update((state.id, None) for state in found.values() if state.status == "parked")
        for trial in names:
            self._states[trial] = found.get(trial) or TrialState(id=trial)
        for trial, at, facts in batch.arrivals:
            _apply(self._states[trial], at, facts)
        batch.arrivals.clear()

    def _write_rows(self, batch: Batch) -> None:
        """A row is written when it becomes exact, and once when it begins to lag (J5)."""
        # Whoever rests, and comes for what a batch has brought, is gone again: its row is written once, not twice.
        batch.retired.update((trial, None) for trial in batch.visitors if trial not in self._lagging)
        crowded = len(self._states) - len(batch.retired) - _IN_MEMORY
        if crowded > 0:
            resting = (trial for trial in self._states if trial not in batch.retired)
            batch.retired.update(dict.fromkeys(islice(resting, crowded)))
        for trial in {**batch.trials, **batch.retired}:
            state = self._states[trial]
            if state.status not in _OPEN or trial in batch.retired:
                self._lagging.discard(trial)
                batch.retired[trial] = None
                batch.rows += rows.row_of(state, lags=False)
            elif trial not in self._lagging:
                self._lagging.add(trial)
                batch.rows += rows.row_of(state, lags=True)

    def _land(self, batch: Batch) -> None:
        """A batch is durable, or has failed: wake who waits, forget what the table now knows, send the next."""
        if self._flight is not batch:
            return
        self._flight = None
        if batch.error is None:
            for trial in batch.retired:
                if trial not in self._pending.trials:
                    del self._states[trial]
        else:
            self._fail(batch)
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._pending.loop is not None:
            self._gather(self._pending, self._pending.loop)

    def _fail(self, batch: Batch) -> None:
        """J3: who waits for later facts gets the same error, and nothing more is taken."""
        self._error = batch.error
        self._pending.error = batch.error
        batch.waiters += self._pending.waiters
        self._pending = Batch()
        self._states.clear()  # what is durable is in the tables
        self._lagging.clear()

    def _land_from_elsewhere(self, loop: asyncio.AbstractEventLoop) -> None:
        """A loop that ended while its batch was written left it in the air."""
        flight = self._flight
        if flight is not None and flight.loop is not loop:
            flight.finished.wait()
            self._land(flight)
            self._must_accept()

    def _must_accept(self) -> None:
        if self._error is not None:
            raise _again(self._error)

    # --- states and texts in memory ----------------------------------------------------------------------------

    def _all_open(self) -> dict[str, TrialState]:
        """The states in memory, with everything that was appended."""
        self._admit(self._pending)
        return self._states

    def _append_texts(self, texts: Mapping[str, str | bytes]) -> None:
        """Take what was not seen lately; a system prompt comes with every trial and is stored once."""
        fresh, known, cells = self._fresh, self._known, self._pending.texts
        for name, text in texts.items():
            if name not in fresh and name not in known:
                cells += (bytes.fromhex(name), wire.text_bytes(text))
                fresh.add(name)
        if len(self._fresh) > _KNOWN_TEXTS:
            self._known, self._fresh = self._fresh, set()


def catch_up(db: Database) -> None:
    """Fold the trials anew whose rows lag because a process was killed."""
    with db.told():
        cells: list[Cell] = []
        for trial in queries.lagging(db):
            cells += rows.row_of(queries.folded(db, trial), lags=False)
        if cells:
            with db.transaction():
                write_trials(db, cells)


def _apply(state: TrialState, at: float, facts: Iterable[TrialFact]) -> None:
    for fact in facts:
        if type(fact) not in SILENT:
            # As it will be read back: values may hold tuples now, and lists then.
            state.apply(wire.read_back(fact) if isinstance(fact, Finished) else fact, at)


def _again(error: StoreError) -> StoreError:
    """The same error for one more who waits; one shared exception would gather the tracebacks of all."""
    return type(error)(error.what, where=error.where, fix=error.fix)
