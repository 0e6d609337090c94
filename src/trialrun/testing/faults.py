"""Faults on purpose. `CrashingJournal` is the death of the process at a write of the test's choice."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Literal, NoReturn

from msgspec.json import encode

from trialrun.core.errors import StoreError
from trialrun.core.facts import Entry, StudyFact, TrialFact
from trialrun.core.ports import Command, Journal, Tally
from trialrun.core.state import TrialState

Edge = Literal["before", "after"]


class Crash(BaseException):
    """The process is dead. Not an Exception: nothing in a run may survive it."""


class CrashingJournal:
    """A journal whose process dies at the `write`-th commit: just before it is durable, or just after.

    Facts reach the journal inside when they are committed, one commit at a time: what was only appended dies too, and
    nothing is on its way at the moment of death. So the journal inside is what a file would be, and can be given to
    the next run. Every later use of this one dies again.
    """

    def __init__(self, journal: Journal, *, write: int, edge: Edge) -> None:
        self.writes = 0
        """Commits of something so far; a run that ends with fewer than `write` was not cut."""
        self.is_dead = False
        self._refuses: StoreError | None = None
        self._journal = journal
        self._fatal = write
        self._edge = edge
        self._one_by_one = asyncio.Lock()
        self._pending: list[
            tuple[str, Sequence[TrialFact] | Sequence[StudyFact], Mapping[str, str | bytes] | None]
        ] = []

    def append(
        self,
        trial: str,
        facts: Sequence[TrialFact] | Sequence[StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        self._must_accept()
        encode(facts)  # what cannot be stored is refused here, as by the journal inside
        self._pending.append((trial, facts, texts))

    async def commit(self) -> None:
        async with self._one_by_one:
            self._must_accept()
            if not self._pending:
                return
            self.writes += 1
            if self.writes == self._fatal and self._edge == "before":
                self._die()
            pending, self._pending = self._pending, []
            try:
                for trial, facts, texts in pending:
                    self._journal.append(trial, facts, texts)
                await self._journal.commit()
            except StoreError as error:
                self._refuses = error
                raise
            if self.writes == self._fatal:
                self._die()

    async def take(self, command: Command, *, answer: str) -> None:
        self._live()
        await self._journal.take(command, answer=answer)

    async def heartbeat(self, live: Mapping[str, object]) -> None:
        self._live()
        await self._journal.heartbeat(live)

    async def close(self) -> None:
        """A dead process closes nothing; the journal inside stays open for the next one."""
        if not self.is_dead and self._refuses is None:
            await self.commit()
            self._refuses = StoreError("the journal is closed")

    async def facts_of(self, trial: str) -> list[Entry]:
        self._live()
        return await self._journal.facts_of(trial)

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        self._live()
        return await self._journal.texts(hashes)

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]:
        self._live()
        return await self._journal.states(trials)

    async def with_status(self, *statuses: str) -> AsyncIterator[TrialState]:
        self._live()
        async for state in self._journal.with_status(*statuses):
            yield state

    async def tallies(self) -> list[Tally]:
        self._live()
        return await self._journal.tallies()

    async def total(self) -> Tally:
        self._live()
        return await self._journal.total()

    async def since(self, seq: int, *kinds: str) -> AsyncIterator[Entry]:
        self._live()
        async for entry in self._journal.since(seq, *kinds):
            yield entry

    async def commands(self) -> list[Command]:
        self._live()
        return await self._journal.commands()

    def _must_accept(self) -> None:
        self._live()
        if self._refuses is not None:
            raise StoreError(self._refuses.what, where=self._refuses.where, fix=self._refuses.fix)

    def _live(self) -> None:
        if self.is_dead:
            self._die()

    def _die(self) -> NoReturn:
        self.is_dead = True
        raise Crash(f"died {self._edge} write {self._fatal} was durable")
