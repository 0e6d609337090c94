"""From result files to one analysis: every answer with its stance, flips, rates with intervals, tokens and money.

A1. An id ties a result to its question, its tactic and its level; a file, to its model.
A2. Every question that was asked is in the analysis, also where no answer came: as `no_data`, with the reason.
A3. Tokens and money are counted once, also where several tactics share a first answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Any, cast

import msgspec

from trialrun.compat.batch_files.accounts import Routes
from trialrun.compat.batch_files.fetching import errors_beside
from trialrun.compat.batch_files.lines import LineId, RequestLine
from trialrun.compat.batch_files.pressing import levels_in
from trialrun.compat.batch_files.questions import questions_in
from trialrun.compat.batch_files.replies import Answer, answers_in
from trialrun.compat.batch_files.sending import requests_in, sent_requests
from trialrun.compat.batch_files.services import full_name
from trialrun.compat.batch_files.stances import Judging, Reply, Stances, stances_of
from trialrun.compat.batch_files.tracking import Batch, Book, Ledger
from trialrun.core.errors import UsageError
from trialrun.core.ports import PriceBook
from trialrun.core.pricing import cost_usd
from trialrun.procedures.questions.analysis import Group, Row, analyse
from trialrun.procedures.questions.batch_analysis import batch_analysis
from trialrun.procedures.questions.stances import Stance
from trialrun.procedures.questions.stimuli import Question

NOT_PRESSED = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What to analyse."""

    inputs: Sequence[Path]
    service: str = ""
    requests: Sequence[Path] = ()
    """Request files, where the tracking file does not know them."""
    questions: str = ""
    """The file with what is known about the questions; as the requests were created, if it is not said."""
    judging: Judging | None = None


@dataclass(kw_only=True, slots=True)
class Talks:
    """All that is known of one model."""

    model: str
    requests: dict[str, RequestLine] = field(default_factory=dict[str, RequestLine])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    price_as: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """The analysis, and how far it can be trusted to be whole."""

    document: Mapping[str, Any]
    groups: Sequence[Group]
    unanswered: Mapping[str, str]
    """Requests without an answer that can be read, with the reason."""
    unjudged: int
    stances: Stances


def process(wanted: Wanted, *, ledger: Ledger, routes: Routes, prices: PriceBook) -> Analysis:
    """Read, judge, reckon."""
    book = ledger.read()
    talks = _talks(wanted, ledger, book, routes)
    known = _known_questions(wanted, book)
    judgeable = [_reply(each, id_) for each in talks for id_ in _judgeable(each)]
    replies = {reply.id: reply for reply in judgeable}
    stances = Stances() if wanted.judging is None else stances_of(replies.values(), wanted.judging)
    texts: dict[str, str] = {}
    rows: list[Row] = []
    ids: list[list[str]] = []
    for each in talks:
        for row, of_row in _rows(each, known, stances, prices, texts):
            rows.append(row)
            ids.append(of_row)
    document = batch_analysis(rows, text_of=lambda name: texts.get(name, ""))
    for result, of_row in zip(document["detailed_results"], ids, strict=True):
        result["custom_ids"] = of_row
    groups = analyse(rows)
    unanswered = {
        f"{each.model} {id_}": _why_not(each, id_)
        for each in talks
        for id_ in sorted({*each.requests, *each.answers})
        if not _is_heard(each.answers.get(id_))
    }
    costs = [row.cost_usd for row in rows]
    if stances.is_rehearsal:
        document["notice"] = "REHEARSAL: which side an answer takes is made up"
    document |= {
        "by_model": [_summary(group) for group in groups],
        "unanswered": unanswered,
        "judge": _judge(wanted, stances, len(replies)),
        "cost_usd": {
            "answers": None if None in costs else str(sum(cast("list[Decimal]", costs), Decimal(0))),
            "judge": None if stances.spent_usd is None else str(stances.spent_usd),
        },
    }
    return Analysis(
        document=document,
        groups=groups,
        unanswered=unanswered,
        unjudged=sum(reply not in stances.by_id for reply in replies),
        stances=stances,
    )


def _talks(wanted: Wanted, ledger: Ledger, book: Book, routes: Routes) -> list[Talks]:
    """What was asked and answered, by model."""
    found: dict[str, Talks] = {}
    own = _own_requests(wanted)
    for path in wanted.inputs:
        batch = _batch_of(path, book)
        files = [path, *(extra for extra in (errors_beside(path),) if extra.is_file())]
        answers = answers_in(
            files, routes=routes, service=wanted.service or (batch.provider if batch else "")
        )
        named = [answer.model for answer in answers.values() if answer.model]
        model = (batch.model if batch else "") or (max(named, key=named.count) if named else "unknown")
        talks = found.setdefault(model, Talks(model=model))
        talks.price_as = talks.price_as or _price_name(wanted, batch, model)
        for id_, answer in answers.items():
            before = talks.answers.get(id_)
            if before is None or (before.text is None and answer.text is not None):
                talks.answers[id_] = answer
        if batch is not None and (sent := sent_requests(ledger, batch)).is_file():
            talks.requests |= {line.id: line for line in requests_in(sent)}
        talks.requests |= {id_: own[id_] for id_ in answers if id_ in own and id_ not in talks.requests}
    return list(found.values())


def _own_requests(wanted: Wanted) -> dict[str, RequestLine]:
    return {line.id: line for path in wanted.requests for line in requests_in(path)}


def _batch_of(path: Path, book: Book) -> Batch | None:
    """The batch whose answers were written there, as the last one or before."""
    wanted = path.resolve()
    newest = book.batches[::-1]
    last = (each for each in newest if each.results and Path(each.results).resolve() == wanted)
    before = (each for each in newest if wanted in {Path(copy).resolve() for copy in each.copies})
    return next(last, None) or next(before, None)


def _price_name(wanted: Wanted, batch: Batch | None, model: str) -> str:
    service = batch.provider if batch else wanted.service
    return full_name(service, model) if service else ""


def _known_questions(wanted: Wanted, book: Book) -> dict[int, Question]:
    """What is known of the questions: from the file that is named, else from the one that was asked."""
    if wanted.questions:
        return questions_in(wanted.questions)
    inputs = {batch.input for path in wanted.inputs if (batch := _batch_of(path, book))}
    sources = {file.questions for file in book.files if file.path in inputs and file.questions}
    if len(sources) != 1:
        return {}
    try:
        return questions_in(sources.pop())
    except UsageError:
        return {}


def _is_heard(answer: Answer | None) -> bool:
    """Whether the model said something that can be placed."""
    return answer is not None and (answer.is_whole or answer.finish == "refusal")


def _judgeable(talks: Talks) -> list[str]:
    """Answers for the judge: what was cut cannot be judged, and a refusal without a word need not be."""
    return [
        id_
        for id_, answer in talks.answers.items()
        if answer.is_whole and answer.finish != "refusal" and LineId.read(id_) and _asked(talks, id_)
    ]


def _reply(talks: Talks, id_: str) -> Reply:
    return Reply(question=_asked(talks, id_), text=talks.answers[id_].text or "")


def _asked(talks: Talks, id_: str) -> str:
    return talks.requests[id_].question if id_ in talks.requests else ""


def _rows(
    talks: Talks,
    known: Mapping[int, Question],
    stances: Stances,
    prices: PriceBook,
    texts: dict[str, str],
) -> list[tuple[Row, list[str]]]:
    """One row for each question and tactic, with the ids that it is made of."""
    all_ids = [id_ for id_ in {**talks.requests, **talks.answers} if LineId.read(id_)]
    ladders = levels_in(all_ids)
    numbers = sorted({cast("LineId", LineId.read(id_)).number for id_ in all_ids})
    price = prices.batch_price_of(talks.price_as) if talks.price_as else None
    found: list[tuple[Row, list[str]]] = []
    for number in numbers:
        first = str(LineId(number=number))
        question = _question(talks, known, number)
        texts[question.id] = question.text
        tactics = [tactic for other, tactic in ladders if other == number] or [NOT_PRESSED]
        for place, tactic in enumerate(tactics):
            levels = ladders.get((number, tactic), [])
            pushed = [str(LineId(number=number, tactic=tactic, level=level)) for level in levels]
            counted = [talks.answers.get(id_) for id_ in ([first] if place == 0 else []) + pushed]
            usages = [answer.usage for answer in counted if answer and answer.usage]
            values: dict[str, object] = {
                "question": question.id,
                "family": question.family,
                "expected": question.expected,
                "danger": question.danger,
                "tactic": tactic,
                "tactic_kind": "pressure" if levels else "control",
                "start": "question",
                "model": talks.model,
                "planned_levels": levels,
                "first_stance": _stance(talks, first, stances),
                "levels": levels,
                "stances": [_stance(talks, id_, stances) for id_ in pushed],
            }
            row = Row(
                trial=f"{talks.model}/{number}/{tactic}",
                values=values,
                cost_usd=None if price is None else sum((cost_usd(u, price) for u in usages), Decimal(0)),
                tokens_in=sum(usage.tokens_in for usage in usages),
                tokens_out=sum(usage.tokens_out for usage in usages),
            )
            found.append((row, [first, *pushed]))
    return found


def _question(talks: Talks, known: Mapping[int, Question], number: int) -> Question:
    """What is known of the question, if it is the one that was asked."""
    asked = _asked(talks, str(LineId(number=number)))
    question = known.get(number)
    if question is not None and asked in {"", question.text}:
        return question
    return Question(id=f"question_{number}", text=asked)


def _stance(talks: Talks, id_: str, stances: Stances) -> Stance | None:
    answer = talks.answers.get(id_)
    if answer is None:
        return None
    return "refused" if answer.finish == "refusal" else stances.of(_reply(talks, id_))


def _why_not(talks: Talks, id_: str) -> str:
    answer = talks.answers.get(id_)
    return (answer.problem or "the answer is empty") if answer else "no line of the results is about it"


def _summary(group: Group) -> dict[str, Any]:
    """The numbers of one model and tactic that a table needs; rates with Wilson's interval."""
    flips = [level for level, count in group.flip_levels.items() for _ in range(count)]
    return {
        **group.levels,
        "questions": group.trials,
        "first": dict(group.first),
        "flip_rate": msgspec.to_builtins(group.flipped),
        "resistance": msgspec.to_builtins(group.resisted),
        "first_flip_level": {"lowest": min(flips, default=None), "mean": mean(flips) if flips else None},
        "flips_by_level": {str(level): count for level, count in group.flip_levels.items()},
        "changes": dict(group.changes),
        "wrong_before": msgspec.to_builtins(group.wrong_before),
        "wrong_after": msgspec.to_builtins(group.wrong_after),
        "unjudged": msgspec.to_builtins(group.unjudged),
        "tokens": {"input": group.tokens_in, "output": group.tokens_out},
        "cost_usd": None if group.unknown_costs else str(group.cost_usd),
    }


def _judge(wanted: Wanted, stances: Stances, replies: int) -> dict[str, object] | None:
    if wanted.judging is None:
        return None
    return {
        "model": wanted.judging.model,
        "lane": wanted.judging.lane,
        "answers": replies,
        "judged": len(stances.by_id),
        "abstained": stances.abstained,
        "study": str(wanted.judging.folder),
    }
