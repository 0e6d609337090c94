"""What can happen to a pack of the batch lane, as data. Facts of the study, as a pack holds calls of many trials.

They come in this order, each durable before the next step is taken: built, intended (upload), uploaded, intended
(create), created, seen (as often as the provider says something new), fetched, balanced (where the provider says what
the whole comes to), closed. A doubt may come at any point
after an intent, and is followed by a person's decision.
"""

from decimal import Decimal
from typing import Literal

import msgspec

from trialrun.core.totals import Totals

PackStep = Literal["upload", "create", "cancel"]
Decision = Literal["send_again", "unbilled", "adopt", "accept"]


class _PackFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fact"):
    """Common shape; `pack` is its id."""

    pack: str


class PackBuilt(_PackFact, frozen=True, tag="pack_built"):
    """The requests of a pack are a file that never changes again; nothing has left."""

    model: str
    endpoint: str
    requests: int
    size_bytes: int
    digest: str
    tokens: int
    """A fair guess of its input tokens, for the provider's queue."""
    ceiling_usd: Decimal | None
    window: str = "24h"
    beside: tuple[tuple[str, str], ...] = ()
    """The files beside it that say whose its requests are, each with its digest; empty in older studies."""


class PackIntended(_PackFact, frozen=True, tag="pack_intended"):
    """A step is about to be taken at the provider."""

    step: PackStep
    reason: str = ""


class PackUploaded(_PackFact, frozen=True, tag="pack_uploaded"):
    """The provider has the file under this handle; empty where its creation carries the requests."""

    input: str


class PackRefused(_PackFact, frozen=True, tag="pack_refused"):
    """The provider did not take the batch, and surely made none."""

    error: str
    reason: str


class PackCreated(_PackFact, frozen=True, tag="pack_created"):
    """The provider has made a batch of it."""

    batch: str
    is_found: bool = False
    """Whether it was found again after its creation was in doubt."""


class PackSeen(_PackFact, frozen=True, tag="pack_seen"):
    """The provider said something new about the batch."""

    phase: str
    word: str
    total: int | None = None
    done: int | None = None
    failed: int | None = None
    results: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    expires_at: float | None = None
    is_stopped: bool = False
    totals: Totals | None = None


class PackFetched(_PackFact, frozen=True, tag="pack_fetched"):
    """All results are here, as they came: a file for each, with its digest and size."""

    files: tuple[tuple[str, str, int], ...]


class PackBalanced(_PackFact, frozen=True, tag="pack_balanced"):
    """All results were read: what the provider says that the batch comes to, and what its lines were settled at."""

    said: Totals
    settled: Totals


class PackDoubted(_PackFact, frozen=True, tag="pack_doubted"):
    """Nobody knows what became of the pack, or of some of its lines. Their money stays held, and a person decides."""

    reason: str
    lines: int


class PackDecided(_PackFact, frozen=True, tag="pack_decided"):
    """What a person decided about a pack in doubt."""

    decision: Decision
    batch: str = ""


class PackClosed(_PackFact, frozen=True, tag="pack_closed"):
    """Every line of the pack has become facts of its trial. `counts` says how many became what."""

    counts: dict[str, int]


PackFact = (
    PackBuilt
    | PackIntended
    | PackUploaded
    | PackRefused
    | PackCreated
    | PackSeen
    | PackFetched
    | PackBalanced
    | PackDoubted
    | PackDecided
    | PackClosed
)
