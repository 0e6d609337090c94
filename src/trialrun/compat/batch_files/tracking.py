"""`batch_tracking.json` and `batch_log.csv`: which batches there are, where each stands, and what happened when.

T1. A batch is in the file before it can cost anything: an entry without a `batch_id` may have reached the provider.
T2. The file is replaced whole, under a lock; what other people and other processes wrote into it stays.
T3. The log only grows: a line for each thing that happened to a batch.
T4. Who wants to tell a hook that a batch has ended claims that first: of many who watch, one tells it, once. The claim
    of a process that was killed at it, or failed, is worth nothing.
"""

import csv
import fcntl
import io
import os
import platform
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

import msgspec

from trialrun.app.files import write_whole
from trialrun.core.batches import Look
from trialrun.core.errors import StoreError, UsageError

FILE = "batch_tracking.json"
LOG = "batch_log.csv"
LONGEST_HOOK_S = 600.0
_GRACE_S = 60.0
_CLAIMED = "claimed"
LOG_HEAD = ("time", "provider", "batch_id", "model", "event")
Status = Literal[
    "uploading", "submitting", "pending", "in_progress", "finalizing", "cancelling",
    "completed", "failed", "expired", "cancelled", "gone", "unknown",
]  # fmt: skip
"""Where a batch stands, in the same words for every provider; `word` has the provider's own."""
UNSENT: frozenset[Status] = frozenset({"uploading", "submitting"})
ENDED: frozenset[Status] = frozenset({"completed", "failed", "expired", "cancelled", "gone"})
_PHASES: Mapping[str, Status] = MappingProxyType(
    {
        "queued": "pending",
        "running": "in_progress",
        "finishing": "finalizing",
        "cancelling": "cancelling",
        "failed": "failed",
        "gone": "gone",
    }
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch. The first five are what a file written by hand has."""

    provider: str
    batch_id: str = ""
    model: str = ""
    created: str = ""
    status: str = "unknown"
    word: str = ""
    """The provider's own word for the status."""
    description: str = ""
    input: str = ""
    """The request file, as it was named."""
    requests: int | None = None
    done: int | None = None
    failed: int | None = None
    sha256: str = ""
    """Of the request file."""
    pack: str = ""
    """The batch's folder below `batches/`, and its name at the provider where batches have one."""
    uploaded: str = ""
    """The provider's handle of the uploaded file."""
    results: str = ""
    """Where the answers were written."""
    copies: tuple[str, ...] = ()
    """Where they were written before."""
    is_partial: bool = False
    """Whether more answers may follow those that were written."""
    answered: int | None = None
    """How many of the requests have an answer in `results`."""
    ceiling_usd: Decimal | None = None
    spent_usd: Decimal | None = None
    problems: tuple[str, ...] = ()
    """Why the provider refused it as a whole."""
    hooks: dict[str, str] = {}
    """Who was told that it has ended: the hook's name, and when; while it is being told, by which process."""

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED

    def is_of(self, sha256: str, service: str, model: str) -> bool:
        """Whether these requests, to this model, are what it asks."""
        return (self.sha256, self.provider, self.model) == (sha256, service, model)

    @property
    def is_untaken(self) -> bool:
        """Whether it ended with answers that were not downloaded."""
        return self.status in {"completed", "expired", "cancelled"} and not self.results

    @property
    def name(self) -> str:
        """The provider's id, or ours while there is none."""
        return self.batch_id or self.pack


class RequestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A request file that `create` wrote: what its lines do not say."""

    path: str
    provider: str
    model: str
    requests: int
    sha256: str
    questions: str = ""
    """The file of questions that it asks."""

    def is_sent(self, batches: Iterable[Batch]) -> bool:
        """Whether it was submitted, and its submission came to an end."""
        return any(
            batch.is_of(self.sha256, self.provider, self.model) and batch.status not in UNSENT
            for batch in batches
        )


@dataclass(kw_only=True, slots=True)
class Book:
    """What the file holds."""

    batches: list[Batch] = field(default_factory=list[Batch])
    files: list[RequestFile] = field(default_factory=list[RequestFile])
    own: Sequence[Mapping[str, Any]] = ()
    """The entries of `batches` as they stood in the file, to keep what others wrote there."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def find(self, batch_id: str) -> Batch | None:
        """By the provider's id, or its last part, or the name of the request file; the newest, if there are several."""
        return next(
            (
                batch
                for batch in reversed(self.batches)
                if batch_id in {batch.batch_id, batch.pack, batch.input}
                or batch.batch_id.endswith(f"/{batch_id}")
            ),
            None,
        )

    def place_of(self, batch: Batch) -> int:
        """Where the batch stands in the list; it is put at the end if it is not there."""
        for place, known in enumerate(self.batches):
            is_same = known.pack == batch.pack if batch.pack else known.batch_id == batch.batch_id
            if is_same and known.provider == batch.provider:
                return place
        self.batches.append(batch)
        return len(self.batches) - 1

    def put_file(self, file: RequestFile) -> None:
        self.files = [*(known for known in self.files if known.path != file.path), file]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The tracking file, the log beside it, and the folder of what was sent and came back."""

    path: Path = Path(FILE)

    @property
    def folder(self) -> Path:
        """What was sent and what came back, byte for byte, one folder for each batch."""
        return self.path.parent / "batches"

    @property
    def log_path(self) -> Path:
        return self.path.parent / LOG

    def read(self) -> Book:
        """What is known; nothing where there is no file."""
        try:
            data = msgspec.json.decode(self.path.read_bytes(), type=dict[str, Any])
            entries = cast("list[dict[str, Any]]", data.get("batches") or [])
            return Book(
                batches=[msgspec.convert(_understood(entry), Batch) for entry in entries],
                files=msgspec.convert(data.get("files") or [], list[RequestFile]),
                own=entries,
                more={key: value for key, value in data.items() if key not in {"batches", "files"}},
            )
        except FileNotFoundError:
            return Book()
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise StoreError(
                f"this is no list of batches: {error}",
                where=str(self.path),
                fix="put it right, or name another with `--tracking`; the batches themselves are at the provider",
            ) from error

    @contextmanager
    def open(self) -> Generator[Book]:
        """The book to change; it is written back, durably, if nothing went wrong."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / f".{self.path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            book = self.read()
            yield book
            write_whole(self.path, [msgspec.json.format(_encoded(book), indent=2) + b"\n"])

    def note(self, batch: Batch, event: str = "", **news: Any) -> Batch:
        """Note what is new about the batch, and what happened to it. Gives it as it is known now.

        Only that is changed: a process may have looked at it hours ago, and others have written since. A new status is
        an event by itself.
        """
        with self.open() as book:
            place = book.place_of(batch)
            before = book.batches[place]
            batch = book.batches[place] = msgspec.structs.replace(before, **news)
        event = event or (batch.status if batch.status != before.status and batch.batch_id else "")
        if event:
            self.log(batch, event)
        return batch

    def claim(self, batch: Batch, hook: str) -> bool:
        """Whether this process is the one that tells a hook of the batch: nobody has, and nobody is about to (T4)."""
        with self.open() as book:
            place = book.place_of(batch)
            known = book.batches[place]
            if _stands(known.hooks.get(hook, "")):
                return False
            mine = f"{_CLAIMED} {now()} {platform.node()} {os.getpid()}"
            book.batches[place] = msgspec.structs.replace(known, hooks={**known.hooks, hook: mine})
        return True

    def release(self, batch: Batch, hook: str, *, is_told: bool) -> None:
        """The hook was told, for good; or it was not, and the next who watches tries again."""
        with self.open() as book:
            place = book.place_of(batch)
            known = book.batches[place]
            others = {name: mark for name, mark in known.hooks.items() if name != hook}
            hooks = {**others, hook: now()} if is_told else others
            book.batches[place] = msgspec.structs.replace(known, hooks=hooks)

    def log(self, batch: Batch, event: str) -> None:
        """Add a line to the log."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        with self.log_path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not self.log_path.stat().st_size:
                writer.writerow(LOG_HEAD)
            writer.writerow([now(), *map(_harmless, (batch.provider, batch.name, batch.model, event))])
            file.write(text.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())

    def known(self, batch_id: str, *, provider: str = "") -> Batch:
        """The batch of this id; one that was made elsewhere needs its provider."""
        batch = self.read().find(batch_id)
        if batch is not None:
            return batch
        if not provider:
            raise UsageError(
                f"there is no batch `{batch_id}`",
                where=str(self.path),
                fix="say `--provider` for one that was made elsewhere",
            )
        return Batch(provider=provider, batch_id=batch_id)


def status_in(look: Look) -> Status:
    """The status that a provider's answer means."""
    if look.phase != "ended":
        return _PHASES.get(look.phase, "unknown")
    word = look.word.lower()
    if "cancel" in word:
        return "cancelled"
    return "expired" if "expire" in word else "completed"


def now() -> str:
    """The time, as the files have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _understood(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry written by hand may have the provider's own word as its status."""
    status = entry.get("status")
    return entry if status in get_args(Status) else {**entry, "status": "unknown", "word": str(status or "")}


def _encoded(book: Book) -> bytes:
    batches = [
        {**(book.own[place] if place < len(book.own) else {}), **msgspec.to_builtins(batch)}
        for place, batch in enumerate(book.batches)
    ]
    files = msgspec.to_builtins(book.files)
    return msgspec.json.encode({"batches": batches, **({"files": files} if files else {}), **book.more})


def _stands(mark: str) -> bool:
    """Whether a hook was told, or is being told by a process that may still be at it."""
    if not mark.startswith(_CLAIMED):
        return bool(mark)
    try:
        _, at, host, pid = mark.split()
        age_s = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except ValueError:
        return False
    return age_s < LONGEST_HOOK_S + _GRACE_S and (host != platform.node() or _is_running(int(pid)))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is there, and another user's
    return True


def _harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
