"""Whether a plan has already run to its end, read from the sums of its journal instead of trial by trial."""

from collections.abc import Iterable, Mapping, Sequence

from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.ports import Tally
from trialrun.core.state import ENDED


def ended_in(
    plan: Plan, tallies: Sequence[Tally], entries: Iterable[f.Entry]
) -> Mapping[str, Mapping[str, int]] | None:
    """By condition, how its trials ended; None if one of them may be unfinished, and they have to be looked at.

    A count stands for the replicates of the plan only if there never were others: no plan that was in force, by the
    `entries` of the study, had more of them.
    """
    replicates = plan.study.replicates
    found = {
        tally.condition: tally.by_status
        for tally in tallies
        if sum(tally.by_status.values()) == replicates and ENDED.issuperset(tally.by_status)
    }
    # Counted before any condition is named: there may be a million.
    if len(found) < plan.design.count() or any(
        isinstance(entry.fact, f.Declared) and entry.fact.replicates > replicates for entry in entries
    ):
        return None
    ours = [condition.id for condition in plan.design]
    return {id_: found[id_] for id_ in ours} if all(id_ in found for id_ in ours) else None
