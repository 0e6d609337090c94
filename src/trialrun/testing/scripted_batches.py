"""A batch API in memory: the far end of every test of the batch lane.

`ScriptedRoute` keeps what a provider would keep, so it outlives the runs that use it: give the same one to the run that
was killed and to the run that continues. What a test wants to know is in `billed`, `batches` and `used`. How a batch
goes is a `Course`; what fails on the way is said with `fail`.
"""

import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from trialrun.core import errors
from trialrun.core.batches import Anchor, BatchLimits, Listed, Look, PackFile, Phase, Result
from trialrun.core.calls import Call, RawReply, Request
from trialrun.core.errors import (
    AuthRefused,
    CallError,
    QuotaExhausted,
    RequestRefused,
    TrialrunError,
    Unavailable,
)
from trialrun.core.ports import Clock
from trialrun.testing.scripted import Scripted

Method = Literal["upload", "create", "find", "look", "cancel", "listed", "fetch"]
Lines = list[bytes]
_CHUNK_BYTES = 1 << 16
_ATTEMPT = re.compile(r"-a(\d+)(?:-s[a-z2-7]{5})?$")


class NeverRan(Exception):
    """An answer of the script: this line was not reached before the batch ended. Its text is the reason."""


class _In(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a pack: the call without its messages, which are in the body."""

    custom_id: str
    call: Call
    body: msgspec.Raw


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    what: str
    status: int | None = None
    where: str = ""
    fix: str = ""
    billed: errors.Billing = "no"


class _Out(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    custom_id: str
    raw: RawReply | None = None
    error: _Problem | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a batch goes. The default is well, at the first look."""

    looks: Sequence[Phase | Look] = ()
    """What the looks before the end find, one after the other."""
    takes_s: float = 0.0
    """And not before this time has passed on the route's clock; until then it is `running`."""
    end: Phase = "ended"
    word: str = ""
    """The word for the end; that of the phase unless given."""
    problems: tuple[str, ...] = ()
    runs: int | None = None
    """How many of the lines run before the end; all of them if None. The others are listed as never run."""
    cancel_keeps: int | None = 0
    """How many have run when a cancel arrives; with None it comes too late, and everything is done."""
    change: Callable[[Lines], Lines] = list
    """What becomes of the lines of the results: `missing`, `doubled`, `foreign`, `reverse`, or anything else."""
    counts: bool = True
    """Whether looks before the end say how many are done."""


@dataclass
class Batch:
    """A batch as the far end keeps it."""

    id: str
    name: str
    input: str
    course: Course
    requests: int
    created_at: float
    left: deque[Phase | Look]
    outputs: list[_Out] = field(default_factory=list[_Out])
    """What became of each request, in their order; those that ran come first."""
    ran: int = 0
    is_cancelled: bool = False
    is_deleted: bool = False


class ScriptedRoute:
    """A batch route whose requests are answered by a `Scripted`, which also meters and parses the replies.

    A script that answers with an exception makes a line with that error; with `NeverRan`, one that never ran. `courses`
    is how all batches go, or how each goes in the order of their creation (those after the last go well). With the
    anchor `none`, there is no upload.
    """

    def __init__(
        self,
        provider: Scripted,
        *,
        courses: Course | Sequence[Course] = (),
        anchor: Anchor = "input",
        limits: BatchLimits | None = None,
        endpoint: str = "/scripted",
        clock: Clock | None = None,
    ) -> None:
        self.provider = provider
        self.limits = limits or BatchLimits(requests=50_000, size_bytes=200_000_000)
        self.anchor: Anchor = anchor
        self.batches: list[Batch] = []
        """All that were ever accepted, oldest first, whether or not anybody was told."""
        self.uploads: dict[str, bytes] = {}
        self.billed: Counter[str] = Counter()
        """How often each request ran, by its id."""
        self.used: Counter[Method] = Counter()
        """How often each method was called."""
        self._endpoint = endpoint
        self._courses = courses
        self._clock = clock
        self._before: dict[Method, deque[Exception]] = {}
        self._after: dict[Method, deque[Exception]] = {}

    def fail(self, method: Method, *failures: Exception, after: bool = False) -> None:
        """Let the next uses of a method raise these: before it does anything, or after, when its reply is lost.

        A `fetch` that fails after breaks off in the middle.
        """
        (self._after if after else self._before).setdefault(method, deque()).extend(failures)

    def delete(self, batch: str) -> None:
        """Let a batch end as one whose results were deleted."""
        self._batch(batch).is_deleted = True

    def endpoint_of(self, call: Call) -> str:
        return self._endpoint

    def line(self, id_: str, body: bytes, call: Call) -> bytes:
        bare = msgspec.structs.replace(call, request=msgspec.structs.replace(call.request, messages=()))
        return msgspec.json.encode(_In(custom_id=id_, call=bare, body=msgspec.Raw(body))) + b"\n"

    async def upload(self, pack: PackFile) -> str:
        self._begin("upload")
        if self.anchor == "none":
            return ""
        name = f"file-{len(self.uploads) + 1}"
        self.uploads[name] = pack.path.read_bytes()
        self._finish("upload")
        return name

    async def create(self, pack: PackFile, input_: str) -> str:
        self._begin("create")
        if self.anchor != "none" and input_ not in self.uploads:
            raise RequestRefused(f"there is no file `{input_}`", status=404)
        content = pack.path.read_bytes() if self.anchor == "none" else self.uploads[input_]
        course = self._course()
        batch = Batch(
            id=f"batch-{len(self.batches) + 1}",
            name=pack.id,
            input=input_,
            course=course,
            requests=content.count(b"\n"),
            created_at=self._now(),
            left=deque(course.looks),
        )
        self.batches.append(batch)
        if course.end == "ended":
            await self._run(batch, content)
        self._finish("create")
        return batch.id

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        self._begin("find")
        match self.anchor:
            case "input":
                found = [batch.id for batch in self.batches if batch.input == input_]
            case "name":
                found = [batch.id for batch in self.batches if batch.name == pack.id]
            case "none":
                found = [batch.id for batch in self.batches if batch.requests == pack.requests]
        self._finish("find")
        return found[::-1]

    async def look(self, batch: str) -> Look:
        self._begin("look")
        look = self._look(self._batch(batch))
        self._finish("look")
        return look

    async def cancel(self, batch: str) -> None:
        self._begin("cancel")
        this = self._batch(batch)
        if not self._has_ended(this) and not this.is_cancelled:
            this.is_cancelled = True
            this.left.clear()
            self._keep(this, this.course.cancel_keeps, "batch_cancelled")
        self._finish("cancel")

    async def listed(self, *, most: int = 100) -> list[Listed]:
        self._begin("listed")
        found = [
            Listed(
                batch=batch.id,
                word=self._word(batch),
                created_at=batch.created_at,
                requests=batch.requests,
                input=batch.input,
                name=batch.name if self.anchor == "name" else "",
            )
            for batch in self.batches[::-1][:most]
        ]
        self._finish("listed")
        return found

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        self._begin("fetch")
        this = self._batch(batch)
        if this.is_deleted or result not in self._results(this):
            raise RequestRefused(f"there is no result `{result}`", status=404)
        content = b"".join(self._lines(this, result))
        breaks = bool(self._after.get("fetch"))
        end = len(content) // 2 if breaks else len(content)
        for start in range(0, end, _CHUNK_BYTES):
            yield content[start : min(end, start + _CHUNK_BYTES)]
        self._finish("fetch")

    def read(self, line: bytes) -> Result:
        try:
            out = msgspec.json.decode(line, type=_Out)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Result(id="")
        error = _error_of(out.error) if out.error else None
        return Result(id=out.custom_id, raw=out.raw, error=error, reason=out.reason)

    async def _run(self, batch: Batch, content: bytes) -> None:
        """Answer every line. What does not come to run is known already: it is never asked."""
        lines = [msgspec.json.decode(line, type=_In) for line in content.splitlines()]
        batch.ran = len(lines) if batch.course.runs is None else min(batch.course.runs, len(lines))
        for number, line in enumerate(lines):
            out = (
                await self._answered(line) if number < batch.ran else _never(line.custom_id, "batch_expired")
            )
            batch.outputs.append(out)

    async def _answered(self, line: _In) -> _Out:
        request = msgspec.json.decode(line.body, type=Request)
        call = msgspec.structs.replace(line.call, request=request)
        found = _ATTEMPT.search(line.custom_id)
        attempt = int(found[1]) if found else 1
        try:
            raw = await self.provider.send(call, bytes(line.body), attempt=attempt, timeout_s=60.0)
        except NeverRan as error:
            return _never(line.custom_id, str(error))
        except TrialrunError as error:
            return _Out(custom_id=line.custom_id, error=_problem_of(error))
        self.billed[line.custom_id] += 1
        return _Out(custom_id=line.custom_id, raw=raw)

    def _keep(self, batch: Batch, most: int | None, reason: str) -> None:
        """Take back what had not run yet when the batch was cancelled."""
        if most is None or most >= batch.ran:
            return
        for number in range(most, batch.ran):
            out = batch.outputs[number]
            if out.raw is not None:
                self.billed[out.custom_id] -= 1
            batch.outputs[number] = _never(out.custom_id, reason)
        batch.ran = most

    def _look(self, batch: Batch) -> Look:
        if batch.is_deleted:
            return Look(phase="gone", word="deleted", created_at=batch.created_at)
        if batch.left:
            seen = batch.left.popleft()
            return seen if isinstance(seen, Look) else self._under_way(batch, seen)
        if not self._has_ended(batch):
            return self._under_way(batch, "running")
        course = batch.course
        return Look(
            phase=course.end,
            word=self._word(batch),
            total=batch.requests if course.end == "ended" else None,
            done=sum(out.raw is not None for out in batch.outputs),
            failed=sum(out.error is not None for out in batch.outputs),
            results=self._results(batch),
            problems=course.problems,
            created_at=batch.created_at,
        )

    def _under_way(self, batch: Batch, phase: Phase) -> Look:
        done = 0 if batch.course.counts else None
        return Look(phase=phase, word=phase, total=batch.requests, done=done, created_at=batch.created_at)

    def _has_ended(self, batch: Batch) -> bool:
        is_over = batch.is_cancelled or self._now() >= batch.created_at + batch.course.takes_s
        return is_over and not batch.left

    def _word(self, batch: Batch) -> str:
        if batch.left or not self._has_ended(batch):
            return "running"
        if batch.is_cancelled and batch.course.cancel_keeps is not None:
            return "cancelled"
        return batch.course.word or batch.course.end

    def _results(self, batch: Batch) -> tuple[str, ...]:
        """The results that hold anything: one of replies, one of everything else."""
        if batch.course.end != "ended" or batch.left or not self._has_ended(batch):
            return ()
        return tuple(
            name for name in (f"{batch.id}-output", f"{batch.id}-errors") if self._lines(batch, name)
        )

    def _lines(self, batch: Batch, result: str) -> Lines:
        replies = result.endswith("-output")
        changed = batch.course.change([msgspec.json.encode(out) + b"\n" for out in batch.outputs])
        return [line for line in changed if (b'"raw":' in line) == replies]

    def _course(self) -> Course:
        if isinstance(self._courses, Course):
            return self._courses
        number = len(self.batches)
        return self._courses[number] if number < len(self._courses) else Course()

    def _batch(self, id_: str) -> Batch:
        for batch in self.batches:
            if batch.id == id_:
                return batch
        raise RequestRefused(f"there is no batch `{id_}`", status=404, fix="is the key the right one?")

    def _begin(self, method: Method) -> None:
        self.used[method] += 1
        if failures := self._before.get(method):
            raise failures.popleft()

    def _finish(self, method: Method) -> None:
        if failures := self._after.get(method):
            raise failures.popleft()

    def _now(self) -> float:
        return self._clock.now() if self._clock else 0.0


def reverse(lines: Lines) -> Lines:
    """Results in another order than the requests."""
    return lines[::-1]


def missing(*numbers: int) -> Callable[[Lines], Lines]:
    """Leave out the lines with these numbers, from 0."""
    return lambda lines: [line for number, line in enumerate(lines) if number not in numbers]


def doubled(*numbers: int) -> Callable[[Lines], Lines]:
    """Give the lines with these numbers twice."""
    return lambda lines: [line for n, line in enumerate(lines) for _ in range(2 if n in numbers else 1)]


def foreign(id_: str = "somebody-elses-c1") -> Callable[[Lines], Lines]:
    """Add a reply to a request that was not in the pack."""
    line = msgspec.json.encode(_Out(custom_id=id_, raw=RawReply(body=b'{"text": "Not yours."}'))) + b"\n"
    return lambda lines: [*lines, line]


def garbled(number: int) -> Callable[[Lines], Lines]:
    """Spoil the line with this number."""
    return lambda lines: [b'{"raw": oops\n' if n == number else line for n, line in enumerate(lines)]


def _never(id_: str, reason: str) -> _Out:
    return _Out(custom_id=id_, reason=reason or "never ran")


def _problem_of(error: TrialrunError) -> _Problem:
    problem = _Problem(kind=type(error).__name__, what=error.what, where=error.where, fix=error.fix)
    if isinstance(error, CallError):
        problem = msgspec.structs.replace(problem, status=error.status, billed=error.billed)
    return problem


def _error_of(problem: _Problem) -> TrialrunError:
    match problem.kind:
        case "Throttled":
            return errors.Throttled(problem.what, status=problem.status)
        case "RequestRefused":
            return RequestRefused(
                problem.what,
                status=problem.status,
                where=problem.where,
                fix=problem.fix,
                billed=problem.billed,
            )
        case "QuotaExhausted":
            return QuotaExhausted(problem.what, where=problem.where, fix=problem.fix)
        case "AuthRefused":
            return AuthRefused(problem.what, where=problem.where, fix=problem.fix)
        case _:
            return Unavailable(problem.what, billed=problem.billed, status=problem.status)
