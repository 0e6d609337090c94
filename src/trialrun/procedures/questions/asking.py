"""One trial: ask the question, then press the model on its own answer, level by level, and judge every answer.

Each exchange is a turn, and the model sees the whole real conversation so far. Two gates save money: `press` (is this
first answer worth pressing?) and `go_on` (is there still something to lose?). A reply that was cut, or refused
without a word, ends the trial there: nobody can push back on an answer that is not there.
"""

from dataclasses import dataclass, field
from typing import cast

from trialrun.core.errors import ProcedureError
from trialrun.core.ports import Lab, Outcome
from trialrun.core.reading.catalogue import PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.study import Party, Trial
from trialrun.procedures.judging import judge_all
from trialrun.procedures.questions.judging import JUDGE, Verdict, stance_of
from trialrun.procedures.questions.stances import STANDINGS, Course, Stance, Step, standing_of
from trialrun.procedures.questions.stimuli import (
    QUESTION_KEYS,
    TACTIC_KEYS,
    Question,
    Tactic,
    levels_of,
    question_of,
    tactic_of,
    values_for,
)

SUBJECT, ASKER = "subject", "asker"
FACTS = ProcedureFacts(
    help="One question, then pressure on the model's own answer; a judge says which side each answer takes.",
    settings={
        "question": SettingFacts(
            kind="entry",
            is_required=True,
            help="A question, usually a level of a factor.",
            keys=QUESTION_KEYS,
        ),
        "tactic": SettingFacts(
            kind="map", help="How it is pressed, usually a level of a factor.", keys=TACTIC_KEYS
        ),
        "levels": SettingFacts(
            kind="list", help="Which lines of the tactic are said, in order; all of them."
        ),
        "start": SettingFacts(
            default="question",
            kind="text",
            choices=("question", "claim"),
            help="claim: the pressure stands before the question, in the first message already.",
        ),
        "press": SettingFacts(
            default=["right", "unlabelled"],
            kind="texts",
            help="First answers that are pressed: right, wrong, hedged, refused, unlabelled.",
        ),
        "until": SettingFacts(
            default="flip",
            kind="text",
            choices=("flip", "change", "end"),
            help="Where pressing stops: at the other side, at any retreat, or at the last level.",
        ),
        "expected": SettingFacts(
            kind="text", choices=("yes", "no"), help="The right answer to questions that do not say."
        ),
    },
    parties=PartyFacts(minimum=2, maximum=2, required=(SUBJECT, JUDGE)),
    measures=("stance", "first", "flipped", "flip_level", "change", "gate_press", "gate_go_on"),
)
VERSION = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions:
    """A question under pressure."""

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        asked = _Asked.of(trial)
        end_reason = await _course(lab, asked)
        await judge_all(lab, trial.judges)
        course = asked.course
        for name, value, note in _measures(course, asked):
            lab.measure(name, value, note=note)
        return Outcome(values=_values(trial, asked), end_reason=end_reason)


@dataclass(kw_only=True, slots=True)
class _Asked:
    """One trial on its way: what is asked, and what came of it so far."""

    question: Question
    tactic: Tactic
    levels: tuple[int, ...]
    start: str
    until: str
    press: frozenset[str]
    first: Stance | None = None
    steps: list[Step] = field(default_factory=list[Step])

    @classmethod
    def of(cls, trial: Trial) -> "_Asked":
        settings, tactic = trial.settings, tactic_of(trial.settings)
        press = frozenset(cast("list[str]", settings["press"]))
        if unknown := sorted(press - set(STANDINGS)):
            known = ", ".join(STANDINGS)
            raise ProcedureError(
                f"`settings.press` cannot name `{unknown[0]}`", where="settings.press", fix=f"use {known}"
            )
        question, levels, start = question_of(settings), levels_of(settings, tactic), str(settings["start"])
        for level in levels:  # what cannot be said is found out before the question is paid for
            values_for(question, tactic, None, tactic.line(level, is_opening=start == "claim"))
        return cls(
            question=question,
            tactic=tactic,
            levels=levels,
            start=start,
            until=str(settings["until"]),
            press=press,
        )

    @property
    def course(self) -> Course:
        question = self.question
        return Course(
            first=self.first, steps=tuple(self.steps), expected=question.expected, danger=question.danger
        )

    @property
    def is_lost(self) -> bool:
        """Whether there is nothing more to press for."""
        course = self.course
        if self.until == "end":
            return False
        return (course.flip if self.until == "flip" else course.departure) is not None


async def _course(lab: Lab, asked: _Asked) -> str:
    """The conversation. Returns why it ended."""
    question = asked.question
    is_opening = asked.start == "claim" and bool(asked.levels)
    verdict, ended = await _exchange(lab, asked, asked.levels[0] if is_opening else None)
    asked.first = verdict.stance
    if asked.start == "claim" or not asked.levels:
        return ended or "asked"
    standing = standing_of(asked.first, question.expected)
    is_worth_it = not ended and standing in asked.press
    if not lab.gate("press", is_worth_it, note=ended or f"the first answer is {standing}"):
        return ended or "not_pressed"
    for level in asked.levels:
        verdict, ended = await _exchange(lab, asked, level)
        asked.steps.append(Step(level, verdict.stance))
        is_over = bool(ended) or asked.is_lost
        if level != asked.levels[-1] and not lab.gate("go_on", not is_over, note=f"after level {level}"):
            break
    return ended or _ending(asked.course)


def _ending(course: Course) -> str:
    if course.flip:
        return "flipped"
    if course.departure:
        return "changed"
    return "held" if course.known else "unknown"


async def _exchange(lab: Lab, asked: _Asked, level: int | None) -> tuple[Verdict, str]:
    """Say something to the subject and judge its answer. Also returns why the talk cannot go on, or an empty text."""
    async with lab.next_turn():
        lab.say(ASKER, _words(lab, asked, level))
        system = lab.render(SUBJECT)
        reply = await lab.ask(SUBJECT, lab.heard_by(SUBJECT), system=system, purpose="answer")
        is_said = bool(reply.text.strip())
        if is_said:
            lab.say(SUBJECT, reply)
        if reply.finish == "refusal":
            verdict, ended = Verdict(stance="refused"), "" if is_said else "refused"
        elif reply.finish == "length" or not is_said:
            verdict, ended = Verdict(stance=None, note="the answer was cut"), "cut"
        else:
            verdict, ended = await stance_of(lab, asked.question.text, reply.text), ""
        lab.measure("stance", verdict.stance, note=verdict.note)
    return verdict, ended


def _words(lab: Lab, asked: _Asked, level: int | None) -> str:
    """What is said: the question, a line of the tactic, or both when the talk starts with the claim.

    The line argues against the first answer, also when the model has already moved. The tactic is read in its turn, so
    that a fork may go on with another one.
    """
    question, is_opening = asked.question, lab.turn == 1
    if level is None:
        return question.text
    tactic = tactic_of(lab.spec.settings)
    template = tactic.line(level, is_opening=is_opening)
    values = values_for(question, tactic, asked.first, template)
    line = lab.render(Party(name=f"tactic {tactic.id}", prompt=template), **values)
    return f"{line}\n\n{question.text}" if is_opening else line


def _measures(course: Course, asked: _Asked) -> list[tuple[str, str | int | bool | None, str]]:
    """What is measured at the end: name, value, and why a value is missing."""
    first = standing_of(course.first, course.expected)
    flip, departure = course.flip, course.departure
    why = "not pressed" if not asked.steps else "no answer under pressure is known"
    lasted = f"no flip up to level {course.watched_level}" if course.is_flipped is False else why
    moved = flip or departure
    change = course.change_at(moved) if moved else None
    return [
        ("first", None if first == "unknown" else first, "" if first != "unknown" else "no first stance"),
        ("flipped", course.is_flipped, "" if course.is_flipped is not None else why),
        ("flip_level", flip.level if flip else None, "" if flip else lasted),
        ("change", change, "" if change else "none" if course.is_flipped is False else why),
    ]


def _values(trial: Trial, asked: _Asked) -> dict[str, object]:
    """Everything that an analysis needs, so that an export of trials is enough for it."""
    course, question, tactic = asked.course, asked.question, asked.tactic
    flip, departure = course.flip, course.departure
    return {
        "question": question.id,
        "family": question.family,
        "expected": question.expected,
        "danger": question.danger,
        "tactic": tactic.id,
        "tactic_kind": tactic.kind,
        "start": asked.start,
        "model": trial.parties[SUBJECT].model,
        "planned_levels": list(asked.levels),
        "first_stance": course.first,
        "levels": [step.level for step in course.steps],
        "stances": [step.stance for step in course.steps],
        "departure_level": departure.level if departure else None,
        "last_level": course.watched_level,
        "final_stance": course.known[-1].stance if course.known else course.first,
        "flip_kind": course.change_at(flip) if flip else None,
    }
