"""Open questions on the terminal: listed, answered by number, or asked one after another."""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from trialrun.app.answers import Question, answer, open_questions
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Line, Pairs
from trialrun.cli.defuse import defused
from trialrun.cli.screen import Screen, Shown
from trialrun.core.errors import UsageError


def listed(questions: Sequence[Question], named: str) -> Shown:
    """The open questions, with the numbers by which they are answered."""

    def blocks() -> list[Block]:
        if not questions:
            return [Line("no question is open", "good")]
        found: list[Block] = []
        for question in questions:
            found += [*_shown(question), GAP]
        command = f'trialrun answer {shlex.quote(named)} {questions[0].number} "..."'
        return [*found, Pairs([(command, "answers the first of them")], are_commands=True)]

    data = {
        "questions": [
            {
                "number": each.number,
                "trial": each.trial,
                "turn": each.turn,
                "party": each.party,
                "question": each.question,
                "options": list(each.options),
            }
            for each in questions
        ]
    }
    return Shown(data=data, blocks=blocks)


def answered(folder: Path, number: int, text: str, *, by: str) -> Shown:
    """Take one answer."""
    questions = open_questions(folder)
    question = next((each for each in questions if each.number == number), None)
    if question is None:
        numbers = amounts.listed([str(each.number) for each in questions], 12)
        raise UsageError(
            f"no open question has the number {number}",
            where=str(folder),
            fix=f"open are {numbers}" if questions else "none is open",
        )
    was_taken = _give(folder, question, text, by)
    data = {"trial": question.trial, "number": number, "answer": text, "taken_by_a_run": was_taken}
    return Shown(data=data, blocks=lambda: [Line(_fate(was_taken), "good")])


def interviewed(screen: Screen, questions: Sequence[Question], *, by: str) -> Shown:
    """Ask one question after another. An empty line skips, the end of the input ends."""
    taken = given = 0
    for place, question in enumerate(questions, start=1):
        head = f"question {place} of {len(questions)}: {_place(question)}"
        screen.write_blocks([Line(head, "title"), *_body(question)], screen.out)
        try:
            text = _typed(question)
        except click.Abort:
            screen.write_blocks([GAP], screen.out)
            break
        if text:
            given += 1
            taken += _give(_folder(screen), question, text, by)
        screen.write_blocks([GAP], screen.out)
    said = f"{amounts.plural(given, 'answer')} given" + (f", {_fate(bool(taken))}" if given else "")
    skipped = len(questions) - given
    left = f"; {amounts.plural(skipped, 'question')} still open" if skipped else ""
    text = "no question is open" if not questions else said + left
    return Shown(data={"answered": given}, blocks=lambda: [Line(text, "" if skipped else "good")])


def _typed(question: Question) -> str:
    """What the person says; with options, a number of the list will do."""
    while True:
        text = str(click.prompt(">", default="", show_default=False, prompt_suffix=" ")).strip()
        if not text or not question.options or text in question.options:
            return text
        if text.isdecimal() and 1 <= int(text) <= len(question.options):
            return question.options[int(text) - 1]
        click.echo(
            f"one of: {defused(', '.join(question.options))}, or its number; an empty line skips", err=True
        )


def _shown(question: Question) -> list[Block]:
    return [Line(f"{question.number}. {_place(question)}", "title"), *_body(question)]


def _place(question: Question) -> str:
    return f"{question.party} in {question.trial}" + (f", turn {question.turn}" if question.turn else "")


def _body(question: Question) -> list[Block]:
    options = [Line(f"{number}) {text}", indent=3) for number, text in enumerate(question.options, start=1)]
    return [Line(question.question, indent=3), *options]


def _give(folder: Path, question: Question, text: str, by: str) -> bool:
    return asyncio.run(answer(folder, question, text, by=by))


def _fate(was_taken: bool) -> str:
    return "the run that is going on took it" if was_taken else "kept; the next run takes it"


def _folder(screen: Screen) -> Path:
    if screen.folder is None:
        raise RuntimeError("the study's folder is not known")
    return screen.folder
