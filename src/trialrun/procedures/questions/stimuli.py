"""What is said in a trial: the question, and the lines of a tactic, read from the settings of a condition.

A tactic's lines are templates over `question`, `claim` (the side that is pushed, as a clause that fits after "that"),
`side` (yes or no) and `evidence` (why the expected answer is right).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from trialrun.core.errors import ProcedureError
from trialrun.core.identity import digest
from trialrun.core.reading.catalogue import SettingFacts
from trialrun.core.reading.texts import names_in
from trialrun.procedures.questions.stances import Danger, Side, Stance, danger_of, other_side

Toward = Literal["other", "expected", "nobody"]
"""Which side a tactic pushes for: the one that the answer did not take, the expected one, or none."""
QUESTION_KEYS: Mapping[str, SettingFacts] = {
    "id": SettingFacts(kind="text", help="Short name; the level's label."),
    "text": SettingFacts(kind="text", is_required=True, help="The question, to be answered with yes or no."),
    "family": SettingFacts(kind="text", help="What kind of question it is, for tables."),
    "expected": SettingFacts(kind="text", choices=("yes", "no"), help="The right answer."),
    "danger": SettingFacts(
        kind="text", choices=("harm", "alarm"), help="What a wrong answer does: harm, or frighten."
    ),
    "claim": SettingFacts(kind="text", help="The wrong answer as a clause that fits after `that`."),
    "evidence": SettingFacts(kind="text", help="Why the expected answer is right, in one sentence."),
    "priority": SettingFacts(kind="text", help="For `where`: what to ask first."),
}
TACTIC_KEYS: Mapping[str, SettingFacts] = {
    "id": SettingFacts(kind="text", is_required=True, help="Short name; the level's label."),
    "help": SettingFacts(kind="text", help="What it appeals to, for readers."),
    "kind": SettingFacts(kind="text", choices=("pressure", "control"), help="pressure unless given."),
    "toward": SettingFacts(
        kind="text", choices=("other", "expected", "nobody"), help="The side that it pushes for."
    ),
    "lines": SettingFacts(kind="texts", help="What is said on the answer, from mild to strong."),
    "openings": SettingFacts(kind="texts", help="What is said before the question, if the talk starts so."),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question with what is known about it."""

    id: str
    text: str
    family: str = ""
    expected: Side | None = None
    danger: Danger = "harm"
    claim: str = ""
    evidence: str = ""

    def claim_for(self, side: Side) -> str:
        """The side as a clause that fits after "that"."""
        if self.claim and self.expected is not None and side != self.expected:
            return self.claim
        return f"the answer is {side}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tactic:
    """A way to press, from mild to strong."""

    id: str = "none"
    kind: Literal["pressure", "control"] = "control"
    toward: Toward = "nobody"
    lines: tuple[str, ...] = ()
    openings: tuple[str, ...] = ()

    def line(self, level: int, *, is_opening: bool) -> str:
        """What is said at a level, as a template."""
        lines = self.openings if is_opening else self.lines
        if not 1 <= level <= len(lines):
            kind = "openings" if is_opening else "lines"
            raise ProcedureError(
                f"the tactic `{self.id}` has {len(lines)} {kind}, and no level {level}",
                where="settings.levels",
                fix=f"write the {kind} in the tactic's file, or change `settings.levels` or `settings.start`",
            )
        return lines[level - 1]


def question_of(settings: Mapping[str, object]) -> Question:
    """The question of a condition: a text alone, or a map with what is known about it."""
    given = settings["question"]
    data = {"text": given} if isinstance(given, str) else dict(cast("Mapping[str, object]", given))
    expected = cast("Side | None", data.get("expected") or settings.get("expected"))
    text = str(data["text"])
    return Question(
        id=str(data.get("id") or "q" + digest(text, size=4)),
        text=text,
        family=str(data.get("family") or ""),
        expected=expected,
        danger=danger_of(expected, cast("Danger | None", data.get("danger"))),
        claim=str(data.get("claim") or ""),
        evidence=str(data.get("evidence") or ""),
    )


def tactic_of(settings: Mapping[str, object]) -> Tactic:
    """The tactic of a condition; without one, the question is asked and nothing else."""
    data = cast("Mapping[str, object] | None", settings.get("tactic"))
    if data is None:
        return Tactic()
    kind = cast('Literal["pressure", "control"]', data.get("kind") or "pressure")
    return Tactic(
        id=str(data["id"]),
        kind=kind,
        toward=cast("Toward", data.get("toward") or ("other" if kind == "pressure" else "nobody")),
        lines=tuple(cast("list[str]", data.get("lines") or [])),
        openings=tuple(cast("list[str]", data.get("openings") or [])),
    )


def levels_of(settings: Mapping[str, object], tactic: Tactic) -> tuple[int, ...]:
    """The levels that are pressed, in order; all of the tactic's if the settings do not say.

    A tactic that says nothing has none: it is the control that only asks.
    """
    if not tactic.lines and not tactic.openings:
        return ()
    given = cast("list[object] | None", settings.get("levels"))
    if settings.get("start") == "claim" and (given is None or len(given) != 1):
        raise ProcedureError(
            "a talk that starts with the claim has one level",
            where="settings.levels",
            fix="write `levels: [3]`, or vary it with a factor: {settings.levels: [[1], [3], [5]]}",
        )
    if given is None:
        return tuple(range(1, len(tactic.lines) + 1))
    if any(isinstance(level, bool) or not isinstance(level, int) for level in given) or not given:
        raise ProcedureError(
            "`settings.levels` must be a list of whole numbers",
            where="settings.levels",
            fix="write [1, 2, 3]",
        )
    return tuple(cast("list[int]", given))


def values_for(question: Question, tactic: Tactic, stance: Stance | None, line: str) -> dict[str, str]:
    """What the line's template may name, given the answer that it is said to."""
    side = side_for(question, tactic.toward, stance)
    values = {"question": question.text, "evidence": question.evidence}
    values |= {"side": side, "claim": question.claim_for(side)} if side else {}
    for name in names_in(line):
        if not values.get(name):
            raise ProcedureError(
                f"the tactic `{tactic.id}` speaks of `{name}`, and the question `{question.id}` gives none",
                where="settings.tactic",
                fix=f"add `{'expected' if name in {'side', 'claim'} else name}` to the question, or leave it out",
            )
    return values


def side_for(question: Question, toward: Toward, stance: Stance | None) -> Side | None:
    """The side that is pushed for. An answer without a side is pushed to the wrong one."""
    if toward == "nobody":
        return None
    if toward == "expected":
        return question.expected
    if stance in {"yes", "no"}:
        return other_side(cast("Side", stance))
    return other_side(question.expected) if question.expected else "yes"
