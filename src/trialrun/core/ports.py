"""The protocols through which the parts meet: Procedure, Lab, Provider, Journal, Clock.

Each has few methods and one contract suite in `trialrun.testing`; an implementation is one file in its own row.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol, TypeVar

from trialrun.core.calls import Call, Message, Parsed, RawReply, Reply, Request, Tool, Usage
from trialrun.core.facts import Entry, Fact, RequestDelta, Settled, StudyFact, TrialFact
from trialrun.core.rubric import Rating
from trialrun.core.state import TrialState
from trialrun.core.study import Party, Price, Spec, Trial

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial turned out: values by name, and the reason why it ended."""

    values: Mapping[str, object] = field(default_factory=dict[str, object])
    end_reason: str = "finished"


class Procedure(Protocol):
    """One kind of experiment: what happens inside a single trial."""

    async def run(self, trial: Trial, lab: "Lab") -> Outcome: ...


class Lab(Protocol):
    """A trial's only way to the world. What comes back is journaled before the procedure sees it.

    A lab belongs to the task that it was given to; work side by side goes through `together`.
    """

    @property
    def turn(self) -> int:
        """The number of the current turn; 0 before the first."""
        ...

    @property
    def spec(self) -> Spec:
        """What is in force in the current turn: a fork's own values from its turn on, its source's before."""
        ...

    @property
    def transcript(self) -> "Sequence[Utterance]":
        """Everything said so far, oldest first."""
        ...

    def next_turn(self, number: int | None = None) -> AbstractAsyncContextManager[int]:
        """One round of the procedure: numbers what happens in it, and bounds its time."""
        ...

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
        """Ask a party of the study, or a model by name.

        A structured reply that does not fit its schema is asked for once more, as a call of its own.
        """
        ...

    async def ask_human(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        party: str = "human",
        check: Callable[[str], str | None] | None = None,
    ) -> str:
        """Put a question to a person. The trial is parked until the answer is there."""
        ...

    async def act(
        self,
        name: str,
        do: Callable[[], Awaitable[T]],
        *,
        recover: Callable[[], Awaitable[T]] | None = None,
        rehearsed: T = ...,
    ) -> T:
        """Do something to the world, once. The result must be plain data."""
        ...

    async def together(self, *branches: "Callable[[Lab], Awaitable[T]]") -> list[T]:
        """Run branches side by side, each with a lab of its own; results come in the order of the branches.

        A branch knows what was said before it began and what it says itself; what all of them said is known when all
        have ended, in the order of the branches.
        """
        ...

    def say(self, party: str, text: "str | Reply", *, to: Sequence[str] = ()) -> None:
        """Record an utterance. `to` names who hears it; empty means everybody."""
        ...

    def heard_by(self, party: str) -> list[Message]:
        """The conversation as this party knows it: its own words as assistant, all others as user."""
        ...

    def measure(self, name: str, value: str | int | float | bool | None, *, note: str = "") -> None:
        """Record a value. None is missing, and `note` says why."""
        ...

    def gate(self, name: str, is_open: bool, *, note: str = "") -> bool:
        """Whether the next stage of this trial is worth its cost; recorded as the measure `gate_<name>`.

        One of the two walks of a plan goes through every gate, so that a plan shows what may lie behind.
        """
        ...

    def rate(self, rating: Rating) -> None:
        """Record a rating: a value, or why there is none."""
        ...

    def state(self, party: str, **values: object) -> None:
        """Log the hidden state of a party."""
        ...

    def keep(self, name: str, content: str | bytes, *, media_type: str = "text/plain") -> None:
        """Keep an artefact under a name."""
        ...

    def random(self, stream: str = "procedure") -> "Stream":
        """The stream of random numbers with this name; it belongs to this trial alone."""
        ...

    def now(self) -> datetime:
        """The time, as it was when the trial first came here."""
        ...

    def render(self, party: str | Party, **values: object) -> str:
        """The party's prompt with its values, and these, put in. A party of the procedure's own may bring any text."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One entry of a transcript."""

    turn: int
    party: str
    text: str
    audience: tuple[str, ...] = ()


class Stream(Protocol):
    """A stream of random numbers; the standard library's generator fits."""

    def random(self) -> float: ...

    def randint(self, a: int, b: int) -> int: ...

    def randrange(self, start: int, stop: int | None = None) -> int: ...

    def uniform(self, a: float, b: float) -> float: ...

    def gauss(self, mu: float, sigma: float) -> float: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def choices(
        self, population: Sequence[T], weights: Sequence[float] | None = None, *, k: int = 1
    ) -> list[T]: ...

    def sample(self, population: Sequence[T], k: int) -> list[T]: ...

    def shuffle(self, x: list[T]) -> None: ...


class Provider(Protocol):
    """One way to reach models. Pure translation around one `send`."""

    name: str
    is_rehearsal: bool

    def prepare(self, call: Call) -> bytes:
        """The body of the request, identical in every lane."""
        ...

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        """One attempt, no hidden retries. Raises a CallError or StudyStop that says whether it was billed."""
        ...

    def meter(self, raw: RawReply) -> Usage | None:
        """The tokens that this reply is billed for; None when it does not say."""
        ...

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        """Read the reply. Raises ReplyUnreadable; by then it is paid and stored."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the gateway brings back: the settled attempt and, if it could be read, the text."""

    settled: Settled
    text: str
    extras: Mapping[str, object] = field(default_factory=dict[str, object])


class Door(Protocol):
    """The gateway as a lab sees it: the only door to money."""

    async def ask(
        self, call: Call, *, attempts_before: int, delta: RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        """Hold, pace, send, journal and settle. Raises what `core.errors` says of calls and stops."""
        ...


class PriceBook(Protocol):
    """What models cost."""

    def price_of(self, model: str) -> Price | None:
        """The price in force for `provider/model`, or None when nobody knows."""
        ...

    def batch_price_of(self, model: str) -> Price | None:
        """The same in the batch lane."""
        ...


class Clock(Protocol):
    """Time, so that tests can own it."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A wish of another process: stop, or an answer to a human question."""

    id: int
    kind: str
    body: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Sums over the trials of one condition (or of a study): counts by status, money, tokens."""

    condition: str
    by_status: Mapping[str, int]
    spent_usd: Decimal
    held_usd: Decimal
    unknown_costs: int = 0
    doubts: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Journal(Protocol):
    """The study's memory: facts go in and are never changed. One process at a time may append.

    J1. Facts become durable in the order in which they were appended.
    J2. When `commit` returns, everything appended before it is durable.
    J3. After a failed commit nothing later is accepted: the journal never has a hole.
    J4. A read shows everything that a finished commit covers; what was appended since may show or not.
    """

    def append(
        self,
        trial: str,
        facts: "Sequence[TrialFact] | Sequence[StudyFact]",
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        """Put facts at the end. `texts` are the texts that they name, by hash; known ones are skipped."""
        ...

    async def commit(self) -> None:
        """Wait until everything appended so far is durable."""
        ...

    async def facts_of(self, trial: str) -> list[Entry]:
        """All facts of one trial (or, with an empty name, of the study), oldest first."""
        ...

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        """The stored texts of these hashes; unknown ones are left out."""
        ...

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]:
        """Where these trials stand; those that never began are left out."""
        ...

    def with_status(self, *statuses: str) -> AsyncIterator[TrialState]:
        """All trials that have one of these statuses; all that ever began when none is named."""
        ...

    async def tallies(self) -> list[Tally]:
        """Sums by condition; forks and judging are not part of them, but see `total`."""
        ...

    async def total(self) -> Tally:
        """Sums over everything that ever cost money in this study."""
        ...

    def since(self, seq: int, *kinds: str) -> AsyncIterator[Entry]:
        """Facts of all trials with a higher number and of one of these kinds (their tags), in order."""
        ...

    async def commands(self) -> list[Command]:
        """Wishes of other processes that nobody has taken yet."""
        ...

    async def take(self, command: Command, *, answer: str) -> None:
        """Acknowledge a wish."""
        ...

    async def heartbeat(self, live: Mapping[str, object]) -> None:
        """Publish where the running process stands, for `status` and `watch`."""
        ...

    async def close(self) -> None: ...


FactSink = Callable[[Fact], None]
