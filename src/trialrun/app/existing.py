"""The plan that belongs to results that are already there: for verifying them, and for branching off their trials."""

from pathlib import Path

from trialrun.app.studies import Lane, Plan, load, results_of


def plan_of_results(path: Path, *, lane: Lane | None = None) -> Plan:
    """The plan of a study that ran: the one that its folder keeps, whatever the study file says by now."""
    return load(results_of(path, lane=lane))
