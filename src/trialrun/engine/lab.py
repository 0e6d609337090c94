"""A trial's view of the world: numbers what it does, seeds its chance, and answers from the record first.

L2. What comes back is in the journal before the procedure sees it. The journal keeps the order of appends, so a fact
    that is durable implies all earlier ones; only what reaches outside waits for the disk.
"""

import random
import traceback
from asyncio import CancelledError, TaskGroup, timeout
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from trialrun.core import chance
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.calls import Message, Reply, Tool
from trialrun.core.identity import text_hash
from trialrun.core.ports import Utterance
from trialrun.core.rubric import Rating
from trialrun.core.study import Party, Spec
from trialrun.engine import asking, templates
from trialrun.engine.bearings import Bearings
from trialrun.engine.sitting import Sitting

T = TypeVar("T")
_UNGIVEN: Any = object()
PASSING: tuple[type[BaseException], ...] = (
    CancelledError,
    KeyboardInterrupt,
    e.KernelBug,
    e.Parked,
    e.Drained,
)
"""What only comes through a procedure, on its way to somebody else. All else that it raises is a failure of its own:
`sys.exit()` in one trial must not end the process that runs the others."""


class StudyLab:
    """The lab of one task of one trial."""

    def __init__(self, sitting: Sitting, *, scope: str = "") -> None:
        self._sitting = sitting
        self._at = Bearings(sitting, scope=scope)
        self._streams: dict[str, random.Random] = {}
        self._heard: list[Utterance] = []
        """What was said as far as this task knows. A branch does not hear the branches beside it: what they say while
        it runs depends on timing."""

    # --- where we are -----------------------------------------------------------------------------------------------

    @property
    def turn(self) -> int:
        return self._sitting.turn

    @property
    def spec(self) -> Spec:
        """What is in force in the current turn."""
        return self._sitting.spec

    @property
    def transcript(self) -> Sequence[Utterance]:
        return tuple(self._heard)

    @asynccontextmanager
    async def next_turn(self, number: int | None = None) -> AsyncGenerator[int]:
        """One round of the procedure: numbers what happens in it, and bounds its time."""
        address = self._at.next()
        if self._at.scope:
            raise e.ProcedureError(
                "a branch of `lab.together` began a turn",
                where=self._at.place(address),
                fix="begin turns outside",
            )
        turn = self._sitting.turn + 1 if number is None else number
        self._at.record(f.TurnBegan(at=address, turn=turn))
        self._sitting.turn = turn
        limit = self._sitting.limits.turn_timeout_s
        bound = self._sitting.bound = timeout(limit)
        late = e.TrialTimeout(f"turn {turn} took longer than {limit} s", where="turn")
        try:
            async with bound:
                yield turn
        except (TimeoutError, e.Drained) as error:
            if not bound.expired():
                raise
            self._sitting.stop = late
            raise late from error
        if bound.expired():
            self._sitting.stop = late
            raise late

    # --- models -----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        who: str | Party,
        prompt: str | Sequence[Message],
        *,
        system: str | None = None,
        schema: Mapping[str, object] | None = None,
        purpose: str = "",
        tools: Sequence[Tool] = (),
        **params: object,
    ) -> Reply:
        address = self._at.next()
        party = asking.party_of(self._sitting.spec, who)
        messages = asking.messages_of(prompt, system, party)
        request = asking.request_of(party, messages, schema, tools, params)
        return await asking.ask(self._at, address, party, request, purpose)

    # --- people and deeds -------------------------------------------------------------------------------------------

    async def ask_human(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        party: str = "human",
        check: Callable[[str], str | None] | None = None,
    ) -> str:
        """Put a question to a person. The trial is parked until the answer is there."""
        complaint = ""
        while True:
            answer = self._human(complaint + question, tuple(options), party)
            wrong = check(answer) if check else None
            if wrong is None and options and answer not in options:
                wrong = f"`{answer}` is none of {', '.join(options)}."
            if wrong is None:
                return answer
            complaint = f"{wrong} "

    def _human(self, question: str, options: tuple[str, ...], party: str) -> str:
        address = self._at.next()
        sitting = self._sitting
        self._at.record(
            f.Asked(at=address, turn=sitting.turn, party=party, question=question, options=options)
        )
        answered = sitting.record.answers.get(address)
        if answered is not None:
            return answered.answer
        if sitting.mode == "verify":
            raise self._at.not_recorded(address, "a question to a human")
        if sitting.mode == "live":
            raise e.Parked(f"human:{address}")
        draw = random.Random(chance.integer(chance.derive(sitting.trial.key, "human", address)))
        answer = draw.choice(options) if options else f"(rehearsed answer {draw.randrange(1000)})"
        sitting.write(f.Answered(at=address, answer=answer, by="rehearsal"))
        return answer

    async def act(
        self,
        name: str,
        do: Callable[[], Awaitable[T]],
        *,
        recover: Callable[[], Awaitable[T]] | None = None,
        rehearsed: T = _UNGIVEN,
    ) -> T:
        """Do something to the world, once. After a kill in the middle, `recover` finds out what came of it."""
        address = self._at.next()
        sitting = self._sitting
        record = sitting.record
        known = record.results.get(address)
        began = isinstance(record.deeds.get(address), f.ActBegan) and address not in record.failed_acts
        self._at.record(f.ActBegan(at=address, name=name, turn=sitting.turn))
        if known is not None and known.error:
            raise e.ActFailed(known.error, where=self._at.place(address))
        if known is not None:
            return cast(T, known.result)
        if sitting.mode == "verify":
            raise self._at.not_recorded(address, f"the act `{name}`")
        if sitting.mode in ("walk", "rehearsal") and rehearsed is not _UNGIVEN:
            result = rehearsed
        elif sitting.mode == "walk":
            raise e.Parked(f"act:{name}")
        elif began and recover is None and address not in record.cut_acts:
            raise e.ProcedureError(
                f"the act `{name}` was cut off in the middle, and nobody knows whether it happened",
                where=self._at.place(address),
                fix="give `lab.act` a `recover` that finds out, or look yourself and run with `--retry-failed`",
            )
        else:
            await sitting.journal.commit()
            if began and recover is not None:
                result = await recover()
            else:
                result = await self._done(address, name, do)
        plain = _plain(result, self._at.place(address))
        sitting.write(f.ActEnded(at=address, name=name, result=plain))
        await sitting.journal.commit()
        return cast(T, plain)

    async def _done(self, address: str, name: str, do: Callable[[], Awaitable[T]]) -> T:
        """What comes of doing it. That it raised is a fact too: it is over, and a procedure may go on without it."""
        try:
            return await do()
        except (*PASSING, e.StudyStop, e.StoreError):
            raise
        except BaseException as error:
            what = f"the act `{name}` failed: {raised_by(error, __file__)}"
            self._sitting.write(f.ActEnded(at=address, name=name, error=what))
            await self._sitting.journal.commit()
            raise e.ActFailed(what, where=self._at.place(address)) from error

    async def together(self, *branches: "Callable[[StudyLab], Awaitable[T]]") -> list[T]:
        """Run branches side by side. All of them come to their end, or to where they wait, before any error shows:
        a failure in one must not cancel another's call in flight, which is paid."""
        address = self._at.next()
        labs = [self._branch(f"{address}.{number}") for number in range(len(branches))]
        async with TaskGroup() as group:
            tasks = [
                group.create_task(_caught(branch, lab)) for branch, lab in zip(branches, labs, strict=True)
            ]
        results = [task.result() for task in tasks]
        before = len(self._heard)
        for lab in labs:
            self._heard += lab._heard[before:]
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            raise min(errors, key=_urgency)
        return cast(list[T], results)

    def _branch(self, scope: str) -> "StudyLab":
        lab = StudyLab(self._sitting, scope=scope)
        lab._heard = list(self._heard)
        return lab

    # --- what is recorded -------------------------------------------------------------------------------------------

    def say(self, party: str, text: str | Reply, *, to: Sequence[str] = ()) -> None:
        """Record an utterance. `to` names who hears it; empty means everybody."""
        address = self._at.next()
        words = str(text)
        name = text_hash(words)
        said = f.Said(
            at=address,
            turn=self._sitting.turn,
            party=party,
            text=name,
            call=text.address if isinstance(text, Reply) else "",
            audience=tuple(to),
        )
        self._at.record(said, {name: words})
        self._heard.append(Utterance(turn=self._sitting.turn, party=party, text=words, audience=tuple(to)))

    def heard_by(self, party: str) -> list[Message]:
        """The conversation as this party knows it: its own words as assistant, all others as user."""
        return [
            Message("assistant" if said.party == party else "user", said.text)
            for said in self._heard
            if said.party == party or not said.audience or party in said.audience
        ]

    def measure(self, name: str, value: str | int | float | bool | None, *, note: str = "") -> None:
        """Record a value. None is missing, and `note` says why."""
        address = self._at.next()
        self._at.record(f.Measured(at=address, name=name, value=value, turn=self._sitting.turn, note=note))

    def gate(self, name: str, is_open: bool, *, note: str = "") -> bool:
        """Whether the next stage of this trial is worth its cost, as a measure."""
        is_open = is_open or self._sitting.opens_gates
        self.measure(f"gate_{name}", is_open, note=note)
        return is_open

    def rate(self, rating: Rating) -> None:
        """Record a rating."""
        address = self._at.next()
        explanation = text_hash(rating.explanation) if rating.explanation else ""
        rated = f.Rated(
            at=address,
            item=rating.item,
            value=rating.value,
            unit=rating.unit,
            turn=rating.turn,
            mask=rating.mask,
            missing=rating.missing,
            explanation=explanation,
            call=rating.call,
            order=rating.order,
            labels=rating.labels,
        )
        self._at.record(rated, {explanation: rating.explanation} if explanation else None)

    def take_measures(self) -> None:
        """Take what the study wants measured from the transcript; called once, when the procedure has ended."""
        values = self._sitting.measures_of(self._sitting.trial, self._heard)
        for name, value in values.items():
            self._at.record(
                f.Measured(at=self._at.next(), name=name, value=value, turn=self.turn, source="transcript")
            )

    def state(self, party: str, **values: object) -> None:
        """Log the hidden state of a party."""
        address = self._at.next()
        plain = _plain(values, self._at.place(address))
        self._at.record(f.StateLogged(at=address, turn=self._sitting.turn, party=party, values=plain))

    def keep(self, name: str, content: str | bytes, *, media_type: str = "text/plain") -> None:
        """Keep an artefact under a name."""
        address = self._at.next()
        hash_ = text_hash(content)
        size = len(content.encode("utf-8", "surrogatepass")) if isinstance(content, str) else len(content)
        fact = f.ArtefactKept(
            at=address,
            name=name,
            content=hash_,
            media_type=media_type,
            size_bytes=size,
            turn=self._sitting.turn,
        )
        self._at.record(fact, {hash_: content})

    def now(self) -> datetime:
        """The time, as it was when the trial first came here."""
        address = self._at.next()
        known = self._sitting.record.deeds.get(address)
        seconds = known.now if isinstance(known, f.Ticked) else self._sitting.clock.now()
        self._at.record(f.Ticked(at=address, now=seconds))
        return datetime.fromtimestamp(seconds, UTC)

    # --- chance and prompts -----------------------------------------------------------------------------------------

    def random(self, stream: str = "procedure") -> random.Random:
        """The stream with this name. It belongs to this trial and branch alone, and to nobody else's draws."""
        self._at.check_owner()
        if stream not in self._streams:
            key = chance.derive(self._sitting.trial.key, "stream", self._at.scope, stream)
            self._streams[stream] = random.Random(chance.integer(key))
        return self._streams[stream]

    def render(self, party: str | Party, **values: object) -> str:
        """The party's prompt with its values, and these, put in."""
        spec = asking.party_of(self._sitting.spec, party)
        return templates.render(spec.prompt, {**spec.values, **values}, where=spec.name)


async def _caught(branch: Callable[[StudyLab], Awaitable[T]], lab: StudyLab) -> T | BaseException:
    try:
        return await branch(lab)
    except (CancelledError, KeyboardInterrupt, e.KernelBug):
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again when all have ended
        return error


def _urgency(error: BaseException) -> int:
    """Which of several errors speaks for all: what stops the study before what fails the trial before waiting."""
    ranks: tuple[type[BaseException], ...] = (e.Drained, e.StoreError, e.StudyStop)
    failing = len(ranks) + isinstance(error, e.Parked)
    return next((rank for rank, kind in enumerate(ranks) if isinstance(error, kind)), failing)


def _plain(value: Any, where: str) -> Any:
    """The value as it will come back from the journal."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise e.ProcedureError(
            f"not plain data: {error}", where=where, fix="use numbers, texts, lists and mappings"
        ) from error


def raised_by(error: BaseException, own_file: str) -> str:
    """The exception of somebody else's code, with the line that raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != own_file]
    where = f" at {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
