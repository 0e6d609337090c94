"""Cloud Storage by its JSON API, as much of it as batches need: objects in buckets, written at once or in pieces.

Every bucket exists. An object belongs to the account that wrote it, or whose batch did.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from trialrun.core import chance
from trialrun.testing.emulator.asked import Refusal, Sent, Trouble, refused
from trialrun.testing.emulator.batches.door import Caller, Door, Download, missing, said_so
from trialrun.testing.emulator.batches.files import Files, Stored
from trialrun.testing.emulator.batches.intake import related, whole
from trialrun.testing.emulator.batches.moments import timestamp
from trialrun.testing.emulator.batches.pages import paged
from trialrun.testing.emulator.dialect import Json

_SCHEME = "gs://"
_PROVIDER = "vertex"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


def parts_of(address: str) -> tuple[str, str]:
    """The bucket and the name of `gs://bucket/name`; the bucket is empty if the address is none."""
    if not address.startswith(_SCHEME):
        return "", ""
    bucket, _, name = address.removeprefix(_SCHEME).partition("/")
    return bucket, name


class Buckets:
    """All objects, by their addresses."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def find(self, address: str, owner: str, now: float) -> Stored | None:
        return self._files.find(_PROVIDER, owner, address, now)

    def put(
        self,
        address: str,
        path: Path,
        *,
        owner: str,
        at: float,
        media_type: str = "application/jsonl",
        expires_at: float | None = None,
        batch: int = 0,
        model: str = "",
    ) -> Stored:
        """What is at the path is an object from now on, in place of one that was there."""
        stored = Stored(
            id=address,
            provider=_PROVIDER,
            owner=owner,
            name=parts_of(address)[1],
            purpose="object",
            path=path,
            size=path.stat().st_size,
            created_at=at,
            expires_at=expires_at,
            media_type=media_type,
            batch=batch,
            model=model,
        )
        self._files.add(stored)
        return stored

    def remove(self, stored: Stored) -> None:
        self._files.remove(stored)

    def under(self, bucket: str, prefix: str, owner: str, now: float) -> list[Stored]:
        """The objects of a bucket whose names begin so, by name."""
        begin = f"{_SCHEME}{bucket}/{prefix}"
        found = [s for s in self._files.of(_PROVIDER, owner, now) if s.id.startswith(begin)]
        return sorted(found, key=lambda stored: stored.id)


@dataclass(kw_only=True, slots=True)
class _Coming:
    """An object of which a part may be here."""

    address: str
    path: Path
    media_type: str
    owner: str
    size: int = 0
    stored: Stored | None = None


class Storage:
    """`storage/v1/b/…`, `upload/storage/v1/b/…` and `download/storage/v1/b/…`."""

    def __init__(self, door: Door, buckets: Buckets) -> None:
        self._door = door
        self._buckets = buckets
        self._coming: dict[str, _Coming] = {}

    def subject(self, caller: Caller) -> Stored | None:
        return self._buckets.find(_address(caller, caller.at("object")), caller.owner, caller.now)

    # --- writing ----------------------------------------------------------------------------------------------------

    async def upload(self, caller: Caller) -> Sent:
        """An object in one request, by itself or after a description of it."""
        files = self._door.files
        match caller.asked("uploadType"):
            case "media":
                path, name = await whole(caller.request, files), caller.asked("name")
                kind = caller.request.content_type
            case "multipart":
                described, path, kind = await related(caller.request, files)
                name = described.get("name") or caller.asked("name")
                kind = described.get("contentType") or kind
            case other:
                raise refused(f"Invalid upload type: {other}")
        address = _address(caller, _named(name))
        self._check_precondition(caller, address)
        stored = self._buckets.put(address, path, owner=caller.owner, at=caller.now, media_type=kind)
        return said_so(_told(stored, caller))

    async def begin(self, caller: Caller) -> Sent:
        """The first request of an upload in pieces: says where to send them."""
        body = await caller.request.read()
        described = msgspec.json.decode(body, type=dict[str, object]) if body else {}
        name = _named(str(described.get("name") or caller.asked("name")))
        address = _address(caller, name)
        self._check_precondition(caller, address)
        number = f"{len(self._coming) + 1}-{chance.derive(self._door.queue.seed, address).hex()[:16]}"
        kind = described.get("contentType") or caller.request.headers.get("X-Upload-Content-Type", "")
        self._coming[number] = _Coming(
            address=address,
            path=self._door.files.place(),
            media_type=str(kind) or "application/octet-stream",
            owner=caller.owner,
        )
        self._coming[number].path.touch()
        where = f"{caller.request.url.origin()}{caller.request.path}?uploadType=resumable&upload_id={number}"
        return Sent(status=200, body=b"", headers={"location": where, "x-guploader-uploadid": number})

    async def piece(self, caller: Caller) -> Sent:
        """A further request of an upload: a piece, the last one, or how much is here."""
        coming = self._coming.get(caller.asked("upload_id"))
        if coming is None:
            raise missing("There is no such upload.")
        total = await self._take(coming, caller)
        if coming.stored is None and (total is None or coming.size < total):
            received = {"range": f"bytes=0-{coming.size - 1}"} if coming.size else {}
            return Sent(status=308, body=b"", headers=received)
        coming.stored = coming.stored or self._buckets.put(
            coming.address, coming.path, owner=coming.owner, at=caller.now, media_type=coming.media_type
        )
        return said_so(_told(coming.stored, caller))

    async def _take(self, coming: _Coming, caller: Caller) -> int | None:
        """Add what comes; returns how much there will be, if that is known."""
        found = _CONTENT_RANGE.fullmatch(caller.request.headers.get("Content-Range", ""))
        if found is None and "Content-Range" in caller.request.headers:
            raise refused("Failed to parse Content-Range header.")
        begin = int(found[1]) if found and found[1] else 0
        if (found is None or found[1]) and coming.stored is None:
            if begin > coming.size:
                raise refused(f"The upload goes on at {coming.size}, not at {begin}.")
            with coming.path.open("r+b") as file:
                file.seek(begin)
                async for part in caller.request.content.iter_chunked(1 << 18):
                    file.write(part)
                file.truncate()
                coming.size = file.tell()
        if found is None:
            return coming.size
        return None if found[3] == "*" else int(found[3])

    def _check_precondition(self, caller: Caller, address: str) -> None:
        """`0`: only if no such object is there."""
        if caller.asked("ifGenerationMatch") != "0":
            return
        if self._buckets.find(address, caller.owner, caller.now) is not None:
            words = "At least one of the pre-conditions you specified did not hold."
            raise Refusal(Trouble(kind="conflict", status=412, message=words))

    # --- reading ----------------------------------------------------------------------------------------------------

    async def look(self, caller: Caller) -> Sent:
        return said_so(_told(self._find(caller), caller))

    async def content(self, caller: Caller) -> Sent | Download:
        stored = self._find(caller)
        part = _part(caller.request.headers.get("Range", ""), stored.size)
        headers = {"x-goog-generation": _generation(stored), "x-goog-hash": f"md5={_md5(stored)}"}
        return Download(stored=stored, headers={**headers, "accept-ranges": "bytes"}, part=part)

    async def listed(self, caller: Caller) -> Sent:
        prefix, delimiter = caller.asked("prefix"), caller.asked("delimiter")
        found = self._buckets.under(caller.at("bucket"), prefix, caller.owner, caller.now)
        folders: set[str] = set()
        items: list[Stored] = []
        for stored in found:
            rest = stored.name.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                items.append(stored)
        shown, more = paged(items, caller, usual=1000, size="maxResults")
        told: Json = {"kind": "storage#objects"}
        if shown:
            told["items"] = [_told(stored, caller) for stored in shown]
        if folders:
            told["prefixes"] = sorted(folders)
        return said_so({**told, "nextPageToken": more} if more else told)

    async def delete(self, caller: Caller) -> Sent:
        self._buckets.remove(self._find(caller))
        return Sent(status=204, body=b"", headers={})

    async def bucket(self, caller: Caller) -> Sent:
        name = caller.at("bucket")
        return said_so(
            {
                "kind": "storage#bucket",
                "id": name,
                "name": name,
                "location": "US-CENTRAL1",
                "locationType": "region",
                "storageClass": "STANDARD",
                "selfLink": f"{caller.request.url.origin()}/storage/v1/b/{name}",
            }
        )

    def _find(self, caller: Caller) -> Stored:
        stored = self.subject(caller)
        if stored is None:
            raise missing(f"No such object: {caller.at('bucket')}/{caller.at('object')}")
        return stored


def _address(caller: Caller, name: str) -> str:
    return f"{_SCHEME}{caller.at('bucket')}/{name}"


def _named(name: str) -> str:
    if not name or len(name.encode()) > 1024 or "\n" in name:
        raise refused("Required" if not name else f"Invalid object name: {name[:80]!r}")
    return name


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last that are asked for; None for all of them."""
    found = _RANGE.fullmatch(wanted)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    begin, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if begin >= size or end <= begin:
        raise Refusal(Trouble(kind="refused", status=416, message="Request range not satisfiable."))
    return begin, end


def _generation(stored: Stored) -> str:
    return str(int(stored.created_at * 1_000_000))


def _md5(stored: Stored) -> str:
    digest = hashlib.md5(stored.path.read_bytes(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def _told(stored: Stored, caller: Caller) -> Json:
    bucket, name = parts_of(stored.id)
    generation, origin = _generation(stored), caller.request.url.origin()
    path = f"storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "selfLink": f"{origin}/{path}",
        "mediaLink": f"{origin}/download/{path}?generation={generation}&alt=media",
        "name": name,
        "bucket": bucket,
        "generation": generation,
        "metageneration": "1",
        "contentType": stored.media_type,
        "storageClass": "STANDARD",
        "size": str(stored.size),
        "md5Hash": _md5(stored),
        "etag": generation,
        "timeCreated": timestamp(stored.created_at),
        "updated": timestamp(stored.created_at),
    }
