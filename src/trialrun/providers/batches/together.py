"""Together's batches: OpenAI's lines and states, files that go to a storage of their own, and lists without pages."""

import hashlib
from asyncio import to_thread
from pathlib import Path
from typing import ClassVar

import msgspec

from trialrun.core.batches import BatchLimits, PackFile
from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import Unavailable
from trialrun.providers.batches.openai import Job, Offer, OpenAIBatches, Problem, Problems
from trialrun.providers.batches.route import upload_timeout_s
from trialrun.providers.http.uploads import FileBody, form

_FILE_ID = "x-together-file-id"


class TogetherBatches(OpenAIBatches):
    """The batches of one account at Together."""

    not_in_batches: ClassVar[frozenset[str]] = frozenset()
    offer: ClassVar[Offer] = Offer(
        limits=BatchLimits(requests=50_000, size_bytes=100_000_000), has_metadata=False
    )

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        return b'{"custom_id":%b,"body":%b}\n' % (msgspec.json.encode(id_), body)

    async def upload(self, pack: PackFile) -> str:
        """Ask for an address, send the file there, and say that it is there. A file that it has is not sent again."""
        fields = {
            "purpose": "batch-api",
            "file_name": f"{pack.id}.jsonl",
            "file_type": "jsonl",
            "checksum": await to_thread(_checksum, pack.path),
        }
        kind, body = form(fields, name=pack.id)
        began = await self._account.request(
            "POST",
            f"{self._url}/files",
            body,
            headers={"Content-Type": kind},
            about=pack.id,
            kept=("location", _FILE_ID),
            accepted=(302, 409),
        )
        if began.status == 409:
            return self._named(self._answer(began, _Known).file_id, "file")
        address, file = began.headers.get("location", ""), began.headers.get(_FILE_ID, "")
        if not address or not file:
            raise Unavailable(f"{self._account.name} gave no address for the upload")
        await self._account.request(
            "PUT",
            address,
            FileBody(path=pack.path, size_bytes=pack.size_bytes),
            timeout_s=upload_timeout_s(pack.size_bytes),
            about=pack.id,
            is_signed=False,
        )
        await self._account.request("POST", f"{self._url}/files/{file}/preprocess", about=pack.id)
        return file

    def _made(self, raw: RawReply) -> str:
        made = self._answer(raw, _Made).job
        return made.id if made else ""

    def _job(self, raw: RawReply) -> Job:
        return self._answer(raw, _Job).common

    def _query(self, size: int, after: str, number: int) -> str:
        return ""

    def _page(self, raw: RawReply) -> tuple[list[Job], str]:
        jobs = [job.common for job in self._answer(raw, list[_Job])]
        return sorted(jobs, key=lambda job: str(job.created_at or ""), reverse=True), ""


class _Known(msgspec.Struct):
    file_id: str = ""


class _Job(msgspec.Struct):
    id: str = ""
    status: str = ""
    input_file_id: str | None = ""
    output_file_id: str | None = None
    error_file_id: str | None = None
    error: str | None = None
    created_at: str | None = None
    job_deadline: str | None = None

    @property
    def common(self) -> Job:
        """The same in OpenAI's words."""
        return Job(
            id=self.id,
            status=self.status,
            input=self.input_file_id or "",
            output=self.output_file_id,
            errors_file=self.error_file_id,
            problems=Problems(data=[Problem(message=self.error)]) if self.error else None,
            created_at=self.created_at,
            expires_at=self.job_deadline,
        )


class _Made(msgspec.Struct):
    job: _Job | None = None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
