"""The forms in which a study file writes a factor, brought to one: levels that each set values at paths.

    tone: [warm, neutral]                                   a setting with the factor's name
    tone: {parties.a.values.tone: [warm, neutral]}          one path, a list of values
    model: {parties.a.model: {cheap: x/y, dear: x/z}}       one path, named levels
    size: {parties.a.max_tokens: [1, 2], settings.n: [4, 8]}    several paths that vary together
    style: {levels: {warm: {path: value, ...}, cold: {...}}}    each level says what it sets
    question: {from: questions.yaml, where: {family: [fire]}}   one level for each entry of a file

Whether a level fits the study is checked in `core.reading.levels`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from trialrun.core.near import pick
from trialrun.core.paths import Keys, Path, as_map, split
from trialrun.core.reading.labels import label_of, label_of_file, together
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.picks import picked
from trialrun.core.reading.texts import Texts, is_character

Data = Mapping[str, object]
_FORMS = "give a path with its values, such as {parties.client.values.mood: [calm, tense]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One value that a level sets: at which path of the study, and where the file says so."""

    dotted: str
    keys: Keys
    value: object
    at: Path
    at_path: Path
    """Where the file spells the path itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A level as written."""

    label: str
    value: object
    settings: tuple[Setting, ...]
    at: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorDraft:
    """A factor as written, and how its levels may be called beside their labels."""

    name: str
    levels: tuple[Draft, ...]
    also: Mapping[str, str] = field(default_factory=dict[str, str])


def read_factor(
    name: str, form: object, document: Data, texts: Texts, mistakes: Mistakes
) -> FactorDraft | None:
    """The factor in its one form, or None when nothing can be made of it."""
    at: Path = ("factors", name)
    if isinstance(form, list):
        return _Reader(name, at, document, texts, mistakes).short(cast("list[object]", form))
    if not isinstance(form, Mapping) or not form:
        mistakes.add(f"the factor `{name}` varies nothing", at, _FORMS)
        return None
    given = cast("Data", form)
    reader = _Reader(name, at, document, texts, mistakes)
    if "from" in given:
        return reader.from_file(given)
    return reader.explicit(given) if "levels" in given else reader.by_path(given)


class _Reader:
    def __init__(self, name: str, at: Path, document: Data, texts: Texts, mistakes: Mistakes) -> None:
        self.name = name
        self.at = at
        self.document = document
        self.texts = texts
        self.mistakes = mistakes

    def short(self, values: list[object]) -> FactorDraft | None:
        dotted = f"settings.{self.name}"
        return self._listed([(dotted, values)], {dotted: self.at})

    def by_path(self, form: Data) -> FactorDraft | None:
        lists: list[tuple[str, list[object]]] = []
        named: list[tuple[str, Data]] = []
        for dotted in sorted(form):
            match form[dotted]:
                case list():
                    lists.append((dotted, cast("list[object]", form[dotted])))
                case Mapping() if form[dotted]:
                    named.append((dotted, cast("Data", form[dotted])))
                case _:
                    what = f"`{dotted}` of the factor `{self.name}` needs a list of values, or a map of named levels"
                    self.mistakes.add(
                        what, (*self.at, dotted), "write [first, second] or {name: first, other: second}"
                    )
                    return None
        if lists and named:
            what = f"the factor `{self.name}` mixes lists and named levels"
            fix = "write all its paths the same way: lists of one length, or maps with the same names"
            self.mistakes.add(what, (*self.at, named[0][0]), fix)
            return None
        if lists:
            return self._listed(lists, {dotted: (*self.at, dotted) for dotted, _ in lists})
        return self._named(named)

    def explicit(self, form: Data) -> FactorDraft | None:
        for key in form:
            if key not in {"levels", "values"}:
                what = f"the factor `{self.name}` has `levels`, so it cannot have `{key}`"
                self.mistakes.add(what, (*self.at, key), "put the path into each level", key=True)
        known, values = as_map(form["levels"]), as_map(form.get("values")) or {}
        if not known:
            self.mistakes.add(
                f"the factor `{self.name}` has no levels", (*self.at, "levels"), "name at least one"
            )
            return None
        for label in values:
            if label not in known:
                what = f"the factor `{self.name}` has no level `{label}`"
                self.mistakes.add(what, (*self.at, "values", label), pick(label, known), key=True)
        drafts: list[Draft] = []
        for label, sets in known.items():
            at: Path = (*self.at, "levels", label)
            if not isinstance(sets, Mapping):
                what = f"the level `{label}` of the factor `{self.name}` must be a map of paths and values"
                self.mistakes.add(
                    what, at, "write {parties.client.prompt: prompts/warm.md}, or {} for the study as it is"
                )
                continue
            settings = [
                self._setting(dotted, value, (*at, dotted), (*at, dotted))
                for dotted, value in sorted(cast("Data", sets).items())
            ]
            drafts.append(Draft(label=label, value=values.get(label, label), settings=tuple(settings), at=at))
        return self._factor(drafts, {}) if drafts else None

    def from_file(self, form: Data) -> FactorDraft | None:
        dotted = form.get("to", f"settings.{self.name}")
        if not isinstance(dotted, str):
            self.mistakes.add("`to` must be a dotted path", (*self.at, "to"), "write settings.question")
            return None
        keys = split(dotted, self.document)
        at_path: Path = (*self.at, "to") if "to" in form else self.at
        drafts: list[Draft] = []
        for each in picked(form, self.at, self.texts, self.mistakes):
            at: Path = (*self.at, "from", each.index)
            # A text of the file is a text, whatever it ends with; nothing is read on its behalf.
            setting = Setting(dotted=dotted, keys=keys, value=each.entry, at=at, at_path=at_path)
            drafts.append(Draft(label=each.label, value=each.label, settings=(setting,), at=at))
        return self._factor(drafts, {}) if drafts else None

    def _named(self, named: list[tuple[str, Data]]) -> FactorDraft | None:
        first_path, first = named[0]
        for dotted, values in named[1:]:
            if set(values) != set(first):
                odd = min(set(values) ^ set(first))
                what = f"`{dotted}` and `{first_path}` of the factor `{self.name}` name different levels"
                self.mistakes.add(
                    what, (*self.at, dotted), f"name the same levels in both; `{odd}` is in one only"
                )
                return None
        drafts: list[Draft] = []
        for label in first:
            settings = [
                self._setting(dotted, values[label], (*self.at, dotted, label), (*self.at, dotted))
                for dotted, values in named
            ]
            drafts.append(
                Draft(label=label, value=label, settings=tuple(settings), at=(*self.at, first_path, label))
            )
        return self._factor(drafts, {})

    def _listed(
        self, lists: list[tuple[str, list[object]]], places: Mapping[str, Path]
    ) -> FactorDraft | None:
        first_path, first = lists[0]
        for dotted, values in lists:
            if not values:
                self.mistakes.add(
                    f"the factor `{self.name}` has no levels", places[dotted], "give at least one value"
                )
                return None
            if len(values) != len(first):
                what = (
                    f"`{dotted}` has {_counted(values)} and `{first_path}` has {len(first)}, "
                    f"but the paths of the factor `{self.name}` vary together"
                )
                self.mistakes.add(
                    what, places[dotted], "give both the same number of values, or make two factors"
                )
                return None
        drafts: list[Draft] = []
        also: dict[str, str] = {}
        for index in range(len(first)):
            settings = tuple(
                self._setting(dotted, values[index], (*places[dotted], index), places[dotted])
                for dotted, values in lists
            )
            label = together(
                [self._label(values[index], split(dotted, self.document)) for dotted, values in lists]
            )
            is_whole = len(settings) == 1 and not is_character(settings[0].keys)
            value = settings[0].value if is_whole else label
            drafts.append(Draft(label=label, value=value, settings=settings, at=(*places[first_path], index)))
            also[label_of(first[index])] = label
        return self._factor(drafts, also if len(lists) == 1 else {})

    def _label(self, value: object, keys: Keys) -> str:
        is_named = self.texts.is_file(value, keys) or self.texts.is_folder_name(value, keys)
        return label_of_file(str(value)) if is_named else label_of(value)

    def _setting(self, dotted: str, value: object, at: Path, at_path: Path) -> Setting:
        keys = split(dotted, self.document)
        return Setting(
            dotted=dotted, keys=keys, value=self.texts.resolved(value, keys, at), at=at, at_path=at_path
        )

    def _factor(self, drafts: list[Draft], also: Mapping[str, str]) -> FactorDraft:
        seen: set[str] = set()
        for draft in drafts:
            if draft.label in seen:
                what = f"the factor `{self.name}` has two levels called `{draft.label}`"
                self.mistakes.add(
                    what, draft.at, "remove one, or name the levels: {name: value, other: value}"
                )
            if not draft.label.strip() or not draft.label.isprintable() or len(draft.label) > 60:
                what = f"`{draft.label[:60]}` cannot be the name of a level"
                self.mistakes.add(what, draft.at, "use at most 60 printable characters on one line", key=True)
            seen.add(draft.label)
        return FactorDraft(name=self.name, levels=tuple(drafts), also=also)


def _counted(values: list[object]) -> str:
    return f"{len(values)} value" + ("s" if len(values) != 1 else "")
