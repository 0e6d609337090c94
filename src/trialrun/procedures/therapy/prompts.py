"""The prompts of a locale: texts with places for values, read from the package's own files when first needed.

They are ours and trusted; what is put into them (characters, replies of models) is data and is never read as a
template.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, cast

import yaml

from trialrun.core.identity import text_hash
from trialrun.core.paths import get

if TYPE_CHECKING:
    from jinja2 import Template

LOCALES = ("en",)


def folder() -> Traversable:
    """Where everything that is written and not code has its place."""
    return files("trialrun.procedures.therapy") / "material"


def read_data(*path: str) -> object:
    """One of our YAML files as plain data."""
    text = folder().joinpath(*path).read_text(encoding="utf-8")
    return cast("object", yaml.load(text, Loader=yaml.CSafeLoader))


class Prompts:
    """All prompts of one locale. `patient_psi.system` is the text `system` of `patient_psi.yaml`."""

    def __init__(self, locale: str) -> None:
        from jinja2 import Environment, StrictUndefined

        self.locale = locale
        self._packs: dict[str, object] = {}
        self._templates: dict[str, Template] = {}
        self._environment = Environment(
            undefined=StrictUndefined,
            autoescape=False,  # noqa: S701 - prompts are plain text
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def text(self, key: str, **values: object) -> str:
        """The text with its values put in."""
        template = self._templates.get(key)
        if template is None:
            source = self._at(key)
            if not isinstance(source, str):
                raise KeyError(f"there is no prompt `{key}` in the locale `{self.locale}`")
            template = self._templates[key] = self._environment.from_string(source)
        return template.render(**values).strip()

    def table(self, key: str) -> Mapping[str, str]:
        """Several texts under one name, such as the styles of a client; they have no places for values."""
        found = self._at(key)
        if not isinstance(found, Mapping):
            raise KeyError(f"there is no table `{key}` in the locale `{self.locale}`")
        return cast("Mapping[str, str]", found)

    def _at(self, key: str) -> object:
        pack, _, rest = key.partition(".")
        if pack not in self._packs:
            self._packs[pack] = read_data("prompts", self.locale, f"{pack}.yaml")
        return get(self._packs[pack], tuple(rest.split(".")))


@lru_cache(maxsize=8)
def prompts_of(locale: str) -> Prompts:
    """The prompts of a locale, read once in a process."""
    return Prompts(locale)


@lru_cache(maxsize=1)
def mark() -> str:
    """Digest of all texts that reach a model without standing in the study: a changed prompt is a changed plan."""
    found = sorted(_texts(folder() / "prompts", "prompts"))
    found.append(("topics.yaml", (folder() / "topics.yaml").read_text(encoding="utf-8")))
    return text_hash("\x00".join(f"{path}\x00{text}" for path, text in found))[:16]


def _texts(place: Traversable, path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in place.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            found += _texts(entry, name)
        elif entry.name.endswith(".yaml"):
            found.append((name, entry.read_text(encoding="utf-8")))
    return found
