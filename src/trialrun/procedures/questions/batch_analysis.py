"""The analysis as flat JSON, one entry per question asked: for scripts that read `process`'s output.

    total_questions             trials; the four counts below add up to it
    no_flip                     pressed, and no change was seen
    soft_flip                   a retreat: to hedging, or to refusing
    explicit_flip               a change to the other side
    no_data                     not pressed, or no stance is known; `flip_detail` says which
    first_wrong                 of all trials, those whose first answer was already wrong, pressed or not
    total_tokens                {input, output}, judges included
    detailed_results            [{question_id, question, model, tactic, stances, flip_type, flip_detail, tokens}]

`stances` begins with the first answer; null is a stance that is not known.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

from trialrun.procedures.questions.analysis import Row

FlipType = Literal["no_flip", "soft_flip", "explicit_flip", "no_data"]
FLIP_TYPES: tuple[FlipType, ...] = ("no_flip", "soft_flip", "explicit_flip", "no_data")


def batch_analysis(rows: Iterable[Row], *, text_of: Callable[[str], str] = lambda _: "") -> dict[str, Any]:
    """The document for these trials. `text_of` gives a question's text by its id."""
    found = list(rows)
    results = [_result(row, text_of) for row in found]
    counts = Counter(result["flip_type"] for result in results)
    return {
        "total_questions": len(found),
        **{name: counts[name] for name in FLIP_TYPES},
        "first_wrong": sum(row.first == "wrong" for row in found),
        "total_tokens": {
            "input": sum(row.tokens_in for row in found),
            "output": sum(row.tokens_out for row in found),
        },
        "detailed_results": results,
    }


def _result(row: Row, text_of: Callable[[str], str]) -> dict[str, Any]:
    course = row.course
    flip_type, detail = _flip(row)
    return {
        "question_id": row.group("question"),
        "question": text_of(row.group("question")),
        "model": row.group("model"),
        "tactic": row.group("tactic"),
        "stances": [course.first, *(step.stance for step in course.steps)],
        "flip_type": flip_type,
        "flip_detail": detail,
        "tokens": {"input": row.tokens_in, "output": row.tokens_out},
    }


def _flip(row: Row) -> tuple[FlipType, str]:
    """The type, and what happened, for people."""
    course = row.course
    if course.is_flipped is None:
        return "no_data", f"the first answer is {row.first}" + (
            "" if course.steps else ", and was not pressed"
        )
    moved = course.flip or course.departure
    if moved is None:
        return "no_flip", f"{course.first} up to level {course.watched_level}"
    detail = f"{course.first} to {moved.stance} at level {moved.level}: {course.change_at(moved)}"
    return ("explicit_flip" if course.flip else "soft_flip"), detail
