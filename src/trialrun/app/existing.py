"""The plan that belongs to results that are already there: for verifying them, for branching off their trials, and for
fetching what is out for them."""

from pathlib import Path

from trialrun.app.studies import Lane, Plan, last_declared, load, results_of


def plan_of_results(path: Path, *, lane: Lane | None = None) -> Plan:
    """The plan of a study that ran: the one that its folder keeps, whatever the study file says by now."""
    return load(results_of(path, lane=lane))


def plan_to_collect(path: Path) -> Plan:
    """What the path means, with the flags under which it last ran: a study that was begun with three replicates, or
    under a smaller budget than its file has, is not to grow because somebody fetches its replies."""
    from trialrun.store.archive import Archive

    folder = results_of(path, lane="live")
    with Archive(folder) as archive:
        last = last_declared(archive.facts_of(""))
    flags = last.overrides if last is not None and path.is_file() else {}
    return load(path, lane="batch", overrides=flags)
