"""The work of one batch: answers to the lines whose turn has come, and what is left of it in the end."""

import asyncio
from pathlib import Path
from typing import BinaryIO

import msgspec

from trialrun.core import chance
from trialrun.core.calls import Usage
from trialrun.testing.emulator.asked import Trouble
from trialrun.testing.emulator.batches.course import Standing
from trialrun.testing.emulator.batches.files import Files, Stored
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.offers import offer_of
from trialrun.testing.emulator.desk import Desk
from trialrun.testing.emulator.visit import LineAsked, LineReply

_TURN = 64
"""So many lines are answered before others have their turn."""
_COUNTED = tuple(name for name in Usage.__struct_fields__ if name.startswith("tokens"))


async def go_on(job: Job, due: int, stands: Standing, desk: Desk) -> None:
    """Answer lines until so many are done; if the batch has ended, say of the others that they never ran."""
    with (
        job.lines.path.open("rb") as source,
        job.output.open("ab") as output,
        job.errors.open("ab") as errors,
    ):
        while job.done < due:
            raw = job.lines.at(source, next(job.order))
            for told, is_ok in await _results(job, raw, desk):
                (errors if job.form.splits and not is_ok else output).write(told)
            job.done += 1
            if job.done % _TURN == 0:
                await asyncio.sleep(0)
        if stands.phase == "ended":
            _give_up(job, stands, source, output, errors)


def close(job: Job, stands: Standing, files: Files) -> None:
    """The batch has ended and its results are there, for a while. From now on nothing changes."""
    job.is_closed = True
    if stands.ending == "failed":
        return
    kept_s = offer_of(job.provider).kept_s if job.kept_s is None else job.kept_s
    if job.rule is not None and job.fault == "gone":
        kept_s = job.rule.seconds
    expires_at = None if kept_s is None else stands.ended_at + kept_s
    if job.keep is not None:
        job.keep(job, stands, expires_at)
        return
    job.output_file = _stored(job, job.output, "output", stands.ended_at, expires_at)
    job.error_file = _stored(job, job.errors, "error", stands.ended_at, expires_at)
    for stored in (job.output_file, job.error_file):
        if stored is not None:
            files.add(stored)


async def _results(job: Job, raw: bytes, desk: Desk) -> list[tuple[bytes, bool]]:
    """The lines that a request leaves in the results: one, unless the script has something in mind."""
    line, tell = _line(job, raw), job.form.tell
    reply = await _answered(job, line, desk)
    match reply.rule and reply.rule.fault:
        case "missing":
            return []
        case "swapped" if job.held is None:
            job.held = (line.id, raw, reply)
            return []
        case "duplicate":
            assert reply.rule
            again = await _answered_again(job, line, desk) if reply.rule.is_billed else reply
            return [(tell(line.id, raw, reply), reply.is_ok), (tell(line.id, raw, again), again.is_ok)]
        case "foreign":
            stranger = tell(f"foreign-{job.chance.hex()[:8]}-{job.done}", raw, reply)
            return [(stranger, reply.is_ok), (tell(line.id, raw, reply), reply.is_ok)]
        case "unreadable":
            told = tell(line.id, raw, reply)
            return [(told[: len(told) // 2] + b"\n", reply.is_ok)]
        case _ if job.held is not None and reply.is_ok:
            other_id, other_raw, other = job.held
            job.held = None
            return [(tell(other_id, other_raw, reply), True), (tell(line.id, raw, other), True)]
        case _:
            return [(tell(line.id, raw, reply), reply.is_ok)]


def _line(job: Job, raw: bytes) -> LineAsked:
    id_, body, model = job.form.ask(raw)
    return LineAsked(
        id=id_,
        body=body,
        provider=job.provider,
        model=model or job.model,
        path=job.path,
        key=job.key,
        batch=job.id,
        batch_number=job.number,
        at=job.course.moment((job.done + 1) / len(job.lines)),
        is_billed=job.rule is None or job.rule.is_billed,
        trouble=_trouble(job),
    )


async def _answered(job: Job, line: LineAsked, desk: Desk) -> LineReply:
    reply = await desk.answer_line(line, job.form.dialect, job.form.dressed)
    job.succeeded += reply.is_ok
    job.failed += not reply.is_ok
    _count(job, reply)
    return reply


async def _answered_again(job: Job, line: LineAsked, desk: Desk) -> LineReply:
    again = msgspec.structs.replace(line, is_again=True)
    reply = await desk.answer_line(again, job.form.dialect, job.form.dressed)
    _count(job, reply)
    return reply


def _count(job: Job, reply: LineReply) -> None:
    job.cost_usd += reply.cost_usd or 0
    if reply.usage is not None:
        for name in _COUNTED:
            job.usage[name] = job.usage.get(name, 0) + getattr(reply.usage, name)


def _give_up(job: Job, stands: Standing, source: BinaryIO, output: BinaryIO, errors: BinaryIO) -> None:
    """What never had its turn, and an answer for which none came that it could be mixed up with."""
    if job.held is not None:
        output.write(job.form.tell(*job.held))
    ending = stands.ending
    if ending is None or ending in ("rejected", "failed"):
        return
    for number in job.order:
        raw = job.lines.at(source, number)
        told = job.form.never_ran(job.form.ask(raw)[0], raw, ending)
        if told is not None:
            (errors if job.form.splits else output).write(told)


def _stored(job: Job, path: Path, what: str, at: float, expires_at: float | None) -> Stored | None:
    size = path.stat().st_size
    if not size:
        return None
    return Stored(
        id=f"file-{chance.derive(job.chance, what).hex()[:24]}",
        provider=job.provider,
        owner=job.owner,
        name=f"{job.id}_{what}.jsonl",
        purpose="batch_output",
        path=path,
        size=size,
        created_at=at,
        expires_at=expires_at,
        batch=job.number,
        model=job.model,
    )


def _trouble(job: Job) -> Trouble | None:
    """Why the script does not want the batch to answer its next line."""
    rule = job.rule
    if rule is not None and rule.fault in ("failed", "forbidden_output") and not job.form.can_fail:
        return Trouble(kind="broken", message=rule.message)
    if rule is None or rule.fault != "partly":
        return None
    drawn = chance.fraction(chance.derive(job.chance, "partly", job.done))
    return None if drawn < rule.keep else Trouble(kind="broken", message=rule.message)
