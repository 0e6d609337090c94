"""OpenAI's batches, and those of the many servers that copied them: a file goes up, a batch is made of it, files come.

Finished requests are in the output file, and all others in the error file; a batch in which everything failed has no
output file. What differs between servers is data, in an `Offer`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import ClassVar, Literal

import msgspec

from trialrun.core.batches import BatchLimits, Listed, Look, PackFile, Phase, Result
from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import Unavailable
from trialrun.core.totals import Totals
from trialrun.providers.account import HttpAccount
from trialrun.providers.batches.route import HttpRoute, phase_in, seconds, upload_timeout_s
from trialrun.providers.http.uploads import multipart

Path = Literal["/v1/chat/completions", "/v1/responses"]

PACK_KEY = "trialrun_pack"
"""The name under which a batch's metadata holds the id of its pack."""
PHASES: Mapping[str, Phase] = MappingProxyType(
    {
        "validating": "queued",
        "in_progress": "running",
        "finalizing": "finishing",
        "cancelling": "cancelling",
        "completed": "ended",
        "expired": "ended",
        "cancelled": "ended",
        "failed": "failed",
    }
)
_MOST_PAGES = 100
_PAGE = 100
_NEVER_RAN = frozenset({"batch_expired", "batch_cancelled", "expired", "cancelled"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What one server's batches are like."""

    limits: BatchLimits
    has_metadata: bool = True


_MB = 1_000_000
OPENAI_OFFER = Offer(limits=BatchLimits(requests=50_000, size_bytes=200 * _MB))
OFFERS: Mapping[str, Offer] = MappingProxyType(
    {
        "openai": OPENAI_OFFER,
        "openai-responses": OPENAI_OFFER,
        "groq": Offer(limits=BatchLimits(requests=50_000, size_bytes=100 * _MB)),
        "deepinfra": OPENAI_OFFER,
    }
)
"""By provider; a server of one's own is taken to be like OpenAI's."""


class OpenAIBatches(HttpRoute):
    """The batches of one account at OpenAI, or at a server that copies it."""

    not_in_batches: ClassVar[frozenset[str]] = frozenset({"service_tier", "web_search_options"})
    offer: ClassVar[Offer] = OPENAI_OFFER
    """Unless another is given."""
    jobs_path: ClassVar[str] = "/batches"
    phases: ClassVar[Mapping[str, Phase]] = PHASES
    stopped: ClassVar[frozenset[str]] = frozenset({"expired", "cancelled"})
    """The words for a batch that ended before all of it had run."""

    def __init__(
        self, account: HttpAccount, *, path: Path = "/v1/chat/completions", offer: Offer | None = None
    ) -> None:
        offer = offer or self.offer
        super().__init__(account, limits=offer.limits)
        self._path: Path = path
        self._has_metadata = offer.has_metadata

    def endpoint_of(self, call: Call) -> str:
        self._refuse(call)
        return self._path

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"custom_id":%b,"method":"POST","url":"%b","body":%b}\n' % (
            msgspec.json.encode(id_),
            self._path.encode(),
            body,
        )

    async def upload(self, pack: PackFile) -> str:
        kind, body = multipart(pack.path, pack.size_bytes, name=pack.id, fields={"purpose": "batch"})
        raw = await self._account.request(
            "POST",
            f"{self._url}/files",
            body,
            headers={"Content-Type": kind},
            timeout_s=upload_timeout_s(pack.size_bytes),
            about=pack.id,
        )
        return self._named(self._answer(raw, _Named).id, "file")

    async def create(self, pack: PackFile, input_: str) -> str:
        raw = await self._account.request(
            "POST",
            f"{self._url}{self.jobs_path}",
            msgspec.json.encode(self._wish(pack, input_)),
            headers={"Content-Type": "application/json"},
            about=pack.id,
            begins=True,
        )
        return self._named(self._made(raw), "batch")

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        return [
            job.id
            async for job in self._jobs(_MOST_PAGES * _PAGE)
            if (input_ and job.input == input_) or job.pack == pack.id
        ]

    async def look(self, batch: str) -> Look:
        with self._known(batch):
            raw = await self._account.request("GET", f"{self._url}{self.jobs_path}/{batch}", about=batch)
        return self._look(self._job(raw))

    async def cancel(self, batch: str) -> None:
        with self._known(batch):
            await self._account.request("POST", self._cancel_url(batch), about=batch)

    async def listed(self, *, most: int = 100) -> list[Listed]:
        return [
            Listed(
                batch=job.id,
                word=job.status,
                created_at=seconds(job.created_at),
                requests=job.total,
                input=job.input,
                name=job.pack,
            )
            async for job in self._jobs(most)
        ]

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        async for lines in self._account.download(f"{self._url}/files/{result}/content", about=batch):
            yield lines

    async def _jobs(self, most: int) -> "AsyncGenerator[Job, None]":
        """The account's batches, newest first, page by page."""
        after, left, number = "", most, 0
        while left > 0:
            query = self._query(min(left, _PAGE), after, number)
            jobs, after = self._page(
                await self._account.request("GET", f"{self._url}{self.jobs_path}{query}")
            )
            for job in jobs[:left]:
                yield job
            if not after or not jobs:
                return
            left, number = left - len(jobs), number + 1

    # --- what a server may do in its own way ------------------------------------------------------------------------

    def _cancel_url(self, batch: str) -> str:
        return f"{self._url}{self.jobs_path}/{batch}/cancel"

    def _wish(self, pack: PackFile, input_: str) -> dict[str, object]:
        """The body of the request for a batch."""
        wish: dict[str, object] = {
            "input_file_id": input_,
            "endpoint": self._path,
            "completion_window": pack.window,
        }
        return {**wish, "metadata": {PACK_KEY: pack.id}} if self._has_metadata else wish

    def _made(self, raw: RawReply) -> str:
        """The id of the batch that was made."""
        return self._answer(raw, _Named).id

    def _job(self, raw: RawReply) -> "Job":
        return self._answer(raw, Job)

    def _query(self, size: int, after: str, number: int) -> str:
        """Asks for the page with this number, from 0; `after` is what the page before gave."""
        return f"?limit={size}" + (f"&after={after}" if after else "")

    def _page(self, raw: RawReply) -> "tuple[list[Job], str]":
        """The batches of a page, and what asks for the next one; empty if there is none."""
        page = self._answer(raw, _Page)
        return page.data, page.data[-1].id if page.has_more and page.data else ""

    # --- reading ----------------------------------------------------------------------------------------------------

    def _look(self, job: "Job") -> Look:
        phase = phase_in(self.phases, job.status.lower())
        counts = job.counts
        results = tuple(file for file in (job.output, job.errors_file) if file)
        if phase not in ("ended", "failed"):
            results = ()
        elif phase == "failed" and results:
            phase = "ended"  # by a server that has its own idea of failure: what there is counts
        elif job.status.lower() in self.stopped and not results and counts and not counts.ended:
            phase = "failed"  # it expired or was cancelled before anything ran
        return Look(
            phase=phase,
            word=job.status,
            total=job.total,
            done=counts.completed if counts else None,
            failed=counts.failed if counts else None,
            results=results,
            problems=job.reasons,
            created_at=seconds(job.created_at),
            expires_at=seconds(job.expires_at),
            totals=job.totals if phase == "ended" else None,
        )

    def _read(self, line: bytes) -> Result:
        row = _LINE.decode(line)
        if row.response is not None and row.response.status_code:
            return self._replied(
                row.custom_id,
                _unquoted(bytes(row.response.body)),
                status=row.response.status_code,
                request_id=row.response.request_id or "",
            )
        if row.error is None:
            return Result(id="")
        problem = row.error
        if problem.code in _NEVER_RAN:
            return Result(id=row.custom_id, reason=problem.message or problem.code or "")
        # Without a response nothing ran; whether it is worth another attempt, only the word tells.
        status = 400 if (problem.code or "").startswith("invalid") else 500
        return self._replied(row.custom_id, msgspec.json.encode({"error": problem}), status=status)

    def _named(self, id_: str, what: str) -> str:
        if not id_:
            raise Unavailable(f"{self._account.name} sent no id for the {what}", billed="unknown")
        return id_


class _Named(msgspec.Struct):
    id: str = ""


class Counts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        return self.completed + self.failed


class Problem(msgspec.Struct):
    code: str | None = None
    message: str | None = None
    line: int | None = None
    param: str | None = None


class Problems(msgspec.Struct):
    data: list[Problem | None] | None = None


class Job(
    msgspec.Struct,
    rename={
        "input": "input_file_id",
        "output": "output_file_id",
        "errors_file": "error_file_id",
        "problems": "errors",
        "counts": "request_counts",
    },
):
    """A batch as the server describes it."""

    id: str
    status: str
    input: str = ""
    output: str | None = None
    errors_file: str | None = None
    problems: Problems | None = None
    counts: Counts | None = None
    metadata: dict[str, object] | None = None
    created_at: float | str | None = None
    expires_at: float | str | None = None
    usage: dict[str, object] | None = None
    """The tokens of all requests; not every server that copies the shape fills it."""
    cost_usd: Decimal | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was refused as a whole."""
        problems = (self.problems.data if self.problems else None) or []
        return tuple(_spelled(problem) for problem in problems if problem)

    @property
    def total(self) -> int | None:
        """How many requests it has; while the file is looked through, the server counts none."""
        return (self.counts.total or None) if self.counts else None

    @property
    def totals(self) -> Totals | None:
        """What the server says that all requests took. Nothing but zeros says nothing."""
        usage = self.usage or {}
        tokens_in, tokens_out = usage.get("input_tokens"), usage.get("output_tokens")
        if isinstance(tokens_in, int) and isinstance(tokens_out, int) and (tokens_in or tokens_out):
            return Totals(tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=self.cost_usd)
        return Totals(cost_usd=self.cost_usd) or None

    @property
    def pack(self) -> str:
        return str((self.metadata or {}).get(PACK_KEY, ""))


class _Page(msgspec.Struct):
    data: list[Job] = []
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int = 0
    request_id: str | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: Problem | None = None


_LINE = msgspec.json.Decoder(_Line)


def _spelled(problem: Problem) -> str:
    """Why a batch was refused, with the line if it names one."""
    what = problem.message or problem.code or "no reason given"
    return f"line {problem.line}: {what}" if problem.line is not None else what


def _unquoted(body: bytes) -> bytes:
    """The body as JSON, where a server put it into a string."""
    return msgspec.json.decode(body, type=str).encode() if body.startswith(b'"') else body
