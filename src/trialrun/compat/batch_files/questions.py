"""The questions of a batch, and the lines of a tactic, from files of one's own or from those that come with Trialrun.

A question keeps the number that it has in its file, whatever part of the file is taken: so ids mean the same in a first
batch of what is most urgent and in a later one of the rest.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trialrun.app.material import PREFIX, material, material_names
from trialrun.core.errors import StudyMistakes, UsageError
from trialrun.core.near import pick
from trialrun.core.paths import as_map
from trialrun.core.reading.entries import Entry, entries_of, read_entries
from trialrun.core.reading.labels import label_of
from trialrun.procedures.questions.stimuli import Question, Tactic, question_of, tactic_of

TACTICS = f"{PREFIX}tactics.yaml"
OWN_LINES = "own"
"""The tactic of a file of lines."""


def entries_in(name: str) -> list[Entry]:
    """What a file holds: a text a line, or a YAML list; `trialrun:NAME` is one that comes with Trialrun."""
    source = read_entries(_text(name), file=name)
    if source.mistakes:
        raise StudyMistakes(source.mistakes)
    return entries_of(source)


def questions_in(name: str) -> dict[int, Question]:
    """All questions of a file by number, from 1."""
    found = {number: _question(entry, number, name) for number, entry in enumerate(entries_in(name), start=1)}
    if not found:
        raise UsageError("there is no question in it", where=name, fix="write one question a line")
    return found


def chosen(
    name: str, *, where: Mapping[str, str] | None = None, skip: int = 0, first: int | None = None
) -> dict[int, Question]:
    """The questions that were asked for: those with these values, then a stretch of them."""
    questions, entries = questions_in(name), entries_in(name)
    wanted = where or {}
    _check_fields(entries, wanted, name)
    fitting = [
        number
        for number, entry in enumerate(entries, start=1)
        if all(_value(entry, field) == value for field, value in wanted.items())
    ]
    taken = fitting[skip:] if first is None else fitting[skip : skip + first]
    if not taken:
        raise UsageError(
            "no question is left to ask", where=name, fix="ask for less with `--where`, `--skip`"
        )
    return {number: questions[number] for number in taken}


def tactic_named(name: str, *, file: str = TACTICS) -> Tactic:
    """A tactic of a file, by its id."""
    found = {str((as_map(entry) or {}).get("id")): as_map(entry) for entry in entries_in(file)}
    entry = found.get(name)
    if entry is None:
        raise UsageError(f"there is no tactic `{name}`", where=file, fix=pick(name, list(found)))
    return tactic_of({"tactic": entry})


def tactic_of_lines(file: str) -> Tactic:
    """A file with one line of pressure a level."""
    entries = entries_in(file)
    lines = tuple(entry for entry in entries if isinstance(entry, str))
    if not lines or len(lines) != len(entries):
        raise UsageError("this is no file of lines", where=file, fix="write one line of pressure a level")
    return Tactic(id=OWN_LINES, kind="pressure", toward="other", lines=lines)


def _question(entry: Entry, number: int, name: str) -> Question:
    known = as_map(entry)
    if known is None:
        return question_of({"question": {"id": f"question_{number}", "text": str(entry)}})
    if not str(known.get("text") or "").strip():
        raise UsageError(f"question {number} has no `text`", where=name, fix="write what is asked")
    return question_of({"question": {"id": f"question_{number}", **known}})


def _check_fields(entries: Sequence[Entry], wanted: Mapping[str, str], name: str) -> None:
    fields = {key: None for entry in entries for key in (as_map(entry) or ())}
    for field in wanted:
        if field not in fields:
            raise UsageError(
                f"no question has a `{field}`",
                where=name,
                fix=pick(field, fields, otherwise="write the questions as maps to say more about them"),
            )


def _value(entry: Entry, field: str) -> str:
    known = as_map(entry) or {}
    return label_of(known[field]) if field in known else ""


def _text(name: str) -> str:
    if name.startswith(PREFIX):
        text = material(name)
        if text is None:
            raise UsageError(f"there is no file `{name}`", fix=pick(name, material_names()))
        return text
    path = Path(name)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no file `{name}`",
            where=str(path),
            fix="write one question a line, or use `trialrun:questions.yaml`",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError("this file is not UTF-8", where=str(path), fix="save it as UTF-8") from error
