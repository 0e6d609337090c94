"""Settings and keys from `.env`: the file next to the study, then the one in the working folder.

What the environment has already goes before both. Only names are ever shown, never values.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

FILE = ".env"


def read_env(study: Path | None, environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Take over what is not set yet. Returns the names that were."""
    environment = os.environ if environment is None else environment
    taken: list[str] = []
    for file in _files(study):
        for name, value in _values(file).items():
            if name not in environment:
                environment[name] = value
                taken.append(name)
    return taken


def _files(study: Path | None) -> list[Path]:
    folders: list[Path] = []
    if study is not None:
        home = study if study.is_dir() else study.parent
        folders.append(home)
        if (home / "study.db").exists():
            # The results folder of a study: its study file stands two folders above.
            folders.append(home.parent.parent)
    folders.append(Path())
    unique = dict.fromkeys((folder / FILE).resolve() for folder in folders)
    return [file for file in unique if file.is_file()]


def _values(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    return {name: value for name, value in dotenv_values(file).items() if value is not None}
