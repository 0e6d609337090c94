"""A journal that lives in memory: for tests, and for walks through a study that leave nothing behind.

It keeps facts as the bytes that a file would hold, so that what cannot be stored fails here too, and what is read is
what would be read there. Only what was committed can be read.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import cast

import msgspec

from trialrun.core.errors import StoreError
from trialrun.core.facts import Entry, Fact, StudyFact, TrialFact, tag_of
from trialrun.core.ports import Clock, Command, Tally
from trialrun.core.state import TrialState

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder[Fact](Fact).decode

_Row = tuple[int, str, float, bytes]


class MemoryJournal:
    """The journal's port, kept in dictionaries."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock
        self._seq = 0
        self._pending: list[_Row] = []
        self._pending_texts: dict[str, bytes] = {}
        self._facts: dict[str, list[_Row]] = {}
        self._texts: dict[str, bytes] = {}
        self._states: dict[str, TrialState] = {}
        self._commands: list[Command] = []
        self._posted = 0
        self._refuses: StoreError | None = None
        self._is_broken = False
        self.answers: dict[int, str] = {}
        self.live: dict[str, object] = {}

    def append(
        self,
        trial: str,
        facts: Sequence[TrialFact] | Sequence[StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        """Put facts at the end; a fact that is no plain data is refused before anything is taken."""
        self._must_accept()
        at = self._clock.now() if self._clock else 0.0
        bodies = [_encode(fact) for fact in facts]
        for name, text in (texts or {}).items():
            bytes.fromhex(name)
            self._pending_texts[name] = (
                text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
            )
        for body in bodies:
            self._seq += 1
            self._pending.append((self._seq, trial, at, body))

    async def commit(self) -> None:
        """Make everything appended so far readable."""
        self._must_accept()
        if self._is_broken and self._pending:
            self.abandon()
            self._refuses = StoreError("the disk is full", where="in memory", fix="make room")
            self._must_accept()
        pending, self._pending = self._pending, []
        for row in pending:
            _, trial, at, body = row
            self._facts.setdefault(trial, []).append(row)
            if trial:
                state = self._states.setdefault(trial, TrialState(id=trial))
                state.apply(cast("TrialFact", _decode(body)), at)
        for name, text in self._pending_texts.items():
            self._texts.setdefault(name, text)
        self._pending_texts = {}

    async def facts_of(self, trial: str) -> list[Entry]:
        """All facts of one trial (or, with an empty name, of the study), oldest first."""
        return [Entry(seq, of, at, _decode(body)) for seq, of, at, body in self._facts.get(trial, [])]

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        """The stored texts of these hashes; unknown ones are left out."""
        return {name: _text(self._texts[name]) for name in hashes if name in self._texts}

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]:
        """Where these trials stand; those that never began are left out."""
        return {trial: _copy(self._states[trial]) for trial in trials if trial in self._states}

    async def with_status(self, *statuses: str) -> AsyncIterator[TrialState]:
        """All trials that have one of these statuses; all that ever began when none is named."""
        for state in [_copy(state) for state in self._states.values()]:
            if not statuses or state.status in statuses:
                yield state

    async def tallies(self) -> list[Tally]:
        """Sums by condition; forks are not part of them."""
        by_condition: dict[str, list[TrialState]] = {}
        for state in self._states.values():
            if not state.forked_from and not state.judging:
                by_condition.setdefault(state.condition, []).append(state)
        return [_tally(condition, states) for condition, states in sorted(by_condition.items())]

    async def total(self) -> Tally:
        """Sums over everything that ever cost money in this study."""
        return _tally("", self._states.values())

    async def since(self, seq: int, *kinds: str) -> AsyncIterator[Entry]:
        """Facts of all trials with a higher number and of one of these kinds, in order."""
        rows = sorted(row for rows in self._facts.values() for row in rows if row[0] > seq)
        for number, trial, at, body in rows:
            entry = Entry(number, trial, at, _decode(body))
            if tag_of(entry.fact) in kinds:
                yield entry

    def post(self, kind: str, body: Mapping[str, object]) -> int:
        """Leave a wish, as another process would; gives its number."""
        self._posted += 1
        plain = cast("dict[str, object]", msgspec.json.decode(_encode(body)))
        self._commands.append(Command(id=self._posted, kind=kind, body=plain))
        return self._posted

    async def commands(self) -> list[Command]:
        """Wishes that nobody has taken yet."""
        return list(self._commands)

    async def take(self, command: Command, *, answer: str) -> None:
        """Acknowledge a wish."""
        await self.commit()
        if any(known.id == command.id for known in self._commands):
            self.answers[command.id] = answer
        self._commands = [known for known in self._commands if known.id != command.id]

    async def heartbeat(self, live: Mapping[str, object]) -> None:
        """Publish where the running process stands."""
        await self.commit()
        self.live = dict(live)

    async def close(self) -> None:
        """Commit what is left; nothing more is accepted."""
        if self._refuses is None:
            await self.commit()
        self.abandon()

    def abandon(self) -> None:
        """Let go without committing what is pending, as a process does that is killed."""
        self._pending.clear()
        self._pending_texts.clear()
        self._refuses = self._refuses or StoreError("the journal is closed", where="in memory")

    def reopen(self) -> None:
        """Accept again, with what was committed, as a file does that the next process opens."""
        self._refuses = None
        self._seq = max((rows[-1][0] for rows in self._facts.values()), default=0)

    def break_down(self) -> None:
        """Let the next commit fail, and everything after it."""
        self._is_broken = True

    def _must_accept(self) -> None:
        if self._refuses is not None:
            raise StoreError(self._refuses.what, where=self._refuses.where, fix=self._refuses.fix)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("utf-8", "surrogateescape")


def _copy(state: TrialState) -> TrialState:
    return replace(state, holds=dict(state.holds))


def _tally(condition: str, states: Iterable[TrialState]) -> Tally:
    by_status: dict[str, int] = {}
    spent = held = Decimal(0)
    unknown_costs = doubts = calls = tokens_in = tokens_out = 0
    for state in states:
        by_status[state.status] = by_status.get(state.status, 0) + 1
        spent += state.spent_usd
        held += state.held_usd
        unknown_costs += state.unknown_costs
        doubts += state.doubts
        calls += state.calls
        tokens_in += state.tokens_in
        tokens_out += state.tokens_out
    return Tally(
        condition=condition,
        by_status=by_status,
        spent_usd=spent,
        held_usd=held,
        unknown_costs=unknown_costs,
        doubts=doubts,
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )
