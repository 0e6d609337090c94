"""xAI's batches: OpenAI's files and request lines, counters in place of a state, and results page by page.

A batch is over when nothing is pending and its counters add up to all requests. Money is told in ticks, for each reply
and for the whole. Where the server describes a batch in OpenAI's words instead, these are read.
"""

from collections.abc import AsyncIterator
from typing import ClassVar
from urllib.parse import quote

import msgspec

from trialrun.core.batches import BatchLimits, Look, PackFile, Phase, Result
from trialrun.core.calls import RawReply
from trialrun.core.errors import Unavailable
from trialrun.providers.batches import google_jobs
from trialrun.providers.batches.openai import Counts, Job, Offer, OpenAIBatches, Problem, Problems
from trialrun.providers.batches.route import seconds
from trialrun.providers.chat_usage import TICKS_A_USD

_RESULTS = "results"
_RESULTS_A_PAGE = 1000
_NEVER_RAN = ("cancelled", "canceled", "expired")


class XaiBatches(OpenAIBatches):
    """The batches of one account at xAI."""

    offer: ClassVar[Offer] = Offer(
        limits=BatchLimits(requests=50_000, size_bytes=200_000_000), has_metadata=False
    )

    def _wish(self, pack: PackFile, input_: str) -> dict[str, object]:
        return {"name": pack.id, "input_file_id": input_}

    def _made(self, raw: RawReply) -> str:
        return self._answer(raw, _Job).common.id

    def _cancel_url(self, batch: str) -> str:
        return f"{self._url}{self.jobs_path}/{batch}:cancel"

    def _query(self, size: int, after: str, number: int) -> str:
        return f"?limit={size}" + (f"&pagination_token={quote(after, safe='')}" if after else "")

    def _page(self, raw: RawReply) -> tuple[list[Job], str]:
        page = self._answer(raw, _Page)
        return [job.common for job in page.batches or page.data], page.pagination_token or ""

    async def look(self, batch: str) -> Look:
        with self._known(batch):
            raw = await self._account.request("GET", f"{self._url}{self.jobs_path}/{batch}", about=batch)
        job = self._answer(raw, _Job)
        return self._look(job.common) if job.state is None else _counted(job, job.state)

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        if result != _RESULTS:
            async for lines in super().fetch(batch, result):
                yield lines
            return
        keys, token = await self._account.keys(), ""
        while True:
            page_url = f"{self._url}{self.jobs_path}/{batch}/results?limit={_RESULTS_A_PAGE}"
            page_url += f"&pagination_token={quote(token, safe='')}" if token else ""
            page = self._answer(await self._account.request("GET", page_url, about=batch), _Results)
            for item in page.results:
                # The server may break its JSON into lines; within one, a break can only be space.
                yield keys.hide_in_bytes(bytes(item).replace(b"\n", b" ")) + b"\n"
            before, token = token, page.pagination_token or ""
            if not token:
                return
            if token == before:
                raise Unavailable(f"{self._account.name} gives the same page of results for ever")

    def _read(self, line: bytes) -> Result:
        row = _LINE.decode(line)
        if not row.batch_request_id:
            return super()._read(line)
        id_, found = row.batch_request_id, row.batch_result
        # One body, under the name of its endpoint: `chat_get_completion`.
        for body in (found.response or {}).values():
            return self._replied(id_, bytes(body))
        problem = found.error or _Problem()
        message = problem.message or row.error_message
        if problem.code == google_jobs.CANCELLED or str(problem.code).lower() in _NEVER_RAN:
            return Result(id=id_, reason=message or "cancelled")
        if found.error is None and not message:
            return Result(id="")
        return self._replied(
            id_,
            msgspec.json.encode({"error": {"message": message, "code": problem.code}}),
            # The codes are those of Google's procedure calls, or statuses.
            status=google_jobs.status_of(problem.code) if isinstance(problem.code, int) else 500,
        )


class _State(msgspec.Struct):
    num_requests: int = 0
    num_pending: int = 0
    num_success: int = 0
    num_error: int = 0
    num_cancelled: int = 0

    @property
    def ended(self) -> int:
        return self.num_success + self.num_error + self.num_cancelled


class _Cost(msgspec.Struct):
    total_cost_usd_ticks: int | None = None


class _Job(msgspec.Struct, kw_only=True):
    """A batch in xAI's words, and what it has of OpenAI's."""

    batch_id: str = ""
    name: str = ""
    create_time: str | None = None
    expire_time: str | None = None
    cancel_time: str | None = None
    cancel_by_xai_message: str | None = None
    input_file_id: str | None = None
    state: _State | None = None
    cost_breakdown: _Cost | None = None
    id: str = ""
    status: str = ""
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: Problems | None = None
    request_counts: Counts | None = None
    usage: dict[str, object] | None = None
    created_at: float | str | None = None
    expires_at: float | str | None = None

    @property
    def common(self) -> Job:
        """The same in OpenAI's words."""
        ticks = self.cost_breakdown.total_cost_usd_ticks if self.cost_breakdown else None
        why = Problems(data=[Problem(message=self.cancel_by_xai_message)])
        counts = self.request_counts
        if self.state is not None:
            counts = Counts(
                total=self.state.num_requests,
                completed=self.state.num_success,
                failed=self.state.num_error,
            )
        return Job(
            id=self.batch_id or self.id,
            status=self.status or (_word(self, self.state) if self.state else ""),
            input=self.input_file_id or "",
            output=self.output_file_id,
            errors_file=self.error_file_id,
            problems=why if self.cancel_by_xai_message else self.errors,
            counts=counts,
            metadata={"trialrun_pack": self.name},
            created_at=self.create_time or self.created_at,
            expires_at=self.expire_time or self.expires_at,
            usage=self.usage,
            cost_usd=None if ticks is None else ticks / TICKS_A_USD,
        )


class _Page(msgspec.Struct):
    batches: list[_Job] = msgspec.field(default_factory=list[_Job])
    data: list[_Job] = msgspec.field(default_factory=list[_Job])
    pagination_token: str | None = None


class _Results(msgspec.Struct):
    results: list[msgspec.Raw] = msgspec.field(default_factory=list[msgspec.Raw])
    pagination_token: str | None = None


class _Problem(msgspec.Struct):
    code: int | str | None = None
    message: str = ""


class _Result(msgspec.Struct):
    response: dict[str, msgspec.Raw] | None = None
    error: _Problem | None = None


class _Line(msgspec.Struct):
    batch_request_id: str = ""
    batch_result: _Result = msgspec.field(default_factory=_Result)
    error_message: str = ""


_LINE = msgspec.json.Decoder(_Line)


def _is_over(state: _State) -> bool:
    return bool(state.num_requests) and not state.num_pending and state.ended == state.num_requests


def _word(job: _Job, state: _State) -> str:
    """Its counters as a word: xAI has none."""
    if job.cancel_by_xai_message:
        return "cancelled by xAI"
    if job.cancel_time:
        return "cancelled" if _is_over(state) else "cancelling"
    if _is_over(state):
        return "complete"
    return "processing" if state.ended else "pending"


def _phase(job: _Job, state: _State) -> Phase:
    if job.cancel_by_xai_message and not state.num_success:
        return "failed"
    if _is_over(state):
        return "ended"
    if job.cancel_time:
        return "cancelling"
    if state.num_requests and not state.num_pending:
        return "finishing"  # they do not add up yet
    return "running" if state.ended else "queued"


def _counted(job: _Job, state: _State) -> Look:
    """Where it stands, by its counters."""
    common, phase = job.common, _phase(job, state)
    has_ended = phase == "ended"
    return Look(
        phase=phase,
        word=_word(job, state),
        total=state.num_requests or None,
        done=state.num_success,
        failed=state.num_error,
        # They can be had as they come. Whoever waits for the end looks at the phase.
        results=(_RESULTS,) if has_ended or (state.ended and phase != "failed") else (),
        problems=common.reasons,
        created_at=seconds(common.created_at),
        expires_at=seconds(common.expires_at),
        # What was cancelled may have no result.
        is_stopped=has_ended and state.num_cancelled > 0,
        totals=common.totals if has_ended else None,
    )
