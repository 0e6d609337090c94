"""Puts sentences together: templates filled from the lexicon, about the topics that were heard."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter

from trialrun.providers.rehearsal.dice import Dice
from trialrun.providers.rehearsal.lexicon import WORDS
from trialrun.providers.rehearsal.lines import CODE, LINES, REASONS, REFUSALS, TONES
from trialrun.providers.rehearsal.roles import Part, Role

_TOPIC: tuple[str, ...] = ("{topic}",)
_AMOUNT: tuple[str, ...] = ("{amount}",)
_PARAGRAPH = 5
_EARLIEST_END = 4
_END_SHARE = 0.25
_TYPICAL_AMOUNT = 400.0


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence with its slots, ready to be filled."""

    text: str
    slots: tuple[tuple[str, ...], ...]
    words: int
    is_lowercase: bool
    """Whether it begins with a slot, whose words are not capitalised."""

    def say(self, dice: Dice, topic: str, number: float | None) -> str:
        if not self.slots:
            return self.text
        said: list[str] = []
        for slot in self.slots:
            if slot is _TOPIC:
                said.append(topic)
            elif slot is _AMOUNT:
                said.append(_amount(dice, number))
            else:
                word = dice.pick(slot)
                said.append(word if word not in said else slot[slot.index(word) - 1])
        text = self.text % tuple(said)
        return text[0].upper() + text[1:] if self.is_lowercase else text


@dataclass(frozen=True, slots=True)
class Repertoire:
    """The lines of one role, read and ready."""

    length: float
    default_topic: str
    opening: tuple[Line, ...]
    react: tuple[Line, ...]
    body: tuple[Line, ...]
    close: tuple[Line, ...]
    ending: tuple[Line, ...]


def line_of(template: str) -> Line:
    """Read `I feel {feeling}.` once, so that saying it is one formatting operation."""
    text, slots = "", list[tuple[str, ...]]()
    for literal, slot, _, _ in Formatter().parse(template):
        text += literal.replace("%", "%%")
        if slot is not None:
            text += "%s"
            slots.append(_TOPIC if slot == "topic" else _AMOUNT if slot == "amount" else WORDS[slot])
    return Line(text if slots else template, tuple(slots), template.count(" ") + 1, text.startswith("%s"))


@cache
def repertoire_of(role: Role) -> Repertoire:
    lines = LINES[role]
    read = [
        tuple(line_of(template) for template in part)
        for part in (lines.opening, lines.react, lines.body, lines.close, lines.ending)
    ]
    return Repertoire(lines.length, lines.default_topic, *read)


@cache
def _reasons() -> tuple[Line, ...]:
    return tuple(line_of(template) for template in REASONS)


def speech(
    part: Part,
    dice: Dice,
    *,
    topics: Sequence[str],
    number: float | None,
    words: float,
    turns: int,
    is_opening: bool,
) -> str:
    """A reply of about so many words. `turns` is how often the party has spoken before."""
    lines = repertoire_of(part.role)
    topics = topics or (lines.default_topic,)
    may_end = part.end_mark or part.role == "negotiator"
    if may_end and turns >= _EARLIEST_END and dice.happens(_END_SHARE):
        said = dice.pick(lines.ending).say(dice, dice.pick(topics), number)
        # Alone in its line: there every procedure takes it for the end, and none for a word of a sentence.
        return f"{said}\n{part.end_mark}".rstrip()
    said = [dice.pick(TONES[part.tone])] if TONES[part.tone] and dice.happens(0.7) else []
    first = dice.pick(lines.opening if is_opening else lines.react)
    last = dice.pick(lines.close)
    left = words - first.words - (4 if said else 0)
    said.append(first.say(dice, dice.pick(topics), number))
    if left > last.words:
        left -= last.words
        said += _body(lines.body, dice, topics, number, left)
        said.append(last.say(dice, dice.pick(topics), number))
    text = _joined(said)
    return f"{text}\n\n{dice.pick(CODE)}" if part.role == "coder" else text


def sentence(role: Role, dice: Dice, topics: Sequence[str], number: float | None = None) -> str:
    """One sentence of a role, for a field of a structured reply."""
    lines = repertoire_of(role)
    line = dice.pick(lines.react if topics and dice.happens(0.5) else lines.body)
    return line.say(dice, dice.pick(topics or (lines.default_topic,)), number)


def further(role: Role, dice: Dice, topics: Sequence[str], words: float) -> str:
    """What follows a first sentence, in about so many words; nothing where these are too few for a sentence."""
    lines = repertoire_of(role)
    return _joined(_body(lines.body, dice, topics or (lines.default_topic,), None, words))


def reason(role: Role, dice: Dice, topics: Sequence[str]) -> str:
    """Why one of several options was taken."""
    return dice.pick(_reasons()).say(dice, dice.pick(topics or (repertoire_of(role).default_topic,)), None)


def refusal(dice: Dice) -> str:
    return dice.pick(REFUSALS)


def _body(
    lines: Sequence[Line], dice: Dice, topics: Sequence[str], number: float | None, words: float
) -> list[str]:
    """Sentences until there are about so many words; each template once before any comes again."""
    said: list[str] = []
    fresh: list[Line] = []
    while words > 0:
        fresh = fresh or list(lines)
        line = fresh.pop(dice.below(len(fresh)))
        # Half of a sentence too much is as near to the wish as half too little.
        if line.words > 2 * words:
            break
        said.append(line.say(dice, dice.pick(topics), number))
        words -= line.words
    return said


def _joined(said: list[str]) -> str:
    if len(said) <= _PARAGRAPH + 2:
        return " ".join(said)
    paragraphs = [said[at : at + _PARAGRAPH] for at in range(0, len(said), _PARAGRAPH)]
    return "\n\n".join(" ".join(paragraph) for paragraph in paragraphs)


def _amount(dice: Dice, number: float | None) -> str:
    """A round number a little above or below the last one."""
    near = (number or _TYPICAL_AMOUNT) * (0.85 + 0.3 * dice.fraction())
    step = 10.0 ** max(0, len(str(int(near))) - 2)
    return f"{max(1, round(near / step) * step):,.0f}"
