"""The next level of pressure: each question goes on with the model's own answer, and what is said to that.

A request of level k + 1 can only be written when the answer of level k is there. That is why pressure takes one batch a
level, and why a file with all levels in it would press on answers that nobody gave.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trialrun.compat.batch_files.lines import PLAIN, LineId, RequestLine, pressed
from trialrun.compat.batch_files.questions import OWN_LINES
from trialrun.compat.batch_files.replies import Answer
from trialrun.core.errors import UsageError
from trialrun.core.reading.texts import names_in
from trialrun.engine.templates import render
from trialrun.procedures.questions.stances import Side, Stance, standing_of
from trialrun.procedures.questions.stimuli import Question, Tactic, values_for

USUAL = "trialrun:pushback.txt"
"""Lines that need to know nothing of a question."""
_NEEDS_A_SIDE = frozenset({"claim", "side"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressed:
    """The lines of the next level, and the talks that cannot go on, with the reason."""

    level: int
    lines: tuple[bytes, ...]
    left_out: Mapping[str, str]
    not_worth_it: Mapping[str, str]
    """Talks that an analysis says are over: the first answer is no right one, or the side has changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What an analysis says of one model's answers so far."""

    first: Mapping[int, Stance | None]
    """The stance of the first answer, by question."""
    flipped: frozenset[tuple[int, str]]
    """Questions and tactics under which the side changed."""
    expected: Mapping[int, Side | None]

    def why_not(self, number: int, tactic: str) -> str:
        """Why pressing on is not worth its cost; empty if it is."""
        standing = standing_of(self.first.get(number), self.expected.get(number))
        if standing not in {"right", "unlabelled"}:
            return f"the first answer is {standing}"
        return "the side has changed" if (number, tactic) in self.flipped else ""


def press(
    requests: Iterable[RequestLine],
    answers: Mapping[str, Answer],
    *,
    tactic: Tactic,
    questions: Mapping[int, Question],
    where: Path,
    judged: Judged | None = None,
) -> Pressed:
    """Write the requests of the next level. With an analysis, only for first answers that are worth it."""
    lines: list[bytes] = []
    left_out: dict[str, str] = {}
    not_worth_it: dict[str, str] = {}
    levels: set[int] = set()
    name = name_of(tactic)
    for request in requests:
        id_ = _read(request, where)
        if id_.level and id_.tactic != name:
            raise UsageError(
                f"`{request.id}` was pressed by `{id_.tactic}`, and cannot go on with `{name}`",
                where=str(where),
                fix="press with the same tactic, or the same lines, as before",
            )
        answer = answers.get(request.id)
        if answer is None or not answer.is_whole:
            left_out[request.id] = (answer.problem or "its answer is empty") if answer else "it has no answer"
            continue
        first = judged.first.get(id_.number) if judged else None
        if judged and (why := judged.why_not(id_.number, name)):
            not_worth_it[request.id] = why
            continue
        level = id_.level + 1
        levels.add(level)
        question = questions.get(id_.number) or Question(id=f"question_{id_.number}", text=request.question)
        template = tactic.line(level, is_opening=False)
        if question.expected is None and first not in {"yes", "no"} and names_in(template) & _NEEDS_A_SIDE:
            raise _no_side(tactic, question, where)
        push = render(template, values_for(question, tactic, first, template), where=f"tactic {tactic.id}")
        next_id = LineId(number=id_.number, tactic=name, level=level)
        lines.append(pressed(request, next_id, answer.text or "", push))
    if len(levels) > 1:
        raise UsageError(
            f"the requests are of levels {', '.join(str(level - 1) for level in sorted(levels))}",
            where=str(where),
            fix="press one level at a time",
        )
    return Pressed(
        level=next(iter(levels), 0), lines=tuple(lines), left_out=left_out, not_worth_it=not_worth_it
    )


def name_of(tactic: Tactic) -> str:
    """The tactic as ids have it."""
    if tactic.id == OWN_LINES:
        return PLAIN
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in tactic.id.lower())[:32]


def levels_in(ids: Sequence[str]) -> dict[tuple[int, str], list[int]]:
    """Question and tactic → the levels of pressure that these ids name, in order."""
    found: dict[tuple[int, str], list[int]] = {}
    for text in ids:
        id_ = LineId.read(text)
        if id_ is not None and id_.level:
            found.setdefault((id_.number, id_.tactic), []).append(id_.level)
    return {key: sorted(set(levels)) for key, levels in found.items()}


def _no_side(tactic: Tactic, question: Question, where: Path) -> UsageError:
    return UsageError(
        f"the tactic `{tactic.id}` argues for a side, and nobody knows which side the answers to "
        f"`{question.id}` take",
        where=str(where),
        fix="give the questions an `expected` answer (`--questions FILE`), have the answers judged first "
        "(`--analysis FILE`), or leave out `--tactic`",
    )


def _read(request: RequestLine, where: Path) -> LineId:
    id_ = LineId.read(request.id)
    if id_ is None:
        raise UsageError(
            f"`{request.id}` is no id of `trialrun batch create`",
            where=str(where),
            fix="create the requests with it; ids look like `question_1_pressure_0`",
        )
    return id_
