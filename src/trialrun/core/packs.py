"""Fold of the facts of packs: where each stands on its way to the provider and back. Always recomputable."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, cast

from trialrun.core import pack_facts as p
from trialrun.core.batches import Look, Phase
from trialrun.core.facts import Entry
from trialrun.core.identity import digest
from trialrun.core.totals import Totals, difference

Stage = Literal["built", "uploading", "uploaded", "creating", "created", "fetched", "doubted", "closed"]
UNSENT: tuple[Stage, ...] = ("built", "uploading", "uploaded")
"""Where nothing has been begun at the provider."""


@dataclass(kw_only=True, slots=True)
class Pack:
    """Where one pack stands. Only `apply` changes it."""

    id: str
    model: str
    endpoint: str
    requests: int
    size_bytes: int
    tokens: int
    digest: str
    ceiling_usd: Decimal | None
    window: str
    built_at: float
    beside: tuple[tuple[str, str], ...] = ()
    stage: Stage = "built"
    input: str = ""
    batch: str = ""
    former: tuple[str, ...] = ()
    """Batches that were made of it and for which the provider had no room: none of them is the one looked for."""
    is_found: bool = False
    created_at: float | None = None
    is_cancelled: bool = False
    """Whether we asked the provider to stop it."""
    refusals: int = 0
    reason: str = ""
    look: Look | None = None
    files: tuple[tuple[str, str, int], ...] = ()
    balance: p.PackBalanced | None = None
    built_seq: int = 0
    """The number of the fact that says that it is built; 0 if it was built in this process."""
    decision: p.PackDecided | None = None
    counts: dict[str, int] | None = None
    closed_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self.stage != "closed"

    @property
    def off(self) -> Totals:
        """What the provider's totals say beyond what was settled line by line; empty where they agree."""
        return difference(self.balance.said, self.balance.settled) if self.balance else Totals()

    @property
    def is_out(self) -> bool:
        """Whether the provider has it, as far as anybody knows."""
        return self.stage in ("creating", "created", "doubted")

    def apply(self, fact: p.PackFact, at: float) -> None:
        """Take one more fact of this pack into account."""
        match fact:
            case p.PackBuilt():
                pass
            case p.PackIntended():
                self._intend(fact.step)
            case p.PackUploaded():
                self.stage, self.input = "uploaded", fact.input
            case p.PackRefused():
                if self.stage == "created":
                    self.former = (*self.former, self.batch)
                self.stage, self.reason = "uploaded" if self.input else "built", fact.reason
                self.refusals += 1
            case p.PackCreated():
                self.stage, self.batch, self.is_found = "created", fact.batch, fact.is_found
                self.created_at, self.reason, self.is_cancelled = at, "", False
            case p.PackSeen():
                self.look = look_of(fact)
            case p.PackFetched():
                self.stage, self.files = "fetched", fact.files
            case p.PackBalanced():
                self.balance = fact
            case p.PackDoubted():
                self.stage, self.reason = "doubted", fact.reason
            case p.PackDecided():
                self.decision = fact
            case p.PackClosed():
                self.stage, self.counts, self.closed_at = "closed", fact.counts, at

    def _intend(self, step: p.PackStep) -> None:
        if step == "cancel":
            self.is_cancelled = True
        else:
            self.stage = "uploading" if step == "upload" else "creating"


def pack_of(fact: p.PackBuilt, at: float, seq: int = 0) -> Pack:
    """A pack as it begins."""
    return Pack(
        built_seq=seq,
        id=fact.pack,
        model=fact.model,
        endpoint=fact.endpoint,
        requests=fact.requests,
        size_bytes=fact.size_bytes,
        tokens=fact.tokens,
        digest=fact.digest,
        ceiling_usd=fact.ceiling_usd,
        window=fact.window,
        beside=fact.beside,
        built_at=at,
    )


def packs_in(entries: Iterable[Entry]) -> dict[str, Pack]:
    """All packs of a study's own facts, in the order in which they were built."""
    packs: dict[str, Pack] = {}
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, p.PackBuilt):
            packs[fact.pack] = pack_of(fact, entry.at, entry.seq)
        elif isinstance(fact, p.PackFact):
            packs[fact.pack].apply(fact, entry.at)
    return packs


def pack_id(study: str, model: str, file_digest: str, *, taken: Container[str] = ()) -> str:
    """Id of a pack, from what is in it. Only one that was taken apart before it left may be built a second time."""
    id_ = "p" + digest([study, model, file_digest], size=8)
    number = 1
    while id_ in taken:
        number += 1
        id_ = "p" + digest([study, model, file_digest, number], size=8)
    return id_


def look_of(fact: p.PackSeen) -> Look:
    return Look(
        phase=cast("Phase", fact.phase),
        word=fact.word,
        total=fact.total,
        done=fact.done,
        failed=fact.failed,
        results=fact.results,
        problems=fact.problems,
        expires_at=fact.expires_at,
        is_stopped=fact.is_stopped,
        totals=fact.totals,
    )


def seen(pack: str, look: Look) -> p.PackSeen:
    """What the provider said, as a fact."""
    return p.PackSeen(
        pack=pack,
        phase=look.phase,
        word=look.word,
        total=look.total,
        done=look.done,
        failed=look.failed,
        results=look.results,
        problems=look.problems,
        expires_at=look.expires_at,
        is_stopped=look.is_stopped,
        totals=look.totals,
    )
