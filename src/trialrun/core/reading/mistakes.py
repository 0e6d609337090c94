"""Collects all mistakes of a study file, each with its place and its fix."""

from collections.abc import Mapping

from trialrun.core.errors import Mistake, StudyMistakes
from trialrun.core.paths import Path
from trialrun.core.reading.source import Source


class Mistakes:
    """What is wrong so far. A place that a flag gave is reported as that flag, never as a line of the file."""

    def __init__(self, source: Source, flags: Mapping[Path, str]) -> None:
        self.source = source
        self._flags = flags
        self._found: dict[tuple[str, str, int | None], Mistake] = {}
        for mistake in source.mistakes:
            self._keep(mistake)
        self._unread = {mistake.line for mistake in source.mistakes}
        self._grafts: dict[Path, Source] = {}
        self._whole: set[Path] = set()

    def graft(self, path: Path, source: Source, *, is_whole: bool = False) -> None:
        """What stands below this path is in another file: its mistakes are reported there. `is_whole`: so are those
        of the path itself, as nothing but that file says what stands there."""
        self._grafts[path] = source
        if is_whole:
            self._whole.add(path)
        for mistake in source.mistakes:
            self._keep(mistake)

    def add(self, what: str, path: Path, fix: str, *, key: bool = False) -> None:
        """One more mistake at a path of the file; `key` points at the key instead of the value."""
        flag = self._flag_of(path)
        if flag is not None:
            self._keep(Mistake(what=what, file=flag, fix=fix))
            return
        source, inner = self._place_of(path)
        line = source.line_of(inner, key=key)
        if source is self.source and line is not None and line in self._unread:
            return  # what could not be read there is the reason
        self._keep(Mistake(what=what, file=source.file, line=line, source=source.text_of(line), fix=fix))

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Mistake, ...]:
        """In the order of the file; then those of files that it names, then what has no line."""
        own = self.source.file

        def place(mistake: Mistake) -> tuple[bool, bool, int]:
            return mistake.line is None, mistake.file != own, mistake.line or 0

        return tuple(sorted(self._found.values(), key=place))

    def raise_if_any(self) -> None:
        if self._found:
            raise StudyMistakes(self.all())

    def _keep(self, mistake: Mistake) -> None:
        self._found.setdefault((mistake.what, mistake.file, mistake.line), mistake)

    def _place_of(self, path: Path) -> tuple[Source, Path]:
        """The file that holds what stands at this path, and the path inside it."""
        for start, source in self._grafts.items():
            if (len(path) > len(start) or start in self._whole) and path[: len(start)] == start:
                return source, path[len(start) :]
        return self.source, path

    def _flag_of(self, path: Path) -> str | None:
        return next((flag for start, flag in self._flags.items() if path[: len(start)] == start), None)
