"""Collects all mistakes of a study file, each with its place and its fix."""

from collections.abc import Mapping

from trialrun.core.errors import Mistake, StudyMistakes
from trialrun.core.paths import Path
from trialrun.core.source import Source

_FLAGS = {"replicates": "--replicates", "budget_usd": "--budget"}


class Mistakes:
    """What is wrong so far. A place that a flag gave is reported as that flag, never as a line of the file."""

    def __init__(self, source: Source, flags: Mapping[Path, str]) -> None:
        self.source = source
        self._flags = flags
        self._found: dict[tuple[str, str, int | None], Mistake] = {}
        for mistake in source.mistakes:
            self._keep(mistake)
        self._unread = {mistake.line for mistake in source.mistakes}

    def add(self, what: str, path: Path, fix: str, *, key: bool = False) -> None:
        """One more mistake at a path of the file; `key` points at the key instead of the value."""
        flag = self._flag_of(path)
        if flag is not None:
            self._keep(Mistake(what=what, file=flag, fix=fix))
            return
        line = self.source.line_of(path, key=key)
        if line is not None and line in self._unread:
            return  # what could not be read there is the reason
        self._keep(
            Mistake(what=what, file=self.source.file, line=line, source=self.source.text_of(line), fix=fix)
        )

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Mistake, ...]:
        """In the order of the file; what has no line comes last."""
        return tuple(
            sorted(self._found.values(), key=lambda mistake: (mistake.line is None, mistake.line or 0))
        )

    def raise_if_any(self) -> None:
        if self._found:
            raise StudyMistakes(self.all())

    def _keep(self, mistake: Mistake) -> None:
        self._found.setdefault((mistake.what, mistake.file, mistake.line), mistake)

    def _flag_of(self, path: Path) -> str | None:
        return next((flag for start, flag in self._flags.items() if path[: len(start)] == start), None)


def flag_text(dotted: str, value: object) -> str:
    """The flag as the user may have typed it."""
    return f"{_FLAGS[dotted]} {value}" if dotted in _FLAGS else f"--set {dotted}={value}"
