"""Files of the Gemini Developer API: brought in pieces that can be taken up again, and fetched if a batch made them."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trialrun.core import chance
from trialrun.testing.emulator.asked import Refusal, Sent, Trouble, refused
from trialrun.testing.emulator.batches.door import Caller, Door, Download, missing, said_so
from trialrun.testing.emulator.batches.files import Stored
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.pages import paged
from trialrun.testing.emulator.dialect import Json

_KEPT_S = 2 * 86_400.0
_PIECE = 1 << 18


@dataclass(kw_only=True, slots=True)
class _Coming:
    """A file of which a part may be here."""

    path: Path
    name: str
    media_type: str
    owner: str
    size: int = 0
    stored: Stored | None = None


class GeminiFiles:
    """`files` and what is below it, and `upload/…/files`."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._coming: dict[str, _Coming] = {}

    def subject(self, caller: Caller) -> Stored | None:
        return self._door.files.find(caller.provider, caller.owner, caller.at("file"), caller.now)

    async def begin(self, caller: Caller) -> Sent:
        """The first request of an upload in pieces: says where to send them."""
        headers = caller.request.headers
        given = decoded_file(await caller.request.read())
        number = f"{len(self._coming) + 1}-{chance.derive(self._door.queue.seed, 'upload').hex()[:12]}"
        self._coming[number] = _Coming(
            path=self._door.files.place(),
            name=given.displayName or given.display_name or headers.get("X-Goog-Upload-File-Name", ""),
            media_type=headers.get("X-Goog-Upload-Header-Content-Type", "application/octet-stream"),
            owner=caller.owner,
        )
        url = (
            f"{caller.request.url.origin()}{caller.request.path}?upload_id={number}&upload_protocol=resumable"
        )
        moved = {"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"}
        return Sent(status=200, body=b"", headers=moved)

    async def piece(self, caller: Caller) -> Sent:
        """A further request of an upload: a piece, the last one, or how much is here."""
        coming = self._coming.get(caller.asked("upload_id"))
        if coming is None:
            raise missing("There is no such upload.")
        commands = {
            each.strip() for each in caller.request.headers.get("X-Goog-Upload-Command", "").split(",")
        }
        if "upload" in commands:
            await self._take(coming, caller)
        if "finalize" not in commands and coming.stored is None:
            received = {"X-Goog-Upload-Status": "active", "X-Goog-Upload-Size-Received": str(coming.size)}
            return Sent(status=200, body=b"", headers=received)
        coming.stored = coming.stored or self._kept(coming, caller)
        return Sent(
            status=200,
            body=msgspec.json.encode({"file": _told(coming.stored, caller)}),
            headers={"X-Goog-Upload-Status": "final"},
        )

    async def look(self, caller: Caller) -> Sent:
        return said_so(_told(self._find(caller), caller))

    async def listed(self, caller: Caller) -> Sent:
        found = list(self._door.files.of(caller.provider, caller.owner, caller.now))[::-1]
        shown, more = paged(found, caller, usual=10)
        told: Json = {"files": [_told(stored, caller) for stored in shown]}
        return said_so({**told, "nextPageToken": more} if more else told)

    async def content(self, caller: Caller) -> Sent | Download:
        stored = self._find(caller)
        if not stored.batch:
            raise Refusal(Trouble(kind="forbidden", message="Only files that were made here can be fetched."))
        return Download(stored=stored)

    async def delete(self, caller: Caller) -> Sent:
        self._door.files.remove(self._find(caller))
        return said_so({})

    def _find(self, caller: Caller) -> Stored:
        stored = self.subject(caller)
        if stored is None:
            # Google does not tell what is not there from what is not for you.
            words = f"You do not have permission to access the File {caller.at('file')} or it may not exist."
            raise Refusal(Trouble(kind="forbidden", message=words))
        return stored

    async def _take(self, coming: _Coming, caller: Caller) -> None:
        offset = caller.request.headers.get("X-Goog-Upload-Offset", "0")
        if coming.stored is not None or offset != str(coming.size):
            raise refused(f"The upload goes on at {coming.size}, not at {offset}.")
        limit = self._door.queue.offer(caller.provider).size_bytes
        with coming.path.open("ab") as file:
            async for piece in caller.request.content.iter_chunked(_PIECE):
                file.write(piece)
                coming.size += len(piece)
                if coming.size > limit:
                    raise Refusal(Trouble(kind="too_large"))

    def _kept(self, coming: _Coming, caller: Caller) -> Stored:
        coming.path.touch()
        number = self._door.files.number()
        stored = Stored(
            id=chance.derive(self._door.queue.seed, caller.provider, "file", number).hex()[:12],
            provider=caller.provider,
            owner=coming.owner,
            name=coming.name,
            purpose="upload",
            path=coming.path,
            size=coming.size,
            created_at=caller.now,
            expires_at=caller.now + _KEPT_S,
            media_type=coming.media_type,
        )
        self._door.files.add(stored)
        return stored


def _told(stored: Stored, caller: Caller) -> Json:
    digest = hashlib.sha256(stored.path.read_bytes()).hexdigest()
    root = f"{caller.request.url.origin()}/gemini/v1beta/files/{stored.id}"
    told: Json = {
        "name": f"files/{stored.id}",
        "displayName": stored.name,
        "mimeType": stored.media_type,
        "sizeBytes": str(stored.size),
        "createTime": timestamp(stored.created_at),
        "updateTime": timestamp(stored.created_at),
        "expirationTime": timestamp(stored.expires_at),
        "sha256Hash": base64.b64encode(digest.encode()).decode(),
        "uri": root,
        "state": "ACTIVE",
        "source": "GENERATED" if stored.batch else "UPLOADED",
    }
    if stored.batch:
        told["downloadUri"] = f"{root}:download?alt=media"
    return told


class _File(msgspec.Struct):
    displayName: str = ""  # noqa: N815
    display_name: str = ""


class _Begin(msgspec.Struct):
    file: _File = msgspec.field(default_factory=_File)


def decoded_file(body: bytes) -> _File:
    """What the first request of an upload says about the file."""
    try:
        return _BEGIN.decode(body).file if body else _File()
    except msgspec.DecodeError as error:
        raise refused(f"The description of the file cannot be read: {error}") from error


_BEGIN = msgspec.json.Decoder(_Begin)
