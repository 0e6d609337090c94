"""Writes a study, or a procedure with a study that uses it, for a user to start from. Never over an existing file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trialrun.core.errors import UsageError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaffold:
    """What was written."""

    files: tuple[Path, ...]
    study: Path
    """The study file: what to run."""


def new_study(name: str, templates: Mapping[str, str], *, into: Path) -> Scaffold:
    """A folder with a commented study and its prompts. `templates`: path below the folder → text."""
    _check(name)
    folder = into / name
    texts = {folder / path: _filled(text, NAME=name, PATH=f"{name}/") for path, text in templates.items()}
    return Scaffold(files=_written(texts), study=folder / "study.yaml")


def new_procedure(name: str, *, code: str, study: str, into: Path) -> Scaffold:
    """A Python file with a procedure, and a study file beside it that uses it."""
    _check(name)
    file = name.replace("-", "_")
    words = re.split(r"[_-]+", name)
    class_name = "".join(word[:1].upper() + word[1:] for word in words)
    marks = {"NAME": name, "FILE": file, "CLASS": class_name}
    texts = {into / f"{file}.py": _filled(code, **marks), into / f"{file}.yaml": _filled(study, **marks)}
    return Scaffold(files=_written(texts), study=into / f"{file}.yaml")


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot be a name",
            fix="begin with a letter; use letters, digits, _ and -, at most 40 of them",
        )


def _filled(text: str, **marks: str) -> str:
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return text


def _written(texts: Mapping[Path, str]) -> tuple[Path, ...]:
    """All of them, or none: a half-written start is worse than an error."""
    there = [path for path in texts if path.exists()]
    if there:
        named = next((path for path in there if path.suffix == ".yaml"), there[0])
        raise UsageError(
            f"`{named}` is there already", where=str(named), fix="choose another name, or remove it"
        )
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot write `{path}`: {error.strerror}", fix="choose another folder with `--in`"
            ) from error
    return tuple(texts)
