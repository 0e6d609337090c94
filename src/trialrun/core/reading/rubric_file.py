"""Rubric-file text → Rubric, with every mistake of the file at once, each with its line and its fix.

A rubric is an instrument: nothing in it is filled in from elsewhere, and its resolved document says everything that a
rater is told. Files are read by the caller's `read`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, cast

from pydantic import ConfigDict, Field

from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.document import Entry, Model, Name, Values, plain
from trialrun.core.reading.file_kind import FileKind
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.rules import Objection
from trialrun.core.reading.texts import is_file_name
from trialrun.core.rubric import Granularity, Item, Paradigm, Rubric

ReadText = Callable[[str], str | None]
Data = Mapping[str, object]
_WIDEST = 100
_TRUTHS = ("true", "false")
_ITEM_TEXTS = ("question", "criteria")


class ItemEntry(Entry):
    """One question to the rater."""

    id: Name = Field(description="Its name in tables.")
    question: str = Field(
        min_length=1, description="What the rater decides, as a text or a file (.md, .txt)."
    )
    criteria: str | None = Field(None, description="How to decide, as a text or a file.")
    paradigm: Paradigm = Field(description="binary, scalar, categorical or extraction.")
    scale: list[int] | None = Field(None, min_length=2, max_length=2, description="Lowest and highest score.")
    labels: list[str] | None = Field(None, min_length=2, description="The labels to choose from.")
    descriptions: dict[str, str] | None = Field(None, description="Label or score → what it means.")
    fields: dict[Name, str] | None = Field(None, min_length=1, description="What to extract, by field.")
    truth: Literal["profile"] | None = Field(
        None, description="Compare what was extracted with the subject's hidden profile."
    )


class RubricFile(Entry):
    """A rubric: what is rated, by which questions, and what the rater sees."""

    model_config = ConfigDict(title="Trialrun rubric", extra="forbid", strict=True, frozen=True)

    name: Name = Field(description="Name of the rubric.")
    about: str | None = Field(None, description="What it is for; no rater sees it.")
    instruction: str | None = Field(
        None, description="What raters are told beside the questions, as a text or a file."
    )
    granularity: Granularity | None = Field(
        None, description="session, turn (one call rates each turn) or turn_by_turn (a call per turn)."
    )
    subject: str | None = Field(
        None, min_length=1, description="The party whose turns or profile it is about."
    )
    needs: list[Literal["profile"]] | None = Field(
        None, description="profile: the rater sees the subject's hidden profile."
    )
    profile: str | None = Field(None, min_length=1, description="Where the profile stands; profile.")
    apart: bool | None = Field(None, description="true: a call for each item; else one for all of them.")
    order: Literal["random", "fixed"] | None = Field(
        None, description="Order of units, items and labels; random."
    )
    roles: dict[str, str] | None = Field(None, description="Party → what the rater knows it as.")
    hide: list[str] | None = Field(None, description="Words to strike out of the talk.")
    models: list[Model] | None = Field(None, min_length=1, description="The raters, as provider/model.")
    temperature: float | None = Field(
        0.0, ge=0, le=2, description="0 unless given; null leaves it to the model."
    )
    max_tokens: int | None = Field(None, ge=1, description="Most tokens of one answer; enough unless given.")
    params: Values | None = Field(None, description="Further fields for the provider's request.")
    items: list[ItemEntry] = Field(min_length=1, description="The questions.")


def parse_rubric(text: str, *, file: str, read: ReadText) -> Rubric:
    """The rubric that a file describes, or StudyMistakes with all that is wrong."""
    entry, _, _ = RUBRIC.read(
        text, file=file, prepare=lambda document, mistakes: _with_texts(document, read, mistakes)
    )
    return _noun_of(entry)


def rubric_of(document: Data) -> Rubric:
    """The rubric of a resolved document, exactly as it was."""
    entry, found = RUBRIC.check(document)
    if entry is None:
        raise UsageError(
            f"the archived rubric does not read back: {found[0].what}", fix="was it edited by hand?"
        )
    return _noun_of(entry)


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a rubric file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **RubricFile.model_json_schema()}


def _with_texts(document: Data, read: ReadText, mistakes: Mistakes) -> dict[str, object]:
    """The document with the texts of files in place of their names."""

    def resolved(value: object, path: Path) -> object:
        if not isinstance(value, str) or not is_file_name(value):
            return value
        text = read(value)
        if text is None:
            mistakes.add(f"there is no file `{value}`", path, "give the path from the rubric's folder")
            return value
        return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip()

    made = dict(document)
    if "instruction" in made:
        made["instruction"] = resolved(made["instruction"], ("instruction",))
    if isinstance(made.get("items"), list):
        made["items"] = [
            _item_with_texts(item, ("items", place), resolved)
            for place, item in enumerate(cast("list[object]", made["items"]))
        ]
    return made


def _item_with_texts(item: object, path: Path, resolved: Callable[[object, Path], object]) -> object:
    known = as_map(item)
    if known is None:
        return item
    return {
        key: resolved(value, (*path, key)) if key in _ITEM_TEXTS else value for key, value in known.items()
    }


# --- what the keys mean together -------------------------------------------------------------------------------------


def _contradictions(entry: RubricFile) -> Iterator[Objection]:
    ids: dict[str, int] = {}
    for place, item in enumerate(entry.items):
        if item.id in ids:
            yield Objection(
                ("items", place, "id"), f"two items have the id `{item.id}`", "rename one of them"
            )
        ids.setdefault(item.id, place)
        yield from _of_item(("items", place), item)
    if entry.subject is None:
        yield from _without_subject(entry)
    truths = [place for place, item in enumerate(entry.items) if item.truth]
    if truths and (entry.granularity or "session") != "session":
        yield Objection(
            ("items", truths[0], "truth"),
            "a profile is compared with what the whole talk tells",
            "use `granularity: session`, or remove `truth`",
        )


def _without_subject(entry: RubricFile) -> Iterator[Objection]:
    add = "add `subject: ...`, the name of a party"
    if (entry.granularity or "session") != "session":
        yield Objection(
            ("granularity",), f"`granularity: {entry.granularity}` needs to know whose turns", add
        )
    if entry.needs:
        yield Objection(("needs",), "`needs: [profile]` needs to know whose profile", add)
    for place, item in enumerate(entry.items):
        if item.truth:
            yield Objection(("items", place, "truth"), "`truth: profile` needs to know whose profile", add)


def _of_item(path: Path, item: ItemEntry) -> Iterator[Objection]:
    wanted = {"scalar": "scale", "categorical": "labels"}.get(item.paradigm)
    if wanted and getattr(item, wanted) is None:
        example = "scale: [1, 5]" if wanted == "scale" else "labels: [yes, no]"
        yield Objection(path, f"a {item.paradigm} item needs `{wanted}`", f"add `{example}`")
    uses = {"scale": "scalar", "labels": "categorical", "fields": "extraction", "truth": "extraction"}
    for key, paradigm in uses.items():
        if getattr(item, key) is not None and item.paradigm != paradigm:
            what = f"`{key}` says nothing in a {item.paradigm} item"
            yield Objection((*path, key), what, f"remove it, or use `paradigm: {paradigm}`", at_key=True)
    if item.scale and not 0 < item.scale[1] - item.scale[0] <= _WIDEST:
        what = f"`scale` must rise, by at most {_WIDEST}"
        yield Objection((*path, "scale"), what, "give the lowest and the highest score, such as [1, 5]")
    if item.labels and len(set(item.labels)) < len(item.labels):
        yield Objection((*path, "labels"), "a label stands twice", "name each label once")
    if item.truth and not item.fields:
        yield Objection(
            (*path, "truth"), "`truth` compares field by field", "add `fields:`, named as in the profile"
        )
    known = _described(item)
    for name in item.descriptions or {}:
        if known is not None and name not in known:
            what = f"`descriptions` has `{name}`, which is no answer"
            yield Objection((*path, "descriptions", name), what, pick(name, known), at_key=True)


RUBRIC = FileKind(
    model=RubricFile,
    layout={(): RubricFile, ("items", "*"): ItemEntry},
    whole="a rubric",
    noun="rubric",
    begin="`name: ...` and `items:`",
    contradictions=_contradictions,
)


def _described(item: ItemEntry) -> list[str] | None:
    """What an item's `descriptions` may speak of; None where that was wrong already."""
    match item.paradigm:
        case "binary":
            return list(_TRUTHS)
        case "categorical":
            return item.labels
        case "scalar":
            return [str(score) for score in range(item.scale[0], item.scale[1] + 1)] if item.scale else None
        case "extraction":
            return []


# --- nouns -----------------------------------------------------------------------------------------------------------


def _noun_of(entry: RubricFile) -> Rubric:
    return Rubric(
        name=entry.name,
        items=tuple(_item_of(item) for item in entry.items),
        instruction=entry.instruction or "",
        granularity=entry.granularity or "session",
        subject=entry.subject or "",
        needs_profile=bool(entry.needs),
        profile=entry.profile or "profile",
        is_asked_apart=bool(entry.apart),
        is_order_fixed=entry.order == "fixed",
        roles=MappingProxyType(dict(entry.roles or {})),
        hide=tuple(entry.hide or ()),
        models=tuple(entry.models or ()),
        temperature=entry.temperature,
        max_tokens=entry.max_tokens,
        params=MappingProxyType(dict(entry.params or {})),
        document=MappingProxyType(_document_of(entry)),
    )


def _document_of(entry: RubricFile) -> dict[str, object]:
    """The file as resolved, always in the same order, with the default that decides what is asked."""
    given = {**plain(entry), "temperature": entry.temperature}
    return {key: given[key] for key in RubricFile.model_fields if key in given}


def _item_of(entry: ItemEntry) -> Item:
    return Item(
        id=entry.id,
        question=entry.question,
        paradigm=entry.paradigm,
        criteria=entry.criteria or "",
        scale=(entry.scale[0], entry.scale[1]) if entry.scale else None,
        labels=tuple(entry.labels or ()),
        descriptions=MappingProxyType(dict(entry.descriptions or {})),
        fields=MappingProxyType(dict(entry.fields or {})),
        truth=entry.truth or "",
    )
