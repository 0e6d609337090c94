"""Batches of the Gemini Developer API: small packs travel inside the request, larger ones as a file of the Files API.

Inline replies come in any order, so each request carries its id as metadata. What is found again is the display name,
which is the id of the pack.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from urllib.parse import quote

import msgspec

from trialrun.core.batches import Anchor, BatchLimits, Listed, Look, PackFile, Result
from trialrun.core.calls import Call
from trialrun.core.errors import RequestRefused, Unavailable
from trialrun.providers.account import model_name
from trialrun.providers.batches import google_jobs
from trialrun.providers.batches.google_jobs import count
from trialrun.providers.batches.route import HttpRoute, seconds, upload_timeout_s
from trialrun.providers.gemini import Gemini, response_id
from trialrun.providers.http.uploads import FileBody

LIMITS = BatchLimits(requests=50_000, size_bytes=2_000_000_000)
INLINE_BYTES = 4_000_000
"""Up to here a pack travels inside the request. The limit is 20 MB, but replies come back in the same way."""
_JSON = {"Content-Type": "application/json"}
_INLINE = "inline"
_KIND = "application/jsonl"
_UPLOAD_URL, _UPLOAD_STATUS = "x-goog-upload-url", "x-goog-upload-status"
_MOST_PAGES = 100
_PAGE = 100


class GeminiBatches(HttpRoute):
    """The batches of one account at the Gemini Developer API."""

    anchor: Anchor = "name"

    def __init__(self, account: Gemini, *, inline_bytes: int = INLINE_BYTES) -> None:
        super().__init__(account, limits=LIMITS)
        self._gemini = account
        self._inline_bytes = inline_bytes

    def with_upload(self) -> "GeminiBatches":
        """The same, with every pack as a file."""
        return GeminiBatches(self._gemini, inline_bytes=-1)

    def endpoint_of(self, call: Call) -> str:
        self._refuse(call)
        return "generateContent"

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"key":%b,"request":%b}\n' % (msgspec.json.encode(id_), body)

    async def upload(self, pack: PackFile) -> str:
        if pack.size_bytes <= self._inline_bytes:
            return ""
        began = await self._account.request(
            "POST",
            self._upload_url,
            msgspec.json.encode({"file": {"displayName": pack.id, "mimeType": _KIND}}),
            headers={
                **_JSON,
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(pack.size_bytes),
                "X-Goog-Upload-Header-Content-Type": _KIND,
            },
            about=pack.id,
            kept=(_UPLOAD_URL,),
        )
        if _UPLOAD_URL not in began.headers:
            raise Unavailable(f"{self._account.name} gave no address for the upload")
        sent = await self._account.request(
            "POST",
            began.headers[_UPLOAD_URL],
            FileBody(path=pack.path, size_bytes=pack.size_bytes),
            headers={"X-Goog-Upload-Command": "upload, finalize", "X-Goog-Upload-Offset": "0"},
            timeout_s=upload_timeout_s(pack.size_bytes),
            about=pack.id,
            kept=(_UPLOAD_STATUS,),
            is_signed=False,
        )
        if sent.headers.get(_UPLOAD_STATUS) != "final":
            raise Unavailable(f"{self._account.name} did not take the whole file")
        return self._answer(sent, _Uploaded).file.name

    async def create(self, pack: PackFile, input_: str) -> str:
        model = quote(model_name(pack.model), safe="")
        source: dict[str, object] = {"fileName": input_} if input_ else {"requests": _inline(pack)}
        wish = {"batch": {"displayName": pack.id, "inputConfig": source}}
        raw = await self._account.request(
            "POST",
            f"{self._url}/models/{model}:batchGenerateContent",
            msgspec.json.encode(wish),
            headers=_JSON,
            timeout_s=upload_timeout_s(pack.size_bytes),
            about=pack.id,
            begins=True,
        )
        return self._answer(raw, _Job).name

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        found = [job async for job in self._jobs(_MOST_PAGES * _PAGE) if job.metadata.name == pack.id]
        found.sort(key=lambda job: seconds(job.metadata.created_at) or 0.0, reverse=True)
        return [job.name for job in found]

    async def look(self, batch: str) -> Look:
        with self._known(batch):
            return _look(await self._job(batch))

    async def cancel(self, batch: str) -> None:
        with self._known(batch):
            await self._account.request(
                "POST", f"{self._url}/{batch}:cancel", b"{}", headers=_JSON, about=batch
            )

    async def listed(self, *, most: int = 100) -> list[Listed]:
        return [
            Listed(
                batch=job.name,
                word=job.metadata.state,
                created_at=seconds(job.metadata.created_at),
                requests=count(job.metadata.stats.total) if job.metadata.stats else None,
                name=job.metadata.name,
            )
            async for job in self._jobs(most)
        ]

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        if result != _INLINE:
            async for lines in self._account.download(
                f"{self._url}/{result}:download?alt=media", about=batch
            ):
                yield lines
            return
        keys, replies = await self._account.keys(), (await self._job(batch)).replies
        if not replies:
            raise RequestRefused("the results are not in the batch any more", where=batch, status=404)
        for item in replies:
            # The server may break its JSON into lines; within one, a break can only be space.
            yield keys.hide_in_bytes(bytes(item).replace(b"\n", b" ")) + b"\n"

    @property
    def _upload_url(self) -> str:
        root, _, version = self._url.rpartition("/")
        return f"{root}/upload/{version}/files"

    async def _job(self, batch: str) -> "_Job":
        return self._answer(await self._account.request("GET", f"{self._url}/{batch}", about=batch), _Job)

    async def _jobs(self, most: int) -> "AsyncGenerator[_Job, None]":
        token, left = "", most
        while left > 0:
            page_url = f"{self._url}/batches?pageSize={min(left, _PAGE)}"
            page_url += f"&pageToken={quote(token, safe='')}" if token else ""
            page = self._answer(await self._account.request("GET", page_url), _Page)
            for job in page.operations[:left]:
                yield job
            left -= len(page.operations)
            token = page.token
            if not token:
                return

    def _read(self, line: bytes) -> Result:
        row = _LINE.decode(line)
        id_ = row.key or (row.metadata or {}).get("key", "")
        if row.error is not None:
            if row.error.code == google_jobs.CANCELLED:
                return Result(id=id_, reason=row.error.message or "cancelled")
            body = msgspec.json.encode({"error": row.error})
            return self._replied(id_, body, status=google_jobs.status_of(row.error.code))
        body = bytes(row.response)
        return self._replied(id_, body, request_id=response_id(body)) if body else Result(id="")


class _File(msgspec.Struct):
    name: str


class _Uploaded(msgspec.Struct):
    file: _File


class _Stats(msgspec.Struct):
    total: int | str | None = msgspec.field(default=None, name="requestCount")
    # What is zero is left out.
    done: int | str | None = msgspec.field(default=0, name="successfulRequestCount")
    failed: int | str | None = msgspec.field(default=0, name="failedRequestCount")


class _Replies(msgspec.Struct):
    replies: list[msgspec.Raw] = msgspec.field(default_factory=list[msgspec.Raw], name="inlinedResponses")


class _Output(msgspec.Struct):
    file: str = msgspec.field(default="", name="responsesFile")
    inline: _Replies | None = msgspec.field(default=None, name="inlinedResponses")


class _Metadata(msgspec.Struct):
    name: str = msgspec.field(default="", name="displayName")
    state: str = ""
    created_at: str | None = msgspec.field(default=None, name="createTime")
    output: _Output | None = None
    stats: _Stats | None = msgspec.field(default=None, name="batchStats")


class _Problem(msgspec.Struct):
    code: int = 0
    message: str | None = None
    status: str | None = None
    details: list[dict[str, object]] | None = None


class _Job(msgspec.Struct):
    """A batch is a long operation: what it brings is in its metadata, its response, or both."""

    name: str
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    response: _Output | None = None
    error: _Problem | None = None

    @property
    def results(self) -> tuple[str, ...]:
        output = self._output
        return (output.file,) if output.file else (_INLINE,) if self.replies else ()

    @property
    def replies(self) -> list[msgspec.Raw]:
        return self._output.inline.replies if self._output.inline else []

    @property
    def _output(self) -> _Output:
        return self.metadata.output or self.response or _Output()


class _Page(msgspec.Struct):
    operations: list[_Job] = msgspec.field(default_factory=list[_Job])
    token: str = msgspec.field(default="", name="nextPageToken")


class _Line(msgspec.Struct):
    key: str = ""
    metadata: dict[str, str] | None = None
    response: msgspec.Raw = msgspec.Raw(b"")
    error: _Problem | None = None


class _Request(msgspec.Struct):
    key: str
    request: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)
_REQUEST = msgspec.json.Decoder(_Request)


def _inline(pack: PackFile) -> dict[str, object]:
    """The requests of a small pack, each body as it is."""
    rows = [_REQUEST.decode(line) for line in pack.path.read_bytes().splitlines()]
    return {"requests": [{"request": row.request, "metadata": {"key": row.key}} for row in rows]}


def _look(job: _Job) -> Look:
    metadata, stats = job.metadata, job.metadata.stats
    done = count(stats.done) if stats else None
    results = job.results
    phase = google_jobs.phase_of(metadata.state, has_results=bool(results))
    is_stopped = google_jobs.is_stopped(metadata.state)
    if phase == "ended" and not results and done and not is_stopped:
        phase = "gone"
    return Look(
        phase=phase,
        word=metadata.state,
        total=count(stats.total) if stats else None,
        done=done,
        failed=count(stats.failed) if stats else None,
        results=results if phase == "ended" else (),
        problems=(job.error.message,) if job.error and job.error.message else (),
        created_at=seconds(metadata.created_at),
        is_stopped=is_stopped,
    )
