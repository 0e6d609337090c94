"""Study-file text → Study, with every mistake of the file at once.

Order: read the YAML, put the flags in, read the texts that stand in files, check types, read factors and design, put
every level into the study, check what is measured. Only the first step and a missing name end it early.
Nothing here touches the disk: files are read by the caller's `read`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import cast

from trialrun.core import paths
from trialrun.core.data import plain_data
from trialrun.core.design import Design
from trialrun.core.errors import Mistake, StudyMistakes, UsageError
from trialrun.core.near import pick
from trialrun.core.paths import Keys, Path, as_map
from trialrun.core.reading.arrangement import Arrangement, in_order, read_design
from trialrun.core.reading.catalogue import FIRST_PARTY, Contents, ProcedureFacts, SettingKind
from trialrun.core.reading.checks import check_measures, check_procedures, check_templates
from trialrun.core.reading.document import DesignEntry, StudyFile, entry_at, plain
from trialrun.core.reading.explain import objections
from trialrun.core.reading.factors import FactorDraft, read_factor
from trialrun.core.reading.flags import flag_text
from trialrun.core.reading.folders import ReadFolder
from trialrun.core.reading.levels import check_levels
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.nouns import noun_of, resolved
from trialrun.core.reading.rules import facts_of
from trialrun.core.reading.source import Source, plain_value, read_source
from trialrun.core.reading.specs import Specs
from trialrun.core.reading.texts import Characters, Listing, ReadText, Texts
from trialrun.core.study import Factor, Study

Data = Mapping[str, object]
_NOBODY: Characters = MappingProxyType({})
_MOST_CONDITIONS = 500
"""So many conditions are tried while a file is read; contradictions in later ones are found when they are planned."""


def parse_study(
    text: str | Source,
    *,
    file: str,
    read: ReadText,
    procedures: Mapping[str, ProcedureFacts],
    overrides: Data | None = None,
    listing: Listing | None = None,
    read_folder: ReadFolder | None = None,
    measures: Collection[str] | None = None,
    characters: Characters = _NOBODY,
    home: str = ".",
) -> Study:
    """The study that a file describes, or StudyMistakes with all that is wrong. A file that is read already, or that
    another tool's plan was translated into, is given as its source.

    `overrides` are flags as dotted path → value; they go before the file. `measures` are the known measures, with
    `*.words` for one that is taken per party; None accepts any name.
    """
    source = read_source(text, file=file) if isinstance(text, str) else text
    known = _Known(
        read=read,
        listing=listing,
        read_folder=read_folder,
        procedures=procedures,
        measures=measures,
        characters=characters,
    )
    return _Parser(source, overrides or {}, known, home).study()


def study_of(
    document: Data,
    *,
    read: ReadText,
    procedures: Mapping[str, ProcedureFacts],
    file: str = "",
    source: str = "",
    overrides: Data | None = None,
    read_folder: ReadFolder | None = None,
    measures: Collection[str] | None = None,
    characters: Characters = _NOBODY,
    home: str = ".",
) -> Study:
    """The study that plain data describes: a translated plan of another tool, a Python program, an archive."""
    data, wrong = plain_data(document)
    mistakes = tuple(Mistake(what=what, file=file, fix=fix) for what, fix in wrong)
    plain_source = Source(file=file, text=source, data=data, places={}, mistakes=mistakes)
    known = _Known(
        read=read,
        listing=None,
        read_folder=read_folder,
        procedures=procedures,
        measures=measures,
        characters=characters,
    )
    return _Parser(plain_source, overrides or {}, known, home).study()


def archived(document: Data, *, source: str = "", home: str = ".") -> Study:
    """The study of a resolved document, exactly as it was, needing neither files nor procedures."""
    entry, found = objections(StudyFile, document)
    if entry is None:
        raise UsageError(
            f"the archived study does not read back: {found[0].what}", fix="was it edited by hand?"
        )
    return noun_of(entry, document, source=source, home=home)


def parse_override(argument: str) -> tuple[str, object]:
    """`settings.max_turns=5` → its path and its value, read as the file would read it."""
    dotted, sign, value = argument.partition("=")
    if not sign or not dotted.strip():
        raise UsageError(f"`--set {argument}` has no value", fix="write --set settings.max_turns=5")
    return dotted.strip(), plain_value(value.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """What the caller knows beside the file."""

    read: ReadText
    listing: Listing | None
    read_folder: ReadFolder | None
    procedures: Mapping[str, ProcedureFacts]
    measures: Collection[str] | None
    characters: Characters


class _Parser:
    def __init__(self, source: Source, overrides: Data, known: _Known, home: str) -> None:
        self.source = source
        self.home = home
        self.procedures = known.procedures
        self.measures = known.measures
        self.flags: dict[Path, str] = {}
        self.mistakes = Mistakes(source, self.flags)
        self.document = dict(as_map(source.data) or {})
        if not self.document:
            if not source.mistakes:
                self.mistakes.add(
                    "this is no study", (), "begin with `study: name` and `procedure: conversation`"
                )
            self.mistakes.raise_if_any()
        is_deep = {dotted: len(paths.split(dotted, self.document)) > 2 for dotted in overrides}
        for dotted in (dotted for dotted, deep in is_deep.items() if not deep):
            self._override(dotted, overrides[dotted])
        self.texts = Texts(
            known.read,
            known.listing,
            self._settings_of_kind("text"),
            self.mistakes,
            read_folder=known.read_folder,
            folders=self._settings_of_kind("folder"),
            characters=known.characters,
        )
        for dotted in (dotted for dotted, deep in is_deep.items() if deep):
            self._open_folder(paths.split(dotted, self.document)[:2])
            self._override(dotted, overrides[dotted])

    def study(self) -> Study:
        given = {
            key: value for key, value in self.document.items() if key not in {"factors", "design", "sources"}
        }
        self.document.update(cast("Data", self.texts.resolved(given, (), ())))
        own = facts_of(self.document.get("procedure"), self.procedures)
        if own is not None and own.notice:
            self.document.setdefault("notice", own.notice)
        contents = self._fill_from_contents()
        entry, found = objections(StudyFile, self.document)
        for objection in found:
            self.mistakes.add(objection.what, objection.path, objection.fix, key=objection.at_key)
        drafts = self._drafts()
        self._fill_settings(drafts)
        self._check_flags(drafts)
        arrangement = read_design(self._design(), drafts, self.mistakes)
        factors = check_levels(self.document, drafts, arrangement, self.procedures, self.mistakes)
        used = self._used_procedures(drafts)
        facts = [facts_of(name, self.procedures) for name in used]
        check_procedures({**used, **self._used_methods(drafts)}, self.texts, self.mistakes)
        check_templates(self.document, drafts, facts, self.mistakes)
        described = ProcedureFacts(measures=contents.measures)
        check_measures(self.document, [*facts, described], self.measures, self.mistakes)
        self.mistakes.raise_if_any()
        assert entry is not None  # noqa: S101  # no entry means mistakes
        return self._assembled(entry, factors, arrangement)

    def _override(self, dotted: str, value: object) -> None:
        keys = paths.split(dotted, self.document)
        self.flags[keys] = flag_text(dotted, value)
        value, wrong = plain_data(value)
        for what, fix in wrong:
            self.mistakes.add(what, keys, fix)
        entry = entry_at(())
        known = list(entry.model_fields) if entry else []
        if keys[0] not in known:
            self.mistakes.add(f"a study has no key `{keys[0]}`", keys, pick(keys[0], known))
            return
        try:
            self.document = paths.put(self.document, keys, value)
        except KeyError as error:
            self.mistakes.add(
                f"`{dotted}` goes through a value that is no map, at `{error.args[0]}`",
                keys,
                "shorten the path",
            )

    def _settings_of_kind(self, kind: SettingKind) -> set[str]:
        facts = facts_of(self.document.get("procedure"), self.procedures)
        every = [facts] if facts else list(self.procedures.values())
        return {key for one in every for key, setting in one.settings.items() if setting.kind == kind}

    def _open_folder(self, keys: Keys) -> None:
        """Read a setting that is a folder, so that a flag can lead into it."""
        value = paths.get(self.document, keys)
        if self.texts.is_folder_name(value, keys):
            self.document = paths.put(self.document, keys, self.texts.resolved(value, keys, keys))

    def _fill_from_contents(self) -> Contents:
        """Put in the parties that the settings describe, and the measures, if the file names none."""
        facts = facts_of(self.document.get("procedure"), self.procedures)
        if facts is None or facts.contents is None:
            return Contents()
        found = facts.contents(self.document)
        given = as_map(self.document.get("parties") or {})
        if found.parties and given is not None:
            both = {name: _party(party, as_map(given.get(name))) for name, party in found.parties.items()}
            self.document["parties"] = {**both, **{name: given[name] for name in given if name not in both}}
        if found.measures and self.document.get("measures") is None:
            self.document["measures"] = [*(as_map(self.document.get("judges")) or {}), *found.measures]
        return found

    def _drafts(self) -> list[FactorDraft]:
        forms = self.document.get("factors")
        if not isinstance(forms, Mapping):
            return []
        found = [
            read_factor(name, form, self.document, self.texts, self.mistakes)
            for name, form in cast("Data", forms).items()
        ]
        entry = self._design()
        return in_order([draft for draft in found if draft is not None and draft.levels], entry)

    def _design(self) -> DesignEntry | None:
        """The design section, if its types are right; if they are not, that is reported with all others."""
        design = as_map(self.document.get("design"))
        entry, _ = objections(DesignEntry, design) if design is not None else (None, [])
        return entry

    def _used_procedures(self, drafts: list[FactorDraft]) -> dict[str, Path]:
        """Every procedure that some condition uses, and where the file names it."""
        used: dict[str, Path] = {}
        if isinstance(self.document.get("procedure"), str):
            used[str(self.document["procedure"])] = ("procedure",)
        for draft in drafts:
            for level in draft.levels:
                for setting in level.settings:
                    if setting.keys == ("procedure",) and isinstance(setting.value, str):
                        used.setdefault(setting.value, setting.at)
        return used

    def _used_methods(self, drafts: list[FactorDraft]) -> dict[str, Path]:
        """Every method of a party that some condition uses, and where the file names it."""
        used: dict[str, Path] = {}
        for name, party in (as_map(self.document.get("parties")) or {}).items():
            method = paths.get(party, ("method",))
            if isinstance(method, str):
                used[method] = ("parties", name, "method")
        for draft in drafts:
            for level in draft.levels:
                for setting in level.settings:
                    inner = ("method",) if len(setting.keys) == 2 else ()
                    if setting.keys[:1] == ("parties",) and (setting.keys[2:] or inner) == ("method",):
                        method = paths.get(setting.value, inner)
                        if isinstance(method, str):
                            used.setdefault(method, (*setting.at, *inner))
        return used

    def _fill_settings(self, drafts: list[FactorDraft]) -> None:
        """Put in the defaults on which all procedures that are used agree."""
        settings = self.document.get("settings")
        if settings is not None and not isinstance(settings, Mapping):
            return
        parties = list(as_map(self.document.get("parties")) or {})
        values: dict[str, list[object]] = {}
        for name in self._used_procedures(drafts):
            facts = facts_of(name, self.procedures)
            for key, setting in facts.settings.items() if facts else ():
                default = (
                    next(iter(parties), None) if setting.default == FIRST_PARTY else plain(setting.default)
                )
                if default is not None and default not in values.setdefault(key, []):
                    values[key].append(default)
        agreed = {key: defaults[0] for key, defaults in values.items() if len(defaults) == 1}
        if agreed or settings:
            self.document["settings"] = {**agreed, **cast("Data", settings or {})}

    def _check_flags(self, drafts: list[FactorDraft]) -> None:
        """A flag that sets what a factor varies would be overwritten in every trial."""
        for keys in self.flags:
            for draft in drafts:
                set_by = {setting.keys for level in draft.levels for setting in level.settings}
                if any(keys[: len(own)] == own for own in set_by):
                    what = f"the factor `{draft.name}` varies `{paths.dotted(keys)}`, so the flag would change nothing"
                    self.mistakes.add(what, keys, "drop the flag, or the factor")

    def _check_conditions(self, study: Study) -> None:
        """Levels that suit the study one by one may still contradict each other."""
        design, specs = Design(study), Specs(study, lambda _: "")
        if design.count() == 0:
            self.mistakes.add("no condition is left", ("design",), "exclude less", key=True)
        for condition in islice(design, _MOST_CONDITIONS):
            try:
                specs.spec_of(condition)
            except StudyMistakes as error:
                fix = f"exclude this condition in `design`, or {error.mistakes[0].fix}"
                self.mistakes.add(error.mistakes[0].what, ("factors",), fix, key=True)
                return

    def _assembled(self, entry: StudyFile, factors: tuple[Factor, ...], arrangement: Arrangement) -> Study:
        document = resolved(entry, self.document, factors, arrangement, self.texts.sources)
        whole, found = objections(StudyFile, document)
        assert whole is not None, found  # noqa: S101  # our own writing reads back
        study = noun_of(whole, document, source=self.source.text, home=self.home)
        study = replace(study, notes=tuple(_notes(study)))
        self._check_conditions(study)
        self.mistakes.raise_if_any()
        return study


def _party(described: Data, given: Data | None) -> Data:
    """A party as the settings describe it, with what the file says of it. The file may change what kind it is."""
    if given is None:
        return described
    kinds = ("model", "human", "script")
    if any(given.get(kind) is not None for kind in kinds):
        described = {key: value for key, value in described.items() if key not in kinds}
        if given.get("model") is None:
            described = {}
    return {**described, **given}


def _notes(study: Study) -> Iterator[str]:
    for factor in study.factors:
        if len(factor.levels) == 1:
            yield f"the factor `{factor.name}` has one level, `{factor.levels[0].label}`: it does not vary"
        used = {
            row.get(factor.name, level.label)
            for row in (*study.listed, *study.included)
            for level in factor.levels
        }
        for level in factor.levels:
            if study.listed and level.label not in used:
                yield f"the level `{level.label}` of `{factor.name}` is in no condition"
