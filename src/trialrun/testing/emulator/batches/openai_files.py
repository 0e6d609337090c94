"""OpenAI's files: uploaded with a form, listed, fetched and deleted. The same for everybody who copied their shape."""

from trialrun.core import chance
from trialrun.testing.emulator.asked import Sent, refused
from trialrun.testing.emulator.batches.door import Caller, Door, Download, missing, said_so
from trialrun.testing.emulator.batches.files import Stored
from trialrun.testing.emulator.batches.intake import form
from trialrun.testing.emulator.dialect import Json

_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_LEAST_S, _MOST_S = 3600, 2_592_000


class OpenAIFiles:
    """`/v1/files` and what is below it."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def subject(self, caller: Caller) -> Stored | None:
        return self._door.files.find(caller.provider, caller.owner, caller.at("file"), caller.now)

    async def upload(self, caller: Caller) -> Sent:
        limit = self._door.queue.offer(caller.provider).size_bytes
        given = await form(caller.request, self._door.files, most=limit)
        purpose = given.fields.get("purpose", "")
        if given.path is None:
            raise refused("Missing required parameter: 'file'.", param="file")
        if purpose not in _PURPOSES:
            raise refused(f"'{purpose}' is not one of {list(_PURPOSES)} - 'purpose'", param="purpose")
        expires_s = _expires_s(given.fields) or (_MOST_S if purpose == "batch" else None)
        number = self._door.files.number()
        stored = Stored(
            id=f"file-{chance.derive(self._door.queue.seed, caller.provider, 'file', number).hex()[:24]}",
            provider=caller.provider,
            owner=caller.owner,
            name=given.name,
            purpose=purpose,
            path=given.path,
            size=given.path.stat().st_size,
            created_at=caller.now,
            expires_at=None if expires_s is None else caller.now + expires_s,
        )
        self._door.files.add(stored)
        return said_so(_told(stored))

    async def look(self, caller: Caller) -> Sent:
        return said_so(_told(self.find(caller)))

    async def listed(self, caller: Caller) -> Sent:
        await self._door.queue.settle_all()
        found = list(self._door.files.of(caller.provider, caller.owner, caller.now))
        if caller.asked("order", "desc") == "desc":
            found.reverse()
        if purpose := caller.asked("purpose"):
            found = [stored for stored in found if stored.purpose == purpose]
        return said_so(page([_told(stored) for stored in found], caller, most=10_000))

    async def content(self, caller: Caller) -> Sent | Download:
        stored = self.find(caller)
        return Download(stored=stored, headers={"content-type": "application/octet-stream"})

    async def delete(self, caller: Caller) -> Sent:
        stored = self.find(caller)
        self._door.files.remove(stored)
        return said_so({"id": stored.id, "object": "file", "deleted": True})

    def find(self, caller: Caller) -> Stored:
        stored = self.subject(caller)
        if stored is None:
            raise missing(f"No such File object: {caller.at('file')}")
        return stored


def page(data: list[Json], caller: Caller, *, most: int = 100, otherwise: int = 20) -> Json:
    """The part of a list after `after`, with `limit` objects."""
    limit = min(most, max(1, number_in(caller, "limit", otherwise if most == 100 else most)))
    if after := caller.asked("after"):
        places = [place for place, each in enumerate(data) if each["id"] == after]
        if not places:
            raise refused(f"No object with the id '{after}' is there.", param="after")
        data = data[places[0] + 1 :]
    shown = data[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(data) > limit,
    }


def number_in(caller: Caller, name: str, otherwise: int) -> int:
    """A number of the query."""
    try:
        return int(caller.asked(name) or otherwise)
    except ValueError as error:
        raise refused(f"'{name}' must be a whole number.", param=name) from error


def _expires_s(fields: dict[str, str]) -> int | None:
    if "expires_after[seconds]" not in fields and "expires_after[anchor]" not in fields:
        return None
    seconds = fields.get("expires_after[seconds]", "")
    if fields.get("expires_after[anchor]") != "created_at":
        raise refused("expires_after.anchor must be 'created_at'.", param="expires_after.anchor")
    if not seconds.isdigit() or not _LEAST_S <= int(seconds) <= _MOST_S:
        raise refused(
            f"expires_after.seconds must be {_LEAST_S} to {_MOST_S}.", param="expires_after.seconds"
        )
    return int(seconds)


def _told(stored: Stored) -> Json:
    return {
        "id": stored.id,
        "object": "file",
        "bytes": stored.size,
        "created_at": int(stored.created_at),
        "expires_at": None if stored.expires_at is None else int(stored.expires_at),
        "filename": stored.name,
        "purpose": stored.purpose,
        "status": "processed",
        "status_details": None,
    }
