"""Where the judging passes of a study stand: for `status`, and for whoever goes on with them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.judging.passes import declared
from trialrun.core import facts as f
from trialrun.core.rubric import UNANSWERED
from trialrun.core.state import TrialState
from trialrun.store.archive import Archive
from trialrun.store.tables import Rating

_ZERO = Decimal(0)
_FAILED = ("failed", "timed_out", "cancelled")


@dataclass(frozen=True, kw_only=True, slots=True)
class PassRow:
    """One pass."""

    id: str
    rubric: str
    raters: tuple[str, ...]
    repeats: int
    planned: int
    """Every source, by every rater, so often; sources that are done by now, also if they were not then."""
    done: int
    failed: int
    unanswered: int
    """Ratings that were asked for, and perhaps paid, and that no usable answer gave."""
    spent_usd: Decimal
    is_calibration: bool

    @property
    def is_done(self) -> bool:
        return self.done >= self.planned and not self.unanswered


@dataclass(kw_only=True, slots=True)
class _Count:
    done: int = 0
    failed: int = 0
    spent_usd: Decimal = _ZERO


def passes_in(archive: Archive) -> tuple[PassRow, ...]:
    """All passes of the study, in the order in which they began."""
    known = declared(archive.facts_of(""))
    return tuple(_rows(archive, known)) if known else ()


def unanswered_in(archive: Archive) -> list[Rating]:
    """The ratings that count and that no usable answer gave."""
    if all(_is_answered(state) for state in archive.judging()):
        return []
    return [rating for rating in archive.ratings() if rating.missing in UNANSWERED]


def _is_answered(state: TrialState) -> bool:
    """Whether nothing is missing in a finished rating trial but what the rater abstained from."""
    return state.status == "done" and state.values.get("missing") == state.values.get("abstained")


def _rows(archive: Archive, known: Mapping[str, f.Judging]) -> Iterator[PassRow]:
    counts = {id_: _Count() for id_ in known}
    for state in archive.judging():
        count = counts.setdefault(state.judging, _Count())
        count.done += state.status == "done"
        count.failed += state.status in _FAILED
        count.spent_usd += state.spent_usd
    unanswered = Counter(rating.judging for rating in unanswered_in(archive))
    trials = forks = 0
    for state in archive.trials("done"):
        trials += not state.forked_from
        forks += bool(state.forked_from)
    for fact in known.values():
        sources = trials + (forks if fact.forks else 0)
        if fact.labelled:
            sources = len(archive.texts([fact.labelled])[fact.labelled].splitlines())
        count = counts[fact.id]
        yield PassRow(
            id=fact.id,
            rubric=fact.rubric,
            raters=fact.models,
            repeats=fact.repeats,
            planned=sources * len(fact.models) * fact.repeats,
            done=count.done,
            failed=count.failed,
            unanswered=unanswered[fact.id],
            spent_usd=count.spent_usd,
            is_calibration=bool(fact.labelled),
        )
