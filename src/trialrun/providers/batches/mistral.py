"""Mistral's batches: OpenAI's files and lines, and jobs in a shape of their own."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import msgspec

from trialrun.core.batches import BatchLimits, PackFile, Phase
from trialrun.core.calls import Call, RawReply
from trialrun.providers.account import model_name
from trialrun.providers.batches.openai import PACK_KEY, Counts, Job, Offer, OpenAIBatches, Problem, Problems

_DAY_HOURS = 24


class MistralBatches(OpenAIBatches):
    """The batches of one account at Mistral."""

    not_in_batches: ClassVar[frozenset[str]] = frozenset()
    offer: ClassVar[Offer] = Offer(limits=BatchLimits(requests=1_000_000, size_bytes=512_000_000))
    jobs_path: ClassVar[str] = "/batch/jobs"
    phases: ClassVar[Mapping[str, Phase]] = MappingProxyType(
        {
            "queued": "queued",
            "running": "running",
            "cancellation_requested": "cancelling",
            "success": "ended",
            "cancelled": "ended",
            "timeout_exceeded": "ended",
            "failed": "failed",
        }
    )
    stopped: ClassVar[frozenset[str]] = frozenset({"cancelled", "timeout_exceeded"})

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"custom_id":%b,"body":%b}\n' % (msgspec.json.encode(id_), body)

    def _wish(self, pack: PackFile, input_: str) -> dict[str, object]:
        return {
            "endpoint": self._path,
            "input_files": [input_],
            "model": model_name(pack.model),
            "metadata": {PACK_KEY: pack.id},
            "timeout_hours": hours_of(pack.window),
        }

    def _job(self, raw: RawReply) -> Job:
        return self._answer(raw, _Job).common

    def _query(self, size: int, after: str, number: int) -> str:
        return f"?page={number}&page_size={size}&order_by=-created"

    def _page(self, raw: RawReply) -> tuple[list[Job], str]:
        data = self._answer(raw, _Page).data or []
        return [job.common for job in data], data[-1].id if data else ""


def hours_of(window: str) -> int:
    """A window as hours: `24h`, `7d`."""
    number, unit = window[:-1], window[-1:]
    return int(number) * (_DAY_HOURS if unit == "d" else 1) if number.isdigit() else _DAY_HOURS


class _Problem(msgspec.Struct):
    message: str = ""


class _Job(msgspec.Struct):
    id: str
    status: str
    input_files: list[str] = msgspec.field(default_factory=list[str])
    output_file: str | None = None
    error_file: str | None = None
    errors: list[_Problem] | None = None
    total_requests: int = 0
    succeeded_requests: int = 0
    failed_requests: int = 0
    metadata: dict[str, object] | None = None
    created_at: float | str | None = None

    @property
    def common(self) -> Job:
        """The same in OpenAI's words; the state stays Mistral's."""
        return Job(
            id=self.id,
            status=self.status,
            input=next(iter(self.input_files), ""),
            output=self.output_file,
            errors_file=self.error_file,
            problems=Problems(data=[Problem(message=each.message) for each in self.errors or ()]),
            counts=Counts(
                total=self.total_requests, completed=self.succeeded_requests, failed=self.failed_requests
            ),
            metadata=self.metadata,
            created_at=self.created_at,
        )


class _Page(msgspec.Struct):
    data: list[_Job] | None = None
