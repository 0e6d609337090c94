"""What happens in a trial of one condition: the study's document with the condition's levels put in.

`document` of a Spec holds what reaches a trial and nothing else, so budgets, limits and notes may change without
changing what a trial is.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from trialrun.core import identity, paths
from trialrun.core.errors import Mistake, StudyMistakes, UsageError
from trialrun.core.reading.rules import party_objections, place_of_procedure
from trialrun.core.study import Condition, Judge, Level, Party, PartyKind, Spec, Study

Data = Mapping[str, object]
REACHES_A_TRIAL = ("procedure", "parties", "settings", "judges")
_KEPT = 512


class Specs:
    """Makes specs, and keeps the latest ones."""

    def __init__(self, study: Study, code_fingerprint: Callable[[str], str], *, kept: int = _KEPT) -> None:
        self._base: Data = {key: study.document[key] for key in REACHES_A_TRIAL if key in study.document}
        self._measures = tuple(cast("list[str]", study.document.get("measures", [])))
        self._code_fingerprint = code_fingerprint
        self._code: dict[str, str] = {}
        self._keys: dict[str, paths.Keys] = {}
        self._kept: OrderedDict[str, Spec] = OrderedDict()
        self._most = kept

    def spec_of(self, condition: Condition) -> Spec:
        """The spec of a condition. Raises StudyMistakes when its levels contradict each other."""
        spec = self._kept.get(condition.id)
        if spec is None:
            spec = self._kept[condition.id] = self._made(condition)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(condition.id)
        return spec

    def spec_with(self, condition: Condition, overrides: Data) -> Spec:
        """The spec of a condition with some values changed, as dotted path → value. Raises UsageError."""
        document = self._document_of(condition)
        for dotted, value in overrides.items():
            keys = paths.split(dotted, document)
            if keys[0] not in REACHES_A_TRIAL:
                raise UsageError(
                    f"`{dotted}` does not reach a trial", fix=f"set one of {', '.join(REACHES_A_TRIAL)}"
                )
            try:
                document = paths.put(document, keys, value)
            except KeyError as error:
                raise UsageError(
                    f"`{dotted}` goes through a value that is no map", fix="shorten the path"
                ) from error
        _check_types(document)
        return self._spec(document, condition)

    def _made(self, condition: Condition) -> Spec:
        return self._spec(self._document_of(condition), condition)

    def _document_of(self, condition: Condition) -> Data:
        document = self._base
        for level in condition.levels.values():
            document = self._put(document, level)
        return document

    def _spec(self, document: Data, condition: Condition) -> Spec:
        _check(document, condition)
        document = _filled(document)
        procedure = str(document.get("procedure", ""))
        if procedure not in self._code:
            self._code[procedure] = self._code_fingerprint(procedure)
        parties = cast("Mapping[str, Data]", document.get("parties", {}))
        judges = cast("Mapping[str, Data]", document.get("judges", {}))
        return Spec(
            procedure=procedure,
            parties=MappingProxyType({name: party_of(name, data) for name, data in parties.items()}),
            judges=MappingProxyType({name: judge_of(name, data) for name, data in judges.items()}),
            settings=MappingProxyType(cast("dict[str, object]", document.get("settings", {}))),
            measures=self._measures,
            document=document,
            fingerprint=identity.digest([document, self._code[procedure], *self._methods(parties.values())]),
        )

    def _methods(self, parties: Iterable[Data]) -> list[str]:
        """Marks of the code of methods that are the user's own."""
        own = sorted({str(party["method"]) for party in parties if is_own_method(party.get("method"))})
        return [self._code_fingerprint(name) for name in own]

    def _put(self, document: Data, level: Level) -> Data:
        for dotted, value in level.sets:
            keys = self._keys.get(dotted)
            if keys is None:
                keys = self._keys[dotted] = paths.split(dotted, self._base)
            document = paths.put(document, keys, value)
        return document


def is_own_method(method: object) -> bool:
    """Whether a party's method is code of the user (`./file.py:Name`)."""
    return isinstance(method, str) and place_of_procedure(method) is not None


def own_methods(document: Data) -> set[str]:
    """Every method from a file of the user that some condition of a resolved document uses."""
    parties = paths.as_map(document.get("parties")) or {}
    found = [paths.get(party, ("method",)) for party in parties.values()]
    for factor in (paths.as_map(document.get("factors")) or {}).values():
        for sets in (paths.as_map(paths.get(factor, ("levels",))) or {}).values():
            for dotted, value in (paths.as_map(sets) or {}).items():
                found += [value] if dotted.endswith(".method") else [paths.get(value, ("method",))]
    return {str(method) for method in found if is_own_method(method)}


def party_of(name: str, data: Data) -> Party:
    """The party that an entry of the document describes."""
    given: dict[str, Any] = {key: value for key, value in data.items() if value is not None}
    kind: PartyKind = "human" if given.pop("human", False) else "script" if "script" in given else "model"
    lines = tuple(cast("list[str]", given.pop("script", [])))
    stop = tuple(cast("list[str]", given.pop("stop", [])))
    return Party(name=name, kind=kind, lines=lines, stop=stop, **given)


def judge_of(name: str, data: Data) -> Judge:
    """The judge that an entry of the document describes."""
    given: dict[str, Any] = {
        key: value for key, value in data.items() if value is not None or key == "temperature"
    }
    scale = given.pop("scale", None)
    labels = tuple(cast("list[str]", given.pop("labels", [])))
    return Judge(name=name, labels=labels, scale=(scale[0], scale[1]) if scale else None, **given)


def _filled(document: Data) -> Data:
    """The document with the defaults that decide what is asked."""
    filled = dict(document)
    for key, defaults in (
        ("parties", {"max_tokens": 1024}),
        ("judges", {"temperature": 0.0, "max_tokens": 512}),
    ):
        entries = cast("Mapping[str, Data]", document.get(key) or {})
        if entries:
            filled[key] = {
                name: {**defaults, **entry} if entry.get("model") is not None else entry
                for name, entry in entries.items()
            }
    return filled


def _check_types(document: Data) -> None:
    """A value that came from a command line is checked like one from a file."""
    from trialrun.core.reading.document import TrialPart
    from trialrun.core.reading.explain import objections
    from trialrun.core.reading.texts import is_file_name

    _, found = objections(TrialPart, document)
    if found:
        raise UsageError(found[0].what, fix=found[0].fix)
    for group, key in (("parties", "prompt"), ("judges", "question")):
        for name, entry in (paths.as_map(document.get(group)) or {}).items():
            text = paths.get(entry, (key,))
            if isinstance(text, str) and is_file_name(text):
                raise UsageError(f"`{group}.{name}.{key}` names a file", fix="give the text itself")


def _check(document: Data, condition: Condition) -> None:
    mistakes = tuple(
        Mistake(what=f"in the condition {condition.title}: {objection.what}", fix=objection.fix)
        for objection in party_objections(document)
    )
    if mistakes:
        raise StudyMistakes(mistakes)
