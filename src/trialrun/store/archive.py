"""Reads a study, finished or running, without touching it: trials, tables, texts, and requests as they were sent.

Everything streams: trials come in pages, in planned order, so that memory does not grow with the study and the same
facts always give the same rows. Each page is its own short read; a run that goes on meanwhile is not held up.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from trialrun.core import facts as f
from trialrun.core.calls import Message, Request, Role
from trialrun.core.envelope import close as close_envelope
from trialrun.core.errors import StoreCorrupt, UsageError
from trialrun.core.ports import Tally
from trialrun.core.state import TrialState, before_turn, branching_of, in_force
from trialrun.store import columns, database, pages, queries, schema, tables, wire
from trialrun.store.lock import Holder, holder_of

T = TypeVar("T")
_live = msgspec.json.Decoder(dict[str, object])


class Archive:
    """The study in one folder, for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._db = database.open_reader(folder / schema.FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    # --- the study -------------------------------------------------------------------------------------------------

    def holder(self) -> Holder | None:
        """The process that works on the study now."""
        return holder_of(self.folder)

    def live(self) -> dict[str, object] | None:
        """What the process that works on it (or the last one that did) published about itself."""
        with self._db.told():
            body = queries.live(self._db)
        return None if body is None else _live.decode(body)

    def tallies(self) -> list[Tally]:
        """Sums by condition; forks are not part of them."""
        with self._db.told():
            return queries.tallies(self._db, queries.lagging_states(self._db))

    def total(self) -> Tally:
        """Sums over everything that ever cost money in this study."""
        with self._db.told():
            return queries.total(self._db, queries.lagging_states(self._db))

    # --- one trial -------------------------------------------------------------------------------------------------

    def trial(self, trial: str) -> TrialState | None:
        """Where one trial stands; None if it never began."""
        with self._db.told():
            return queries.state(self._db, trial)

    def facts_of(self, trial: str) -> list[f.Entry]:
        """All facts of one trial (or, with an empty name, of the study), oldest first."""
        with self._db.told():
            return queries.facts_of(self._db, trial)

    def history_of(self, trial: str) -> list[f.Entry]:
        """The facts of a trial that are in force; of a fork, with those that it shares with its source."""
        return self._history(in_force(self.facts_of(trial)))

    def _history(self, own: list[f.Entry]) -> list[f.Entry]:
        branching = branching_of(own)
        if branching is None:
            return own
        forked, seq = branching
        source = in_force(self.facts_of(forked.source), when=seq)
        return before_turn(self._history(source), forked.turn) + own

    def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        """The stored texts of these hashes; unknown ones are left out."""
        with self._db.told():
            return queries.texts(self._db, hashes)

    def content_of(self, name: str) -> bytes:
        """The stored bytes of one hash."""
        with self._db.told():
            content = queries.content(self._db, name)
        if content is None:
            raise self._no_text(name)
        return content

    def _no_text(self, name: str) -> StoreCorrupt:
        return StoreCorrupt(
            f"the text {name} is not in the store",
            where=str(self._db.path),
            fix="`trialrun doctor` tells which trials it belongs to",
        )

    def request_of(self, trial: str, at: str) -> Request:
        """The whole request of the call at an address, put together from the differences."""
        requests = {
            entry.fact.at: entry.fact
            for entry in self.history_of(trial)
            if isinstance(entry.fact, f.Held) and entry.fact.request is not None
        }
        held = requests.get(at)
        if held is None or held.request is None:
            raise _no_call(trial, at)
        parts = _messages_of(requests, at)
        texts = self.texts({name for _, name in parts})
        for _, name in parts:
            if name not in texts:
                raise self._no_text(name)
        delta = held.request
        return Request(
            model=held.model,
            messages=tuple(Message.of(role, texts[name]) for role, name in parts),
            max_tokens=delta.max_tokens,
            temperature=delta.temperature,
            top_p=delta.top_p,
            stop=delta.stop,
            schema=delta.schema,
            params=delta.params,
            tools=delta.tools or msgspec.UNSET,
        )

    def raw_of(self, trial: str, at: str, attempt: int | None = None) -> bytes:
        """The body of a reply as it came over the wire; of the last attempt that was answered if none is named."""
        for entry in reversed(self.history_of(trial)):
            fact = entry.fact
            if isinstance(fact, f.Settled) and fact.at == at and attempt in {None, fact.attempt}:
                text = wire.text_of(self.content_of(fact.text)) if fact.text else ""
                return close_envelope(self.content_of(fact.raw), text)
        raise _no_call(trial, at)

    # --- tables ----------------------------------------------------------------------------------------------------

    def trials(self, *statuses: f.Status) -> Iterator[TrialState]:
        """All trials that began, or those with one of these statuses, in planned order; without those that judge."""
        return (state for state in pages.states(self._db) if not statuses or state.status in statuses)

    def judging(self) -> Iterator[TrialState]:
        """All trials that rate other trials, in planned order."""
        return pages.states(self._db, judging=True)

    def ratings(self) -> Iterator[tables.Rating]:
        """Every rating of a talk that still counts, by the trial that gave it."""
        kinds = ("judges", "started", "rated", "settled")
        waiting: list[str] = []
        for state in self.judging():
            waiting.append(state.id)
            if len(waiting) == pages.SIZE:
                yield from self._ratings(kinds, waiting)
                waiting = []
        yield from self._ratings(kinds, waiting)

    def _ratings(self, kinds: tuple[str, ...], raters: list[str]) -> Iterator[tables.Rating]:
        for page, found in self._pages(kinds, raters) if raters else ():
            facts = [entry.fact for entries in found.values() for entry in entries]
            texts = self.texts({fact.explanation for fact in facts if isinstance(fact, f.Rated)})
            sources = {fact.source for fact in facts if isinstance(fact, f.Judges) and fact.source}
            with self._db.told():
                talks = {state.id: state.generation for state in queries.states(self._db, sources)}
            for place in page:
                yield from tables.ratings(place.trial, found[place.trial], texts, talks)

    def messages(self, only: Sequence[str] | None = None) -> Iterator[tables.Message]:
        """Everything that was said; a fork's conversation is whole, with the part that it shares."""
        for page, found in self._pages(("said",), only, shared=True):
            said = (entry.fact for entries in found.values() for entry in entries)
            texts = self.texts({fact.text for fact in said if isinstance(fact, f.Said)})
            for place in page:
                yield from tables.messages(place.trial, found[place.trial], texts)

    def message_columns(self) -> columns.MessageColumns | None:
        """The same as columns, in a third of the time; None for a study that `messages` has to read."""
        with self._db.told():
            return columns.messages(self._db)

    def calls(self, only: Sequence[str] | None = None) -> Iterator[tables.CallAttempt]:
        """Every attempt of every call, superseded ones too."""
        kinds = ("held", "settled", "released", "doubted", "confirmed", "superseded")
        return self._rows(kinds, tables.calls, only, all_generations=True)

    def measures(self, only: Sequence[str] | None = None) -> Iterator[tables.Measure]:
        """Every value that was taken; of a fork, also from the part that it shares."""
        return self._rows(("measured",), tables.measures, only, shared=True)

    def states(self, only: Sequence[str] | None = None) -> Iterator[tables.State]:
        """The hidden states of the parties; of a fork, also from the part that it shares."""
        return self._rows(("state",), tables.states, only, shared=True)

    def artefacts(self, only: Sequence[str] | None = None) -> Iterator[tables.Artefact]:
        """Everything that was kept; `content_of` has the bytes."""
        return self._rows(("artefact",), tables.artefacts, only)

    def questions(self, only: Sequence[str] | None = None) -> Iterator[tables.Question]:
        """What humans were asked; `answer` is None where nobody has answered yet."""
        return self._rows(("asked", "answered"), tables.questions, only)

    # --- how tables are read -------------------------------------------------------------------------------------

    def _rows(
        self,
        kinds: tuple[str, ...],
        rows_of: Callable[[str, list[f.Entry]], Iterable[T]],
        only: Sequence[str] | None,
        *,
        shared: bool = False,
        all_generations: bool = False,
    ) -> Iterator[T]:
        for page, found in self._pages(kinds, only, shared=shared, all_generations=all_generations):
            for place in page:
                yield from rows_of(place.trial, found[place.trial])

    def _pages(
        self,
        kinds: tuple[str, ...],
        only: Sequence[str] | None,
        *,
        shared: bool = False,
        all_generations: bool = False,
    ) -> Iterator[tuple[list[pages.Place], dict[str, list[f.Entry]]]]:
        for page in pages.places(self._db, only):
            found = pages.facts(self._db, page, kinds, all_generations=all_generations)
            for place in page if shared else ():
                if place.may_be_fork:
                    found[place.trial] = self.history_of(place.trial)
            yield page, found


def _messages_of(requests: dict[str, f.Held], at: str) -> list[tuple[Role, f.Hash]]:
    """The messages of a request: what it shares with the one at its base, then what it adds."""
    chain: list[f.RequestDelta] = []
    while at and (held := requests.get(at)) is not None and held.request is not None:
        chain.append(held.request)
        at = held.request.base
    messages: list[tuple[Role, f.Hash]] = []
    for delta in reversed(chain):
        messages = messages[: delta.keep] + delta.add
    return messages


def _no_call(trial: str, at: str) -> UsageError:
    return UsageError(
        f"trial `{trial}` has no answered call at `{at}`",
        where="study.db",
        fix="`trialrun export --table calls` lists the calls of each trial",
    )
