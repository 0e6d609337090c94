"""The batch lane's nouns and ports: what a pack is, what a provider says of a batch, and the protocols between them.

A **pack** is a set of calls that travel together; it becomes a provider's batch. Its requests are a file of lines,
each under an id that follows from trial, address and attempt, so that a result finds its call again in any order.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from trialrun.core.calls import Call, RawReply, Request
from trialrun.core.errors import TrialrunError
from trialrun.core.ports import Provider
from trialrun.core.totals import Totals

Phase = Literal["queued", "running", "finishing", "cancelling", "ended", "failed", "gone", "unknown"]
"""Where a batch stands, in one vocabulary for all providers. `ended`: read every line, whatever the provider calls it.
`failed`: nothing ran and nothing was billed. `gone`: it ended, and its results are deleted. `unknown`: a word that
nobody knows; keep looking, slowly, and never send again."""

Anchor = Literal["input", "name", "none"]
"""What a batch can be found by when the reply to its creation was lost: the uploaded input, the pack's name, or
nothing. Without an anchor only a person may decide that the requests are sent again."""


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch may hold."""

    requests: int
    size_bytes: int
    is_one_model: bool = True


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One request of a pack: whose it is, and what is held for it."""

    id: str
    trial: str
    condition: str
    at: str
    attempt: int
    ceiling_usd: Decimal | None
    form: int
    """The number of the request's form in the pack: all that reading its reply needs, without its messages."""
    turn: int = 0

    @property
    def place(self) -> str:
        return f"{self.trial}/{self.at}"

    @property
    def key(self) -> str:
        return attempt_key(self.trial, self.at, self.attempt)


def attempt_key(trial: str, at: str, attempt: int) -> str:
    """One name for an attempt of a call."""
    return f"{trial}/{at}#{attempt}"


class PackFile(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed pack, as an adapter sends it. The file's bytes never change again."""

    id: str
    model: str
    """As the study names it: `provider/model`."""
    path: Path
    requests: int
    size_bytes: int
    window: str = "24h"
    beside: tuple[tuple[str, str], ...] = ()
    """Of one that was just sealed: the files beside the requests that say whose they are, each with its digest."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says of a batch when it is asked. None is what it does not say."""

    phase: Phase
    word: str
    """The provider's own word for it."""
    total: int | None = None
    done: int | None = None
    failed: int | None = None
    results: tuple[str, ...] = ()
    """What can be fetched, in the provider's terms (file ids, addresses, object names): `fetch` takes each."""
    problems: tuple[str, ...] = ()
    """Why the batch as a whole was refused, with the number of the line where the provider gives it."""
    created_at: float | None = None
    expires_at: float | None = None
    totals: Totals | None = None
    """Once it has ended: what it comes to as a whole."""
    is_stopped: bool = False
    """Whether it ended before all of it ran, and writes no line for what did not: then `done` and `failed` tell whether
    the results are whole."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results, as read: a reply as the live lane would have had it, or why there is none.

    `error` says what follows: Throttled or Unavailable may be tried again, RequestRefused will be refused again,
    QuotaExhausted and AuthRefused stop the study. Without reply and error the request never ran (expired, cancelled).
    """

    id: str
    """Empty for a line that names none, or cannot be read."""
    raw: RawReply | None = None
    error: TrialrunError | None = None
    reason: str = ""
    """Why it never ran, in the provider's words."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of the account, as a list shows it."""

    batch: str
    word: str
    created_at: float | None = None
    requests: int | None = None
    input: str = ""
    name: str = ""


class BatchRoute(Protocol):
    """One provider's batch API. Pure translation around single requests: no hidden retries, no state.

    B1. Each of `upload`, `create`, `look`, `find`, `cancel` sends what the protocol needs once, and raises a CallError
        or StudyStop like a live call; `billed="unknown"` from `create` means that the batch may exist.
    B2. The body inside a line is the live lane's, byte for byte.
    """

    limits: BatchLimits
    anchor: Anchor

    @property
    def provider(self) -> Provider:
        """The live adapter of the same account: it spells bodies, reads usage and replies."""
        ...

    def endpoint_of(self, call: Call) -> str:
        """What may share a pack: the path, and everything that a batch states once for all of its lines.

        Raises RequestRefused for a call that this provider's batches cannot carry.
        """
        ...

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        """One line of the pack's file, with its newline."""
        ...

    async def upload(self, pack: PackFile) -> str:
        """Bring the file to the provider and return its handle there; empty where `create` carries the requests."""
        ...

    async def create(self, pack: PackFile, input_: str) -> str:
        """Begin the batch and return its id."""
        ...

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        """Batches that carry the pack's anchor, newest first; without an anchor, those that may be it."""
        ...

    async def look(self, batch: str) -> Look: ...

    async def cancel(self, batch: str) -> None: ...

    async def listed(self, *, most: int = 100) -> list[Listed]:
        """The account's newest batches."""
        ...

    def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        """The bytes of one of the results, as JSON lines, in chunks.

        Raises Unavailable if they break off, and RequestRefused with status 404 if they are deleted.
        """
        ...

    def read(self, line: bytes) -> Result:
        """Read one line of results. Never raises: a line that makes no sense has an empty id."""
        ...


class Form(msgspec.Struct, frozen=True):
    """A request without its messages: what reading a reply needs."""

    request: Request

    @classmethod
    def of(cls, request: Request) -> "Form":
        return cls(msgspec.structs.replace(request, messages=()))


class Spool(Protocol):
    """A pack that is still being filled."""

    requests: int
    size_bytes: int

    @property
    def digest(self) -> str:
        """Of the lines so far."""
        ...

    def form_number(self, form: Form) -> int:
        """The number under which rows name this form; equal forms have one."""
        ...

    def add(self, line: bytes, row: Row) -> None: ...

    def seal(self, id_: str) -> PackFile:
        """Make everything durable under the pack's id. Nothing can be added any more."""
        ...

    def discard(self) -> None: ...


class Directory(Protocol):
    """The rows of a sealed pack by number, from 0, and by id. They stay on disk: there may be fifty thousand."""

    def __len__(self) -> int: ...

    def number_of(self, id_: str) -> int | None:
        """Which row has this id; None for a foreign one."""
        ...

    def row(self, number: int) -> Row: ...

    def close(self) -> None: ...


class PackStore(Protocol):
    """Where the files of packs are: in the study's folder, so that they travel with it."""

    def spool(self, model: str) -> Spool:
        """Begin a pack."""
        ...

    def sealed(self, id_: str, model: str) -> PackFile | None:
        """The pack that was sealed under this id; None if its file is not there."""
        ...

    def rows(self, id_: str) -> Iterator[Row]:
        """Whose each request is, in the order of the file."""
        ...

    def directory(self, id_: str) -> Directory:
        """The same, to be looked up. The caller closes it."""
        ...

    def forms(self, id_: str) -> Sequence[Form]:
        """What reading the replies needs of the requests, by number."""
        ...

    async def keep(self, id_: str, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        """Store raw results, whole or not at all. Returns their digest and size."""
        ...

    def has(self, id_: str, name: str, digest: str) -> bool:
        """Whether stored results are there, as they were stored."""
        ...

    def lines(self, id_: str, name: str) -> Iterator[bytes]:
        """The lines of stored results."""
        ...

    def sweep(self, known: set[str]) -> None:
        """Remove what was never sealed, or is no pack of the journal."""
        ...
