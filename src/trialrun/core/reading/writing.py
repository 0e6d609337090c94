"""Plain data to YAML that `core.reading.source` reads back as the same data.

PyYAML alone would not do: it quotes what YAML 1.1 would misread (`no`) and leaves what YAML 1.2 would (`1e3`, `08`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from trialrun.core.reading import source


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and _fits_block(value) else None
    if style is None and source.reads_otherwise(value):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)  # pyright: ignore[reportUnknownMemberType]  # untyped there


def _fits_block(value: str) -> bool:
    """Whether a text can stand as an indented block and come back unchanged."""
    return all(c == "\n" or c.isprintable() for c in value) and not any(
        line.endswith(" ") for line in value.split("\n")
    )


_Dumper.add_representer(str, _text)


def write_yaml(document: Mapping[str, object] | Sequence[object]) -> str:
    """The document as a study file, or a list as a file of entries."""
    plain = dict(document) if isinstance(document, Mapping) else list(document)
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
