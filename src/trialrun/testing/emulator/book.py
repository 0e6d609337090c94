"""The book: what arrived, what became of it, and what a real provider would have billed for it.

B1. Every request for a reply that arrived is in the book once, also if it was refused, dropped or never read whole.
B2. A cost is usage times price, exact; an unknown price is None and never 0. What was not billed costs 0.
B3. No key is in the book: only its name, or a hash of it.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from trialrun.core.calls import Usage

ZERO = Decimal(0)


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request. Times are seconds since 1970."""

    number: int
    at: float
    key: str
    provider: str
    model: str
    path: str
    request: str
    """Hash of the body as it came."""
    call: str = ""
    """The caller's own name for it, from the headers `x-trialrun-call` or `x-client-request-id`; a line's custom id."""
    lane: Literal["live", "batch"] = "live"
    batch: str = ""
    """The batch of which it is a line."""
    outcome: str
    """`answered`, the fault that the script chose, or why the request was refused."""
    rule: str = ""
    status: int | None = None
    """None if nothing was sent."""
    usage: Usage | None = None
    is_billed: bool = False
    cost_usd: Decimal | None = ZERO
    reached: bool = False
    """Whether the whole reply was handed to a client that was still there. Never said of a line of a batch."""
    request_id: str = ""
    seconds: float = 0.0


class Totals(msgspec.Struct, kw_only=True):
    """Sums over entries. `cost_usd` leaves out what has no price; `unpriced` counts that."""

    requests: int = 0
    answered: int = 0
    billed: int = 0
    batched: int = 0
    """Of the billed ones, those that were lines of a batch."""
    billed_unreached: int = 0
    """Live replies that cost money and never arrived."""
    unpriced: int = 0
    cost_usd: Decimal = ZERO
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_reasoning: int = 0

    def add(self, entry: Entry) -> None:
        self.requests += 1
        self.answered += entry.outcome == "answered"
        if not entry.is_billed:
            return
        self.billed += 1
        self.batched += entry.lane == "batch"
        self.billed_unreached += entry.lane == "live" and not entry.reached
        if entry.cost_usd is None:
            self.unpriced += 1
        else:
            self.cost_usd += entry.cost_usd
        if entry.usage is not None:
            self.tokens_in += entry.usage.tokens_in
            self.tokens_out += entry.usage.tokens_out
            self.tokens_cached += entry.usage.tokens_cached
            self.tokens_reasoning += entry.usage.tokens_reasoning

    def as_data(self) -> dict[str, object]:
        """By name, money as Decimal."""
        return msgspec.structs.asdict(self)


class Book:
    """All entries in the order in which they ended, with sums that are kept up to date."""

    def __init__(self, file: Path | None = None) -> None:
        self.entries: list[Entry] = []
        self.open = 0
        """Requests that arrived and have not ended."""
        self.most_open = 0
        self.arrived = 0
        self.quiet = asyncio.Event()
        """Set while no request is open."""
        self.quiet.set()
        self._total = Totals()
        self._sums: dict[tuple[str, str], Totals] = {}
        self._outcomes: dict[str, int] = {}
        self._file = file
        self._descriptor: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def arrive(self) -> int:
        """A request is here. Returns its number, from 1."""
        self.arrived += 1
        self.open += 1
        self.quiet.clear()
        self.most_open = max(self.most_open, self.open)
        return self.arrived

    def write(self, entry: Entry) -> None:
        """A request has ended. One line is one write, so that a reader never sees half of one."""
        self.open -= 1
        self.entries.append(entry)
        self._total.add(entry)
        place = (entry.key, f"{entry.provider}/{entry.model}")
        sums = self._sums.get(place)
        if sums is None:
            sums = self._sums[place] = Totals()
        sums.add(entry)
        self._outcomes[entry.outcome] = self._outcomes.get(entry.outcome, 0) + 1
        if self._file is not None:
            os.write(self._opened(self._file), msgspec.json.encode(entry) + b"\n")
        if not self.open:
            self.quiet.set()

    def reset(self) -> None:
        """Forget all; requests that are still open will be in the new book. The file is left as it is."""
        self.entries.clear()
        self._total = Totals()
        self._sums.clear()
        self._outcomes.clear()
        self.arrived = self.most_open = self.open

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # --- sums ------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> Totals:
        return self._total

    @property
    def billed_usd(self) -> Decimal:
        """What a real provider would have asked for everything; what has no price is left out."""
        return self._total.cost_usd

    @property
    def outcomes(self) -> dict[str, int]:
        """How many requests ended in each way."""
        return dict(self._outcomes)

    @property
    def by_key(self) -> dict[str, Totals]:
        return self._grouped(0)

    @property
    def by_model(self) -> dict[str, Totals]:
        return self._grouped(1)

    def lines(self) -> bytes:
        """All entries as JSON lines."""
        return b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries)

    def stats(self) -> dict[str, object]:
        """The sums, for programs."""
        return {
            "arrived": self.arrived,
            "open": self.open,
            "most_open": self.most_open,
            "total": self._total,
            "outcomes": self.outcomes,
            "by_key": self.by_key,
            "by_model": self.by_model,
        }

    def _grouped(self, part: int) -> dict[str, Totals]:
        groups: dict[str, Totals] = {}
        for place, sums in self._sums.items():
            group = groups.setdefault(place[part], Totals())
            for name in Totals.__struct_fields__:
                setattr(group, name, getattr(group, name) + getattr(sums, name))
        return groups

    def _opened(self, file: Path) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._descriptor


def read_book(file: Path) -> list[Entry]:
    """The entries of a book that was written to a file."""
    return [_ENTRY.decode(line) for line in file.read_bytes().splitlines()]


def key_name(key: str) -> str:
    """The name of a key that has none: a hash of it."""
    return "key-" + hashlib.blake2b(key.encode(), digest_size=4).hexdigest() if key else "none"


_ENTRY = msgspec.json.Decoder(Entry)
