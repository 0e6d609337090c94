"""Batch prediction jobs of Vertex AI: requests and results are objects in a bucket of the study's owner.

A pack has a folder of its own there, named after it, so that two jobs never write to one place. A line carries its id
beside the request, and gets it back; there is no file of errors, as a failed line says so itself.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from urllib.parse import quote

import msgspec

from trialrun.core.batches import Anchor, BatchLimits, Listed, Look, PackFile, Result
from trialrun.core.calls import Call
from trialrun.core.errors import RequestRefused
from trialrun.core.identity import digest
from trialrun.providers.account import model_name
from trialrun.providers.batches import google_jobs
from trialrun.providers.batches.google_jobs import count
from trialrun.providers.batches.importable import obstacle_in, shape_of
from trialrun.providers.batches.route import HttpRoute, seconds
from trialrun.providers.batches.storage import URL, Folder, Storage
from trialrun.providers.bodies import READ_ERRORS
from trialrun.providers.gemini import response_id
from trialrun.providers.http.uploads import FileBody
from trialrun.providers.vertex import Vertex

LIMITS = BatchLimits(requests=200_000, size_bytes=1_000_000_000)
_JSON = {"Content-Type": "application/json"}
_REQUESTS, _RESULTS = "requests.jsonl", "results"
_MOST_PAGES = 100
_PAGE = 100
_NEVER_RAN = ("CANCELLED", "EXPIRED")
_WORDS = {
    "RESOURCE_EXHAUSTED": 429,
    "Too Many Requests": 429,
    "UNAVAILABLE": 503,
    "Service Unavailable": 503,
    "PERMISSION_DENIED": 403,
    "Forbidden": 403,
    "UNAUTHENTICATED": 401,
    "NOT_FOUND": 404,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "Bad Request": 400,
}


class VertexBatches(HttpRoute):
    """The batches of one project at one location, through one folder of a bucket."""

    anchor: Anchor = "name"

    def __init__(self, account: Vertex, *, folder: str, storage_url: str = "") -> None:
        super().__init__(account, limits=LIMITS)
        self._jobs_url = f"{account.base_url}/{account.place}/batchPredictionJobs"
        self._folder = Folder.of(folder)
        self._storage = Storage(account, url=storage_url or URL)

    def endpoint_of(self, call: Call) -> str:
        """One file has one type for each key: requests with other schemas travel apart."""
        self._refuse(call)
        obstacle = obstacle_in(call.request)
        if obstacle:
            raise RequestRefused(
                f"the batches of Vertex AI are read like a table, and {obstacle}",
                where=call.place,
                fix="write it without (a `$ref` inline, say), or run this study with `--lane live` or `google/…`",
            )
        shape = shape_of(call.request)
        return "generateContent" if shape is None else f"generateContent {digest(shape, size=6)}"

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"custom_id":%b,"request":%b}\n' % (msgspec.json.encode(id_), body)

    async def upload(self, pack: PackFile) -> str:
        address = self._folder.at(pack.id, _REQUESTS)
        body = FileBody(path=pack.path, size_bytes=pack.size_bytes)
        await self._storage.put(address, body, kind="application/jsonl", about=pack.id)
        return address

    async def create(self, pack: PackFile, input_: str) -> str:
        wish = {
            "displayName": pack.id,
            "model": f"publishers/google/models/{model_name(pack.model)}",
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input_]}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": self._folder.at(pack.id, _RESULTS)},
            },
        }
        raw = await self._account.request(
            "POST",
            self._jobs_url,
            msgspec.json.encode(wish),
            headers=_JSON,
            about=pack.id,
            begins=True,
        )
        return self._answer(raw, _Job).name

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        found = [
            job
            async for job in self._jobs(_MOST_PAGES * _PAGE, where=f'displayName="{pack.id}"')
            if job.title == pack.id
        ]
        found.sort(key=lambda job: seconds(job.created_at) or 0.0, reverse=True)
        return [job.name for job in found]

    async def look(self, batch: str) -> Look:
        with self._known(batch):
            raw = await self._account.request("GET", f"{self._url}/{batch}", about=batch)
        return await self._look(self._answer(raw, _Job))

    async def cancel(self, batch: str) -> None:
        with self._known(batch):
            await self._account.request(
                "POST", f"{self._url}/{batch}:cancel", b"{}", headers=_JSON, about=batch
            )

    async def listed(self, *, most: int = 100) -> list[Listed]:
        return [
            Listed(
                batch=job.name,
                word=job.state,
                created_at=seconds(job.created_at),
                input=next(iter(job.input.source.uris), ""),
                name=job.title,
            )
            async for job in self._jobs(most)
        ]

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        async for lines in self._storage.get(result, about=batch):
            yield lines

    async def _jobs(self, most: int, *, where: str = "") -> "AsyncGenerator[_Job, None]":
        token, left = "", most
        while left > 0:
            page_url = f"{self._jobs_url}?pageSize={min(left, _PAGE)}"
            page_url += f"&filter={quote(where, safe='')}" if where else ""
            page_url += f"&pageToken={quote(token, safe='')}" if token else ""
            page = self._answer(await self._account.request("GET", page_url), _Page)
            for job in page.jobs[:left]:
                yield job
            left -= len(page.jobs)
            token = page.token
            if not token:
                return

    async def _look(self, job: "_Job") -> Look:
        done = count(job.stats.done) if job.stats else None
        phase = google_jobs.phase_of(job.state, has_results=bool(job.directory and done))
        results = await self._results(job) if phase == "ended" else ()
        if phase == "ended" and not results and done:
            phase = "gone"  # what was written is not in the bucket any more
        return Look(
            phase=phase,
            word=job.state,
            total=job.stats.total if job.stats else None,
            done=done,
            failed=count(job.stats.failed) if job.stats else None,
            results=results,
            problems=tuple(
                problem.message for problem in (job.error, *job.failures) if problem and problem.message
            ),
            created_at=seconds(job.created_at),
            is_stopped=google_jobs.is_stopped(job.state),
        )

    async def _results(self, job: "_Job") -> tuple[str, ...]:
        """The shards of the results, however many the provider made."""
        if not job.directory:
            return ()
        names = await self._storage.names(f"{job.directory.rstrip('/')}/", about=job.name)
        return tuple(name for name in names if "prediction" in name.rpartition("/")[2])

    def _read(self, line: bytes) -> Result:
        row = _LINE.decode(line)
        body = bytes(row.response)
        if body not in (b"", b"null", b"{}") and not row.status:
            return self._replied(row.custom_id, body, request_id=response_id(body))
        if not row.status:
            return Result(id="")
        status, problem = _failure(row.status)
        if problem.status in _NEVER_RAN or problem.code == google_jobs.CANCELLED:
            return Result(id=row.custom_id, reason=problem.message or row.status)
        return self._replied(row.custom_id, msgspec.json.encode({"error": problem}), status=status)


class _Stats(msgspec.Struct):
    done: int | str | None = msgspec.field(default=None, name="successfulCount")
    failed: int | str | None = msgspec.field(default=None, name="failedCount")
    left: int | str | None = msgspec.field(default=None, name="incompleteCount")

    @property
    def total(self) -> int | None:
        counts = [count(value) for value in (self.done, self.failed, self.left)]
        known = [number for number in counts if number is not None]
        return sum(known) if len(known) == len(counts) else None


class _Problem(msgspec.Struct, omit_defaults=True):
    code: int = 0
    message: str = ""
    status: str = ""
    details: list[dict[str, object]] | None = None


class _Output(msgspec.Struct):
    directory: str = msgspec.field(default="", name="gcsOutputDirectory")


class _Source(msgspec.Struct):
    uris: list[str] = msgspec.field(default_factory=list[str])


class _Input(msgspec.Struct):
    source: _Source = msgspec.field(default_factory=_Source, name="gcsSource")


class _Job(msgspec.Struct):
    name: str
    title: str = msgspec.field(default="", name="displayName")
    state: str = ""
    created_at: str | None = msgspec.field(default=None, name="createTime")
    input: _Input = msgspec.field(default_factory=_Input, name="inputConfig")
    output: _Output | None = msgspec.field(default=None, name="outputInfo")
    stats: _Stats | None = msgspec.field(default=None, name="completionStats")
    error: _Problem | None = None
    failures: list[_Problem] = msgspec.field(default_factory=list[_Problem], name="partialFailures")

    @property
    def directory(self) -> str:
        return self.output.directory if self.output else ""


class _Page(msgspec.Struct):
    jobs: list[_Job] = msgspec.field(default_factory=list[_Job], name="batchPredictionJobs")
    token: str = msgspec.field(default="", name="nextPageToken")


class _Line(msgspec.Struct):
    custom_id: str = ""
    status: str = ""
    response: msgspec.Raw = msgspec.Raw(b"")


class _Failure(msgspec.Struct):
    error: _Problem


_LINE = msgspec.json.Decoder(_Line)


def _failure(text: str) -> tuple[int, _Problem]:
    """The status of a line as an error with its status code: words, with the error as JSON among them or without."""
    try:
        problem = msgspec.json.decode(text[text.index("{") : text.rindex("}") + 1], type=_Failure).error
    except (*READ_ERRORS, ValueError):
        problem = _Problem(message=text)
    if problem.code:
        return google_jobs.status_of(problem.code), problem
    said = f"{problem.status} {text}"
    for word in _NEVER_RAN:
        if word in said.upper():
            problem.status = word
    return next((status for word, status in _WORDS.items() if word in said), 500), problem
