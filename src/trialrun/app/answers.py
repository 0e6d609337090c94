"""Open questions to humans, and wishes to a run in another process: answer, stop."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from trialrun.app.clock import SystemClock
from trialrun.core import facts as f
from trialrun.core.errors import StudyLocked, UsageError
from trialrun.core.state import in_force
from trialrun.store.archive import Archive
from trialrun.store.inbox import answer_to, post
from trialrun.store.journal import SqliteJournal

_ACKNOWLEDGE_S = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that waits for a person."""

    number: int
    trial: str
    at: str
    party: str
    turn: int
    question: str
    options: tuple[str, ...]


def open_questions(folder: Path) -> list[Question]:
    """All questions without an answer, oldest first. A question keeps its number when others are answered."""
    with Archive(folder) as archive:
        rows = sorted(archive.questions(), key=lambda row: (row.asked_at, row.trial, row.at))
    return [
        Question(
            number=number,
            trial=row.trial,
            at=row.at,
            party=row.party,
            turn=row.turn,
            question=row.question,
            options=tuple(row.options),
        )
        for number, row in enumerate(rows, start=1)
        if row.answer is None
    ]


async def answer(folder: Path, question: Question, text: str, *, by: str = "") -> bool:
    """Give an answer. True if a running process took it at once, False if it waits for the next run."""
    if question.options and text not in question.options:
        raise UsageError(
            f"`{text}` is none of the options",
            where=f"{question.trial}/{question.at}",
            fix="answer with one of " + ", ".join(question.options),
        )
    try:
        journal = SqliteJournal.open(folder, clock=SystemClock())
    except StudyLocked:
        body: dict[str, object] = {"trial": question.trial, "at": question.at, "answer": text, "by": by}
        number = post(folder, "answer", body, clock=SystemClock())
        return await acknowledged(folder, number) is not None
    try:
        known = in_force(await journal.facts_of(question.trial))
        if any(isinstance(entry.fact, f.Answered) and entry.fact.at == question.at for entry in known):
            raise UsageError(
                "this question was answered before",
                where=f"{question.trial}/{question.at}",
                fix="`trialrun answer STUDY --list` shows what is open",
            )
        journal.append(question.trial, [f.Answered(at=question.at, answer=text, by=by)])
        await journal.commit()
    finally:
        await journal.close()
    return False


async def stop(folder: Path) -> str:
    """Ask the running process to stop in good order. Returns its acknowledgement."""
    try:
        journal = SqliteJournal.open(folder, clock=SystemClock())
    except StudyLocked:
        number = post(folder, "stop", {}, clock=SystemClock())
        taken = await acknowledged(folder, number)
        if taken is None:
            raise UsageError(
                f"the running process did not answer within {_ACKNOWLEDGE_S:.0f} s",
                where=str(folder),
                fix="it takes the wish as soon as it can; or end the process: nothing settled is lost",
            ) from None
        return taken
    await journal.close()
    raise UsageError(
        "no process runs this study", where=str(folder), fix="`trialrun status` shows where it stands"
    )


async def acknowledged(folder: Path, number: int) -> str | None:
    """Wait until the running process has taken a wish; None if it does not in time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _ACKNOWLEDGE_S
    while loop.time() < until:
        taken = answer_to(folder, number)
        if taken is not None:
            return taken
        await asyncio.sleep(0.1)
    return None
