"""What is stored of a pack, as it is read again: only if it is as it was stored, and only as much as is wanted."""

from asyncio import to_thread
from collections.abc import Iterator
from dataclasses import dataclass

from trialrun.core import errors as e
from trialrun.core.batches import PackFile, PackStore
from trialrun.core.marks import Marks
from trialrun.core.packs import UNSENT, Pack


def must_be_whole(pack: Pack, packs: PackStore) -> None:
    """StoreError unless it is known whose all of the pack's calls are: one that is not would leave once more."""
    for name, digest in pack.beside:
        if not packs.has(pack.id, name, digest):
            raise not_as_stored(pack, name)
    if not pack.beside and sum(1 for _ in packs.rows(pack.id)) != pack.requests:
        raise not_as_stored(pack, "rows.jsonl")


async def file_of(pack: Pack, packs: PackStore) -> PackFile:
    """The pack's requests. One that has not left leaves only as it was put down."""
    file = packs.sealed(pack.id, pack.model)
    if file is None:
        raise not_as_stored(pack, "requests.jsonl")
    name = file.path.name
    if pack.stage in UNSENT and not await to_thread(packs.has, pack.id, name, pack.digest):
        raise not_as_stored(pack, name)
    return file


def not_as_stored(pack: Pack, name: str) -> e.StoreError:
    return e.StoreError(
        f"`{name}` of the batch {pack.id} is not there, or not as it was stored",
        where=f"batches/{pack.id}",
        fix="put the folder `batches` of the study back as it was: without it, calls that are out would be sent again",
    )


@dataclass(frozen=True, slots=True)
class TrialsOf:
    """The trials of a pack to which something came, read from its file as they are woken."""

    pack: str
    packs: PackStore
    missing: Marks

    def __iter__(self) -> Iterator[str]:
        last = ""
        for row in self.packs.rows(self.pack):
            if row.trial != last and row.key not in self.missing:
                last = row.trial
                yield last
