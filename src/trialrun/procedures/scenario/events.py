"""Which exogenous events come in a turn. Pure: chance is drawn by the caller, once for each random event and turn."""

from collections.abc import Mapping, Sequence

from trialrun.procedures.scenario.conditions import all_hold
from trialrun.procedures.scenario.world import Event


def due(
    events: Sequence[Event],
    *,
    turn: int,
    values: Mapping[str, object],
    happened: frozenset[str],
    draws: Mapping[str, float],
) -> list[Event]:
    """The events of this turn. `values` are the latest of the metrics; each random event has a draw from [0, 1)."""
    return [event for event in events if _is_due(event, turn, values, happened, draws)]


def random_ones(events: Sequence[Event]) -> list[str]:
    """The events that need a draw in every turn, in or out of their range, so that no draw depends on another."""
    return [event.id for event in events if event.kind == "random"]


def _is_due(
    event: Event,
    turn: int,
    values: Mapping[str, object],
    happened: frozenset[str],
    draws: Mapping[str, float],
) -> bool:
    if event.kind == "scheduled":
        return turn == event.turn
    if turn < event.first or (event.last is not None and turn > event.last):
        return False
    if event.once and event.id in happened:
        return False
    match event.kind:
        case "trend":
            return (turn - event.first) % event.every == 0
        case "random":
            return draws[event.id] < event.probability
        case "conditional":
            return all_hold(event.conditions, values)
