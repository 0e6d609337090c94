"""A kind of file beside the study file: its text → its entry, with every mistake at once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from trialrun.core.errors import StudyMistakes
from trialrun.core.paths import as_map
from trialrun.core.reading.document import Entry, Layout
from trialrun.core.reading.explain import objections
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.objection import Objection
from trialrun.core.reading.source import Source, read_source

E = TypeVar("E", bound=Entry)
Prepare = Callable[[Mapping[str, object], Mistakes], Mapping[str, object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileKind(Generic[E]):
    """What a file of this kind may say, and what contradicts itself in one."""

    model: type[E]
    layout: Layout
    whole: str
    """The file in the words of a mistake, with its article: `a rubric`."""
    noun: str
    """What it describes: `rubric`."""
    begin: str
    """The fix for an empty file."""
    contradictions: Callable[[E], Iterator[Objection]]

    def read(self, text: str, *, file: str, prepare: Prepare) -> tuple[E, Source, Mistakes]:
        """The entry. `prepare` makes the document that is checked out of the one that was written; what the entry
        means elsewhere, the caller adds to the mistakes."""
        source = read_source(text, file=file)
        mistakes = Mistakes(source, {})
        document = as_map(source.data) or {}
        if not document and not source.mistakes:
            mistakes.add(f"this is no {self.noun}", (), f"begin with {self.begin}")
        mistakes.raise_if_any()
        entry, found = self.check(prepare(document, mistakes))
        if entry is not None:
            found = list(self.contradictions(entry))
        for each in found:
            mistakes.add(each.what, each.path, each.fix, key=each.at_key)
        if entry is None or mistakes:
            raise StudyMistakes(mistakes.all())
        return entry, source, mistakes

    def check(self, document: Mapping[str, object]) -> tuple[E | None, list[Objection]]:
        """The entry of a document that has no file, or what is wrong with its keys and values."""
        return objections(self.model, document, layout=self.layout, whole=self.whole)
