"""Cloud Storage through its JSON API: as much of it as batches need. One `Folder` is a bucket and a prefix."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec

from trialrun.core.calls import RawReply
from trialrun.core.errors import Unavailable, UsageError
from trialrun.providers.account import HttpAccount
from trialrun.providers.batches.route import upload_timeout_s
from trialrun.providers.bodies import READ_ERRORS
from trialrun.providers.http.uploads import FileBody

URL = "https://storage.googleapis.com"
_SCHEME = "gs://"
_MOST_PAGES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A place in a bucket."""

    bucket: str
    prefix: str = ""
    """Without slashes at its ends."""

    def at(self, *names: str) -> str:
        """The address of what is in it, `gs://…`."""
        return _SCHEME + "/".join(part for part in (self.bucket, self.prefix, *names) if part)

    @classmethod
    def of(cls, address: str) -> "Folder":
        """The place with this address; raises UsageError for what is none."""
        bucket, _, prefix = address.removeprefix(_SCHEME).partition("/")
        if not address.startswith(_SCHEME) or not bucket:
            raise UsageError(f"`{address}` is no place in Cloud Storage", fix="write `gs://bucket/prefix`")
        return cls(bucket=bucket, prefix=prefix.strip("/"))


class Storage:
    """The objects that an account may read and write."""

    def __init__(self, account: HttpAccount, *, url: str = URL) -> None:
        self._account = account
        self._url = url.rstrip("/")

    async def put(self, address: str, body: FileBody, *, kind: str, about: str) -> None:
        """Write an object, whole or not at all. Writing the same again changes nothing."""
        bucket, name = _parts(address)
        query = urlencode({"uploadType": "media", "name": name})
        await self._account.request(
            "POST",
            f"{self._url}/upload/storage/v1/b/{bucket}/o?{query}",
            body,
            headers={"Content-Type": kind},
            timeout_s=upload_timeout_s(body.size_bytes),
            about=about,
        )

    async def names(self, address: str, *, about: str) -> list[str]:
        """The addresses of all objects whose address begins so, in order."""
        bucket, prefix = _parts(address)
        found: list[str] = []
        token = ""
        for _ in range(_MOST_PAGES):
            query = urlencode({"prefix": prefix, **({"pageToken": token} if token else {})})
            raw = await self._account.request(
                "GET", f"{self._url}/storage/v1/b/{bucket}/o?{query}", about=about
            )
            page = _page(raw)
            found += [f"{_SCHEME}{bucket}/{item.name}" for item in page.items]
            token = page.token
            if not token:
                break
        return sorted(found)

    async def get(self, address: str, *, about: str) -> AsyncGenerator[bytes, None]:
        """The lines of an object."""
        bucket, name = _parts(address)
        url = f"{self._url}/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media"
        async for lines in self._account.download(url, about=about):
            yield lines


class _Item(msgspec.Struct):
    name: str


class _Page(msgspec.Struct):
    items: list[_Item] = msgspec.field(default_factory=list[_Item])
    token: str = msgspec.field(default="", name="nextPageToken")


def _page(raw: RawReply) -> _Page:
    try:
        return msgspec.json.decode(raw.body, type=_Page)
    except READ_ERRORS as error:
        raise Unavailable(f"Cloud Storage sent a list that cannot be read: {error}") from error


def _parts(address: str) -> tuple[str, str]:
    bucket, _, name = address.removeprefix(_SCHEME).partition("/")
    return bucket, name
