"""Where the judging passes of a study stand: for `status`, and for whoever goes on with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.judging.passes import declared
from trialrun.core import facts as f
from trialrun.store.archive import Archive

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
    spent_usd: Decimal
    is_calibration: bool

    @property
    def is_done(self) -> bool:
        return self.done >= self.planned


@dataclass(kw_only=True, slots=True)
class _Count:
    done: int = 0
    failed: int = 0
    spent_usd: Decimal = _ZERO


def passes_in(archive: Archive) -> tuple[PassRow, ...]:
    """All passes of the study, in the order in which they began."""
    known = declared(archive.facts_of(""))
    return tuple(_rows(archive, known)) if known else ()


def _rows(archive: Archive, known: Mapping[str, f.Judging]) -> Iterator[PassRow]:
    counts = {id_: _Count() for id_ in known}
    for state in archive.judging():
        count = counts.setdefault(state.judging, _Count())
        count.done += state.status == "done"
        count.failed += state.status in _FAILED
        count.spent_usd += state.spent_usd
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
            spent_usd=count.spent_usd,
            is_calibration=bool(fact.labelled),
        )
