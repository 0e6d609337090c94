"""From the name of a procedure to the procedure: the built-in ones, and those from files of the user."""

import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

from trialrun.core.errors import UsageError
from trialrun.core.identity import text_hash
from trialrun.core.ports import Procedure
from trialrun.core.reading.catalogue import UNDESCRIBED, ProcedureFacts
from trialrun.engine.trials import Plain

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One procedure: what the study file may say to it, how it is made, and a mark of its code."""

    facts: ProcedureFacts
    make: Callable[[], Procedure]
    fingerprint: str
    material: Callable[[], str] | None = None
    """Mark of the texts that a built-in procedure brings along: a changed prompt is a changed plan."""
    source: str = ""
    """The code, for the archive; empty for the built-in ones, whose version is the package's."""


class _Lazy(Mapping[str, T]):
    """Name → what is made when it is first asked for: a study uses one procedure, and each takes a while to import."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _conversation() -> Kind:
    from trialrun.procedures import conversation

    return Kind(
        facts=conversation.FACTS,
        make=conversation.Conversation,
        fingerprint=f"conversation/{conversation.VERSION}",
    )


def _replies() -> Kind:
    from trialrun.procedures import questions
    from trialrun.procedures.questions import calibration

    return Kind(
        facts=calibration.FACTS,
        make=calibration.Replies,
        fingerprint=f"replies/{calibration.VERSION}",
        material=lambda: text_hash(questions.RUBRIC),
    )


def _questions() -> Kind:
    from trialrun.procedures import questions

    return Kind(
        facts=questions.FACTS,
        make=questions.Questions,
        fingerprint=f"questions/{questions.VERSION}",
        material=lambda: text_hash(questions.RUBRIC),
    )


def _scenario() -> Kind:
    from trialrun.procedures import scenario

    return Kind(facts=scenario.FACTS, make=scenario.Scenario, fingerprint=f"scenario/{scenario.VERSION}")


BUILT_IN: Mapping[str, Kind] = _Lazy(
    {
        "conversation": _conversation,
        "replies": _replies,
        "questions": _questions,
        "scenario": _scenario,
    }
)


class Procedures:
    """The procedures of one study, loaded when first needed."""

    def __init__(
        self, home: Path, given: Mapping[str, Callable[..., Awaitable[object]]] | None = None
    ) -> None:
        self._home = home
        self._given = {
            name: _kind_of(function, _source_of(function)) for name, function in (given or {}).items()
        }
        self._known: Mapping[str, Kind] = _Lazy(
            {
                **{name: partial(BUILT_IN.__getitem__, name) for name in BUILT_IN},
                "therapy": self._therapy,
                **{name: partial(self._given.__getitem__, name) for name in self._given},
            }
        )
        self._from_files: dict[str, Kind] = {}

    @property
    def facts(self) -> Mapping[str, ProcedureFacts]:
        return _Lazy({name: partial(self._facts_of, name) for name in self._known})

    def _facts_of(self, name: str) -> ProcedureFacts:
        return self._known[name].facts

    def kind(self, name: str) -> Kind:
        """The procedure with this name. `./file.py:Name` is read from the study's own folder."""
        if name in self._known:
            return self._known[name]
        if name not in self._from_files:
            if ":" not in name:
                known = ", ".join(sorted(self._known))
                raise UsageError(
                    f"there is no procedure `{name}`",
                    fix=f"use {known}, or `./file.py:Name` for one of your own",
                )
            self._from_files[name] = _from_file(self._home, name)
        return self._from_files[name]

    def make(self, name: str) -> Procedure:
        return self.kind(name).make()

    def fingerprint(self, name: str) -> str:
        kind = self.kind(name)
        return kind.fingerprint if kind.material is None else f"{kind.fingerprint}/{kind.material()}"

    def _therapy(self) -> Kind:
        """The one procedure whose parties may have methods from files of the user."""
        from trialrun.procedures.therapy import prompts
        from trialrun.procedures.therapy import session as therapy

        return Kind(
            facts=therapy.FACTS,
            make=lambda: therapy.Therapy(load=self._method),
            fingerprint=f"therapy/{therapy.VERSION}",
            material=prompts.mark,
        )

    def _method(self, name: str) -> object:
        """What the user's file has under this name: a class with a `speak`."""
        kind = self.kind(name) if ":" in name else None
        return None if kind is None else kind.make


def _from_file(home: Path, name: str) -> Kind:
    file, _, attribute = name.rpartition(":")
    path = (home / file).resolve()
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the procedure file `{file}` cannot be read: {error.strerror}",
            where=str(path),
            fix="give the path from the study file's folder: `procedure: ./my_procedure.py:Name`",
        ) from error
    module = _module(path)
    found = getattr(module, attribute, None)
    if found is None:
        known = [name for name, value in vars(module).items() if _is_procedure(value, module)]
        raise UsageError(
            f"`{file}` has no `{attribute}`",
            where=str(path),
            fix=f"it has {', '.join(known) or 'no procedure at all'}",
        )
    return _kind_of(found, source)


class _AsItStands(SourceFileLoader):
    """Runs what the file says now. Compiled code of before counts as current while size and second of the file are the
    same, and the journal would name a code that did not run."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _module(path: Path) -> ModuleType:
    """The file as a module of its own; its folder is importable, as it is for a script."""
    name = f"trialrun_procedure_{text_hash(str(path))[:12]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsItStands(name, str(path)))
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path.name}` is not a Python file", where=str(path), fix="name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the procedure file cannot be loaded: {type(error).__name__}: {error}",
            where=str(path),
            fix="it must run by itself: `python " + path.name + "`",
        ) from error
    return module


def _kind_of(found: Any, source: str) -> Kind:
    facts = getattr(found, "FACTS", UNDESCRIBED)
    make: Callable[[], Procedure]
    if inspect.isclass(found):
        make = cast(Callable[[], Procedure], found)
    elif inspect.iscoroutinefunction(found):
        make = lambda: Plain(found)  # noqa: E731 - one expression, and it has a type
    else:
        raise UsageError(
            f"`{getattr(found, '__name__', found)}` is no procedure",
            fix="write `async def name(trial, lab)`, or a class with such a method `run`",
        )
    return Kind(facts=facts, make=make, fingerprint=f"file/{text_hash(source)[:16]}", source=source)


def _source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__module__}.{function.__qualname__}"


def _is_procedure(value: object, module: ModuleType) -> bool:
    if getattr(value, "__module__", None) != module.__name__:
        return False
    return inspect.iscoroutinefunction(value) or (inspect.isclass(value) and hasattr(value, "run"))
