"""One run as data: `metrics.json`, `costs.json` and `scenario-state.json`, with the keys of Scenario Lab."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.analysis.layout import usd
from trialrun.app.analysis.statistics import Statistics, measured
from trialrun.compat.scenario_lab.log import moment
from trialrun.core.state import TrialState
from trialrun.core.study import Spec
from trialrun.procedures.scenario.world import CHECKER, NARRATOR, World
from trialrun.store.tables import CallAttempt, Measure, Message, State

Data = dict[str, object]
_STATUS: Mapping[str, str] = {
    "planned": "created",
    "done": "completed",
    "failed": "failed",
    "timed_out": "failed",
    "cancelled": "halted",
    "stopped_by_budget": "halted",
    "parked": "paused",
}
_TYPES = {"whole": "integer", "number": "float", "truth": "boolean", "label": "categorical", "text": "string"}
_METHODS = {"pattern": "regex", "keyword": "keyword", "model": "llm", "manual": "manual"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """Everything that the journal has of one run."""

    state: TrialState
    spec: Spec
    world: World
    messages: Sequence[Message]
    states: Sequence[State]
    measures: Sequence[Measure]
    calls: Sequence[CallAttempt]
    is_running: bool
    """Whether a process works on it now."""


def status_of(state: TrialState, *, is_running: bool = False) -> tuple[str, str | None]:
    """The status of a run and, unless it came to its end, the reason."""
    if state.status == "running":
        return ("running", None) if is_running else ("halted", "interrupted")
    reasons = {"the trial budget": "cost_per_run_limit", "the study budget": "budget_limit"}
    reason = reasons.get(state.reason, state.reason or state.waiting_for)
    return _STATUS[state.status], None if state.status == "done" else reason or None


def metrics(run: RunRecord) -> Data:
    """`metrics.json`. What is missing is null, and never 0."""
    turns = sorted({each.turn for each in run.measures if each.turn})
    last = {each.name: each.value for each in run.measures}
    names = dict.fromkeys((*(name for metric in run.world.metrics for name in metric.measures), *last))
    by_name = {name: [each.value for each in run.measures if each.name == name] for name in names}
    return {
        "scenario": run.world.title,
        "metrics_definitions": {
            metric.name: {
                "description": metric.description,
                "type": _TYPES[metric.kind],
                "unit": metric.unit,
                "extraction_method": _METHODS[metric.method],
                "pattern": metric.pattern,
                "actor_specific": bool(metric.actors),
                "direction": metric.better,
            }
            for metric in run.world.metrics
        },
        "metrics_by_turn": {
            str(turn): {each.name: each.value for each in run.measures if each.turn == turn} for turn in turns
        },
        "final_metrics": {name: last.get(name) for name in names},
        "summary_statistics": {
            name: _over_turns(measured(name, values)) for name, values in by_name.items() if values
        },
        "missing": {
            f"turn {each.turn}, {each.name}": each.note for each in run.measures if each.value is None
        },
    }


def _over_turns(each: Statistics) -> Data:
    """Without intervals: the turns of one run are no sample."""
    return {
        "count": each.count,
        "missing": each.missing,
        "mean": each.mean.value,
        "median": each.median,
        "min": each.minimum,
        "max": each.maximum,
        "stdev": each.sd,
    }


def costs(run: RunRecord) -> Data:
    """`costs.json`. What every call cost, also those that failed, were repeated or no longer count."""
    state = run.state
    paid = [call for call in run.calls if call.cost_usd is not None]
    ended = state.ended_at
    return {
        "scenario_execution": {
            "start": moment(state.started_at),
            "end": moment(ended),
            "duration": None if ended is None or state.started_at is None else ended - state.started_at,
        },
        "costs_by_actor": {
            party: _sum(call for call in paid if call.party == party)
            for party in sorted({call.party for call in paid})
        },
        "costs_by_turn": {
            str(turn): _sum(call for call in paid if call.turn == turn)
            for turn in sorted({call.turn for call in paid})
        },
        "world_state_costs": [
            {"turn": call.turn, "model": call.model, "tokens": _tokens(call), "cost_usd": usd(call.cost_usd)}
            for call in paid
            if call.party == NARRATOR and call.purpose.startswith("world update")
        ],
        "totals": {
            "total_tokens": state.tokens_in + state.tokens_out,
            "total_cost_usd": usd(state.spent_usd),
            "calls": state.calls,
            "calls_of_unknown_cost": state.unknown_costs,
            "in_doubt_usd": usd(state.held_usd),
        },
        "validation": _sum(call for call in paid if call.party == CHECKER),
        "total_cost": usd(state.spent_usd),
    }


def _sum(calls: Iterable[CallAttempt]) -> Data:
    listed = list(calls)
    return {
        "calls": len(listed),
        "total_tokens": sum(_tokens(call) for call in listed),
        "total_cost_usd": usd(sum((call.cost_usd or Decimal(0) for call in listed), Decimal(0))),
    }


def _tokens(call: CallAttempt) -> int:
    return (call.tokens_in or 0) + (call.tokens_out or 0)


def scenario_state(run: RunRecord, path: str) -> Data:
    """`scenario-state.json`: how far the run is, and everything that was said and decided in it."""
    state, world = run.state, run.world
    status, reason = status_of(state, is_running=run.is_running)
    told = [each for each in run.messages if each.party == NARRATOR]
    decisions: dict[str, dict[str, object]] = {}
    for each in run.states:
        if "action" in each.values:
            decisions.setdefault(str(each.turn), {})[each.party] = dict(each.values)
    return {
        "scenario_name": world.title,
        "scenario_path": path,
        "status": status,
        "halt_reason": reason,
        "current_turn": state.turns,
        "total_turns": world.turns,
        "completed_turns": sorted({each.turn for each in told}),
        "world_state": {
            "states": {"0": world.opening, **{str(each.turn): each.text for each in told}},
            "actor_decisions": decisions,
        },
        "actors": {
            actor.name: {
                "name": actor.title,
                "short_name": actor.name,
                "llm_model": run.spec.parties[actor.name].model or None,
                "control": "human" if run.spec.parties[actor.name].kind == "human" else "ai",
            }
            for actor in world.actors
        },
        "cost_tracker_state": {
            "total_cost_usd": usd(state.spent_usd),
            "in_doubt_usd": usd(state.held_usd),
            "calls": state.calls,
            "total_tokens": state.tokens_in + state.tokens_out,
        },
        "metrics_tracker_state": {
            "values": [
                {"turn": each.turn, "name": each.name, "value": each.value, "note": each.note}
                for each in run.measures
            ]
        },
        "communication_manager_state": {
            "communications": [
                {
                    "turn": each.turn,
                    "type": "bilateral" if len(each.audience) == 2 else "coalition",
                    "participants": list(each.audience),
                    "sender": each.party,
                    "message": each.text,
                }
                for each in run.messages
                if each.audience
            ]
        },
        "execution_metadata": {
            "trial": state.id,
            "started_at": moment(state.started_at),
            "completed_at": moment(state.ended_at),
            "end_reason": state.end_reason or None,
            "outcome": state.values.get("outcome"),
            "levels": dict(state.levels),
        },
    }
