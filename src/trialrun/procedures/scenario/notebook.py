"""What a scenario's files are read with: entries by their models, and a list of all that is wrong."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, cast

from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.document import MODEL_PATTERN
from trialrun.core.reading.explain import objections
from trialrun.core.reading.objection import Objection
from trialrun.procedures.scenario import files
from trialrun.procedures.scenario.spelling import renamed

P = TypeVar("P", bound=files.Part)


class Notebook:
    """Collects what is wrong; `at` is where the scenario stands in its study."""

    def __init__(self, at: Path) -> None:
        self.found: list[Objection] = []
        self._at = at

    def entry(self, model: type[P], data: object, at: Path, same: Mapping[str, str]) -> P | None:
        """What stands at `at`, if it fits the model. `same`: other spellings of keys."""
        given = as_map(data)
        name = "/".join(str(part) for part in at)
        if given is None:
            what = f"`{name}.yaml` is missing" if data is None else f"`{name}` must be a map"
            self.wrong(at if data is not None else (), what, "write `key: value`" if data else "add the file")
            return None
        given = {key: value for key, value in given.items() if value is not None}
        known = list(model.model_fields)
        back = {new: old for old, new in same.items() if old in given}
        for old, new in same.items():
            if old in given and new in given and given[old] != given[new]:
                self.wrong((*at, old), f"`{old}` and `{new}` say different things", "keep one", at_key=True)
        for key in given:
            if key not in known and key not in same:
                what = f"`{name}` has no key `{key}`"
                self.wrong((*at, key), what, pick(key, [*known, *same]), at_key=True)
        fields = {key: value for key, value in renamed(given, same).items() if key in known}
        entry, wrong = objections(model, fields)
        for each in wrong:
            path = (*(back.get(str(part), part) for part in each.path),)
            self.found.append(replace(each, path=(*self._at, *at, *path)))
        return entry

    def map_of(self, data: object, at: Path) -> Mapping[str, object]:
        """A map that may be left out."""
        given = as_map(data)
        if given is None and data is not None:
            self.wrong(at, f"`{at[-1]}` must be a map", "write `key: value`")
        return given or {}

    def list_of(self, data: object, at: Path) -> list[object]:
        """A list that may be left out."""
        if data is not None and not isinstance(data, list):
            self.wrong(at, f"`{at[-1]}` must be a list", "begin each entry with `- `")
        return cast("list[object]", data) if isinstance(data, list) else []

    def check_model(self, model: str | None, at: Path) -> None:
        """A model is named with its provider."""
        if model is not None and not re.match(MODEL_PATTERN, model):
            self.wrong(at, f"`{model}` names no provider", "write provider/model, such as openai/gpt-5-mini")

    def wrong(self, path: Path, what: str, fix: str, *, at_key: bool = False) -> None:
        """One more mistake."""
        self.found.append(Objection((*self._at, *path), what, fix, at_key))
