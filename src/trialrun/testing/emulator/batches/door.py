"""The way into everything about files and batches: who comes, what the script intends, how the reply travels."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from trialrun.core import chance
from trialrun.core.ports import Clock
from trialrun.testing.emulator.asked import Refusal, Sent, Stamp, Trouble
from trialrun.testing.emulator.batches.files import Files, Stored
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.queue import Queue
from trialrun.testing.emulator.desk import Desk
from trialrun.testing.emulator.dialect import Dialect
from trialrun.testing.emulator.sayings import said
from trialrun.testing.emulator.script import SAID, WIRE, Rule, Step
from trialrun.testing.emulator.wire import Delivery


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """A reply that is a file."""

    stored: Stored
    headers: dict[str, str] = field(default_factory=dict[str, str])
    part: tuple[int, int] | None = None
    """The first byte and the one after the last, if not all of it is asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who asks for what."""

    request: web.Request
    provider: str
    key: str
    owner: str
    """The account: the key's name if the script names keys, or everybody's."""
    now: float
    is_known: bool
    """Whether the key is a valid one."""

    def at(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    def asked(self, name: str, otherwise: str = "") -> str:
        """A part of the query."""
        return self.request.query.get(name, otherwise)


def said_so(content: object, *, status: int = 200) -> Sent:
    """A reply of this content, as JSON."""
    return Sent(status=status, body=msgspec.json.encode(content), headers={})


def missing(message: str) -> Refusal:
    """A 404 with these words."""
    return Refusal(Trouble(kind="unknown_object", message=message))


def conflict(message: str) -> Refusal:
    """What is asked for cannot be done to the object as it is."""
    return Refusal(Trouble(kind="conflict", message=message))


Do = Callable[[Caller], Awaitable[Sent | Download]]
Subject = Callable[[Caller], Job | Stored | None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """Lets requests about files and batches in."""

    def __init__(self, desk: Desk, clock: Clock, queue: Queue) -> None:
        self._desk = desk
        self._clock = clock
        self.queue = queue
        self.visits: Counter[tuple[str, str]] = Counter()
        """How often each provider was asked to do each thing."""
        self._repeats: Counter[tuple[str, str]] = Counter()

    @property
    def files(self) -> Files:
        return self.queue.files

    def now(self) -> float:
        return self._clock.now()

    def knows(self, model: str) -> bool:
        return self._desk.knows(model)

    def forget(self) -> None:
        self.visits.clear()
        self._repeats.clear()

    def opens(
        self,
        step: Step | None,
        dialect: Dialect,
        do: Do,
        *,
        provider: str = "",
        subject: Subject | None = None,
        needs_key: bool = True,
    ) -> Handler:
        """A handler that does this for whoever may come in. `subject` is the batch or the file that it is about.

        Nothing goes wrong at what is no `step` of its own.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            name = provider or request.match_info["provider"]
            caller = self._caller(request, dialect, name, needs_key=needs_key)
            return await self._serve(caller, step, dialect, do, subject)

        return handle

    def _caller(self, request: web.Request, dialect: Dialect, provider: str, *, needs_key: bool) -> Caller:
        key, is_valid = self._desk.key_of(request, dialect)
        return Caller(
            request=request,
            provider=provider,
            key=key,
            owner=key if self.queue.script.keys else "",
            now=self._clock.now(),
            is_known=is_valid or not needs_key,
        )

    async def _serve(
        self, caller: Caller, step: Step | None, dialect: Dialect, do: Do, subject: Subject | None
    ) -> web.StreamResponse:
        if step is not None:
            self.visits[caller.provider, step] += 1
        request = caller.request
        delivery = Delivery(request, self._clock)
        rule, stamp = self._rule(caller, step, subject)
        try:
            if not caller.is_known:
                raise Refusal(Trouble(kind="revoked"))
            if rule is not None:
                if rule.after_s:
                    await self._clock.sleep(rule.after_s)
                if rule.fault in SAID:
                    raise Refusal(said(rule, ""))
                if rule.fault == "dropped_before":
                    return delivery.drop()
            sent = await do(caller)
        except Refusal as refusal:
            # What is still on its way is read first, so that the client reads this reply and no broken pipe.
            await request.release()
            return await delivery.whole(_with(dialect.problem(refusal.trouble, stamp), dialect, stamp))
        rule = rule if rule and rule.fault in WIRE else None
        if isinstance(sent, Download):
            headers = {"content-type": sent.stored.media_type, **sent.headers}
            response = await delivery.file(sent.stored.path, headers, rule, part=sent.part)
            sent.stored.fetched += delivery.reached
            return response
        sent = _with(sent, dialect, stamp)
        return await (delivery.whole(sent) if rule is None else delivery.spoiled(sent, rule))

    def _rule(self, caller: Caller, step: Step | None, subject: Subject | None) -> tuple[Rule | None, Stamp]:
        """What the script has in mind for this request, and what its reply is called."""
        place = (step or "", caller.request.path)
        self._repeats[place] += 1
        repeat = self._repeats[place]
        arrival = chance.derive(self.queue.seed, caller.provider, *place, repeat)
        stamp = Stamp(id=arrival.hex()[:32], at=caller.now, model="")
        if step is None:
            return None, stamp
        about = subject(caller) if subject else None
        number = about.number if isinstance(about, Job) else about.batch if about else 0
        rule = self.queue.pick(
            step,
            provider=caller.provider,
            key=caller.key,
            arrival=arrival,
            repeat=repeat,
            model=about.model if about else "",
            batch=number,
        )
        return rule, stamp


def _with(sent: Sent, dialect: Dialect, stamp: Stamp) -> Sent:
    """The reply with the headers that all replies of a provider have."""
    return Sent(status=sent.status, body=sent.body, headers={**dialect.headers((), stamp), **sent.headers})
