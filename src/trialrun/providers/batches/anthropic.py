"""Anthropic's message batches: one request holds them all, and one download brings every result.

There is nothing to find a batch by when the reply to its creation was lost: no name, no metadata, no input. What can be
found are batches of the same size, and only a person, or the results, can say whether one of them is the pack.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from trialrun.core.batches import Anchor, BatchLimits, Listed, Look, PackFile, Phase, Result
from trialrun.core.calls import Call
from trialrun.core.errors import Unavailable
from trialrun.providers.anthropic import VERSION, VERSION_WITH_SAMPLING, Anthropic, version_of
from trialrun.providers.batches.route import HttpRoute, phase_in, seconds, upload_timeout_s
from trialrun.providers.http.uploads import listed

LIMITS = BatchLimits(requests=100_000, size_bytes=256_000_000, is_one_model=False)
PHASES: Mapping[str, Phase] = MappingProxyType(
    {"in_progress": "running", "canceling": "cancelling", "ended": "ended"}
)
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "timeout_error": 504,
        "api_error": 500,
        "overloaded_error": 529,
    }
)
"""The status that a live call would have had, by the type of its error."""
_RESULTS = "results"
_SAMPLING = ("temperature", "top_p", "top_k")
_MOST_CANDIDATES = 1000
_PAGE = 1000


class AnthropicBatches(HttpRoute):
    """The batches of one account at Anthropic."""

    anchor: Anchor = "none"

    def __init__(self, account: Anthropic) -> None:
        super().__init__(account, limits=LIMITS)

    def endpoint_of(self, call: Call) -> str:
        """The version of the API is stated once for a batch."""
        self._refuse(call)
        return f"/v1/messages {version_of(call.request)}"

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"custom_id":%b,"params":%b}\n' % (msgspec.json.encode(id_), body)

    async def upload(self, pack: PackFile) -> str:
        return ""

    async def create(self, pack: PackFile, input_: str) -> str:
        version = await asyncio.to_thread(_version_in, pack.path)
        raw = await self._account.request(
            "POST",
            f"{self._url}/messages/batches",
            listed(pack.path, pack.size_bytes, head=b'{"requests":[', tail=b"]}"),
            headers={"anthropic-version": version, "Content-Type": "application/json"},
            timeout_s=upload_timeout_s(pack.size_bytes),
            about=pack.id,
            begins=True,
        )
        return self._answer(raw, _Job).id

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        return [job.id async for job in self._jobs(_MOST_CANDIDATES) if job.counts.total == pack.requests]

    async def look(self, batch: str) -> Look:
        with self._known(batch):
            raw = await self._account.request(
                "GET", f"{self._url}/messages/batches/{batch}", headers=_HEADERS, about=batch
            )
        return _look(self._answer(raw, _Job))

    async def cancel(self, batch: str) -> None:
        with self._known(batch):
            await self._account.request(
                "POST", f"{self._url}/messages/batches/{batch}/cancel", headers=_HEADERS, about=batch
            )

    async def listed(self, *, most: int = 100) -> list[Listed]:
        return [
            Listed(
                batch=job.id,
                word=job.status,
                created_at=seconds(job.created_at),
                requests=job.counts.total,
            )
            async for job in self._jobs(most)
        ]

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        # Not `results_url`: the key goes to the address that the study names, and nowhere else.
        results_url = f"{self._url}/messages/batches/{batch}/{result}"
        async for lines in self._account.download(results_url, headers=_HEADERS, about=batch):
            yield lines

    async def _jobs(self, most: int) -> "AsyncGenerator[_Job, None]":
        """The account's batches, newest first, page by page."""
        after, left = "", most
        while left > 0:
            page_url = f"{self._url}/messages/batches?limit={min(left, _PAGE)}"
            page_url += f"&after_id={after}" if after else ""
            page = self._answer(await self._account.request("GET", page_url, headers=_HEADERS), _Page)
            for job in page.data[:left]:
                yield job
            left -= len(page.data)
            if not page.has_more or not page.data:
                return
            after = page.data[-1].id

    def _read(self, line: bytes) -> Result:
        row = _LINE.decode(line)
        result = row.result
        match result.type:
            case "succeeded":
                return self._replied(row.custom_id, bytes(result.message))
            case "errored":
                problem = _ERROR.decode(result.error)
                return self._replied(
                    row.custom_id,
                    bytes(result.error),
                    status=STATUSES.get(problem.error.type, 500),
                    request_id=problem.request_id or "",
                )
            case "canceled" | "expired":
                return Result(id=row.custom_id, reason=result.type)
            case _:
                what = f"{self._account.name} calls the result `{result.type}`, which nobody knows"
                return Result(id=row.custom_id, error=Unavailable(what, billed="unknown"))


_HEADERS = {"anthropic-version": VERSION}


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _Job(msgspec.Struct, rename={"status": "processing_status", "counts": "request_counts"}):
    id: str
    status: str = ""
    counts: _Counts = msgspec.field(default_factory=_Counts)
    created_at: str | None = None
    expires_at: str | None = None
    archived_at: str | None = None
    results_url: str | None = None


class _Page(msgspec.Struct):
    data: list[_Job] = []
    has_more: bool = False


class _ErrorType(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _ErrorType = msgspec.field(default_factory=_ErrorType)
    request_id: str | None = None


class _LineResult(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct):
    custom_id: str
    result: _LineResult


class _Params(msgspec.Struct):
    params: dict[str, msgspec.Raw]


_LINE = msgspec.json.Decoder(_Line)
_ERROR = msgspec.json.Decoder(_Error)


def _version_in(path: Path) -> str:
    """The version under which a pack's requests are understood: all of them go by the first."""
    with path.open("rb") as file:
        params = msgspec.json.decode(file.readline(), type=_Params).params
    return VERSION_WITH_SAMPLING if any(name in params for name in _SAMPLING) else VERSION


def _look(job: _Job) -> Look:
    phase = phase_in(PHASES, job.status)
    has_ended = phase == "ended"
    if job.archived_at:
        phase = "gone"
    elif has_ended and not job.results_url:
        phase = "finishing"
    return Look(
        phase=phase,
        word=job.status,
        total=job.counts.total,
        # Until the end they stay zero, whatever has been done.
        done=job.counts.succeeded if has_ended else None,
        failed=job.counts.errored if has_ended else None,
        results=(_RESULTS,) if phase == "ended" else (),
        created_at=seconds(job.created_at),
        expires_at=seconds(job.expires_at),
    )
