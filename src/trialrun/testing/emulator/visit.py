"""One request on its way through the desk: a live one, or a line of a batch."""

from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from trialrun.core.calls import Usage
from trialrun.testing.emulator.asked import Stamp, Trouble
from trialrun.testing.emulator.book import ZERO
from trialrun.testing.emulator.limits import Admission
from trialrun.testing.emulator.script import Rule


@dataclass(kw_only=True, slots=True)
class Visit:
    """One request on its way through the desk."""

    number: int
    at: float
    began: float
    path: str
    provider: str
    model: str = ""
    key: str = "none"
    call: str = ""
    body_hash: str = ""
    outcome: str = "unread"
    """Then `cut_off`, until it is known how the request ended."""
    rule: str = ""
    usage: Usage | None = None
    cost_usd: Decimal | None = ZERO
    is_billed: bool = False
    arrival: bytes = b""
    """The branch of chance of this request, which comes for the `repeat`th time."""
    repeat: int = 0
    admission: Admission | None = None
    source_key: bytes = b""
    stamp: Stamp = field(init=False)

    def __post_init__(self) -> None:
        # Until the request is read, it is known by its number alone.
        self.stamp = Stamp(id=f"{self.number:032x}", at=self.at, model=self.model)


class LineAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a batch, on its way to the desk."""

    id: str
    """As the client calls it."""
    body: bytes
    provider: str
    model: str
    """Where the body does not name it."""
    path: str
    key: str
    batch: str
    batch_number: int
    at: float
    """When its turn came."""
    is_billed: bool = True
    trouble: Trouble | None = None
    """Why the batch does not answer it."""
    is_again: bool = False
    """Whether it was answered before; then the script has nothing more in mind for it."""


class LineReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a line."""

    status: int
    content: dict[str, object]
    stamp: Stamp
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    """What it is billed at; None if its price is not known."""
    rule: Rule | None = None

    @property
    def is_ok(self) -> bool:
        return self.status < 400
