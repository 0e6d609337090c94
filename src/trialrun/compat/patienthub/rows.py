"""What a batch knows of each of its runs: a finished one as a session, a failed one as the documented row of an error.

Runs come in the order of the batch: clients, therapists, runs. Nothing in a row depends on when or beside what it ran.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from trialrun.app.studies import Plan
from trialrun.compat.patienthub.translation import client_of
from trialrun.core.design import in_file_order
from trialrun.core.identity import trial_id
from trialrun.core.state import TrialState
from trialrun.core.study import Party
from trialrun.procedures.therapy.actors import CLIENT, THERAPIST
from trialrun.store.archive import Archive

Row = dict[str, Any]
SUCCESS, ERROR, UNFINISHED = "success", "error", "unfinished"
_ROLES = (CLIENT, THERAPIST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One run of a batch, and the trial that it is."""

    client: str
    therapist: str
    run_id: int
    trial: str
    party: Party
    """The client's part: whom it plays."""

    @property
    def file(self) -> str:
        return f"{self.client}_{self.therapist}_run{self.run_id}.json"


def places_of(plan: Plan) -> list[Place]:
    """All runs of a batch in its own order. Where a client plays several characters, each run takes the next one."""
    found: list[Place] = []
    cells: dict[tuple[str, str], list[tuple[str, Party]]] = {}
    for condition in in_file_order(plan.study, plan.design):
        names = {name: level.label for name, level in condition.levels.items()}
        party = plan.specs.spec_of(condition).parties[CLIENT]
        pair = client_of(names[CLIENT]), names[THERAPIST]
        cells.setdefault(pair, []).append((condition.id, party))
    for (client, therapist), conditions in sorted(cells.items(), key=lambda item: _order(plan, *item[0])):
        for replicate in range(1, plan.study.replicates + 1):
            for number, (condition, party) in enumerate(conditions):
                found.append(
                    Place(
                        client=client,
                        therapist=therapist,
                        run_id=(replicate - 1) * len(conditions) + number,
                        trial=trial_id(condition, replicate),
                        party=party,
                    )
                )
    return found


def _order(plan: Plan, client: str, therapist: str) -> tuple[int, int]:
    labels = {factor.name: [level.label for level in factor.levels] for factor in plan.study.factors}
    clients = [client_of(label) for label in labels[CLIENT]]
    return clients.index(client), labels[THERAPIST].index(therapist)


def rows_of(
    archive: Archive, places: Sequence[Place], states: Mapping[str, TrialState], lane: str
) -> Iterator[Row]:
    """A row for each of these runs, in their order. Texts are read for those alone that have ended."""
    ended = [place.trial for place in places if place.trial in states and states[place.trial].is_ended]
    said: dict[str, list[Row]] = {}
    for message in archive.messages(ended) if ended else ():
        if message.party in _ROLES:
            one = {"role": message.party, "content": message.text, "turn": message.turn}
            said.setdefault(message.trial, []).append(one)
    hidden: dict[str, list[Row]] = {}
    for state in archive.states(ended) if ended else ():
        one = {"turn": state.turn, "party": state.party, **state.values}
        hidden.setdefault(state.trial, []).append(one)
    paid = _usage(archive, ended) if ended else {}
    for place in places:
        state = states.get(place.trial)
        row = _row(place, state)
        if state is not None and state.is_ended:
            talk = {
                "messages": said.get(place.trial, []),
                "usage": paid[place.trial],
                "states": hidden.get(place.trial, []),
            }
            row = _session(place, state, row, talk) if state.status == "done" else {**row, **talk}
        elif state is not None:
            paid_so_far = None if state.unknown_costs else state.spent_usd
            row["usage"] = {"total_cost": paid_so_far, "in_doubt": state.held_usd}
        yield {**row, "trial": place.trial, "lane": lane}


def _row(place: Place, state: TrialState | None) -> Row:
    status = UNFINISHED
    if state is not None and state.is_ended:
        status = SUCCESS if state.status == "done" else ERROR
    row: Row = {
        "status": status,
        "client": place.client,
        "therapist": place.therapist,
        "run_id": place.run_id,
    }
    if status == ERROR and state is not None:
        row["error"] = state.reason or state.status.replace("_", " ")
    return row


def _session(place: Place, state: TrialState, row: Row, talk: Row) -> Row:
    profile = dict(place.party.character or place.party.values)
    return {
        "profile": profile,
        "messages": talk["messages"],
        "num_turns": state.values.get("turns"),
        "usage": talk["usage"],
        **row,
        "patient_name": str(profile.get("name") or place.client),
        "end_reason": state.end_reason,
        "states": talk["states"],
    }


def _usage(archive: Archive, trials: Sequence[str]) -> dict[str, Row]:
    """Tokens and cost of both sides, helper calls included. A reply whose price nobody knows makes its sum unknown; a
    call that may or may not have been billed is no part of it, and stands beside it at its ceiling."""
    found: dict[str, dict[str, list[Any]]] = {
        trial: {role: [0, 0, Decimal(0)] for role in _ROLES} for trial in trials
    }
    doubts = dict.fromkeys(trials, Decimal(0))
    for call in archive.calls(trials):
        sums = found[call.trial].get(call.party)
        if call.status in ("in_doubt", "open", "waiting"):
            doubts[call.trial] += call.ceiling_usd or Decimal(0)
        elif sums is not None and call.status != "released" and not call.superseded:
            sums[0] += call.tokens_in or 0
            sums[1] += call.tokens_out or 0
            sums[2] = None if sums[2] is None or call.cost_usd is None else sums[2] + call.cost_usd
    return {trial: _shown(sides, doubts[trial]) for trial, sides in found.items()}


def _shown(sides: Mapping[str, Sequence[Any]], doubt: Decimal) -> Row:
    shown: Row = {
        role: {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
            "total_cost": cost,
        }
        for role, (asked, answered, cost) in sides.items()
    }
    costs = [sides[role][2] for role in sides]
    shown["total_cost"] = None if None in costs else sum(costs, Decimal(0))
    return {**shown, "in_doubt": doubt}
