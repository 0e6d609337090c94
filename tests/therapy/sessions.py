"""Builds small therapy studies, and a far end that answers by purpose."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.behaviour.support import facts, make_plan, states
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.procedures.therapy.shelf import SHELF
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

CASTS: Mapping[str, str] = {
    "patientPsi": "mara-exam",
    "consistentMI": "anton",
    "eeyore": "margit-moderate",
    "roleplayDoh": "felix",
    "simPatient": "walter",
}
"""A character for each client method that plays one."""
ASIDE: Mapping[str, Any] = {
    "topic": {"topic": "stress"},
    "motive": {"answer": False},
    "item": {"answer": False},
    "principles": {"questions": ["Is it short?"]},
    "check": {"answers": [{"reason": "r", "holds": True}]},
    "levels": {"reason": "r", "control": 5, "efficacy": 5, "awareness": 5, "reward": 5},
    "stage": {"stage": "contemplation"},
    "choose_strategies": {"strategies": ["affirm", "reflect_simple"]},
    "first_topic": {"health": 90, "relationships": 10, "work and money": 10, "self": 10, "society": 10},
    "next_topic": {"move": "stay: health"},
    "selection": {"best": "2"},
    "feedback": {"feedback": "Warmer.", "score": 9},
}
"""What the far end answers to questions beside the talk."""


def client(method: str = "patientPsi", **changes: Any) -> dict[str, Any]:
    """A client of this method with its character as plain data."""
    given: dict[str, Any] = {"model": "x/c", "method": method}
    if method in CASTS:
        given["character"] = dict(SHELF[CASTS[method]])
    return {**given, **changes}


def therapist(method: str = "CBT", **changes: Any) -> dict[str, Any]:
    return {"model": "x/t", "method": method, **changes}


def session(folder: Path, *, one: Any = None, other: Any = None, **changes: Any) -> Plan:
    """A study of one condition: this client, this therapist, three turns unless said otherwise."""
    settings = {"max_turns": 3, **changes.pop("settings", {})}
    document: dict[str, Any] = {
        "procedure": "therapy",
        "parties": {"client": one or client(), "therapist": other or therapist()},
        "factors": {},
        "replicates": 1,
        "settings": settings,
        **changes,
    }
    return make_plan(folder, **document)


def far_end(talk: Callable[[Call], Any] | None = None, **aside: Any) -> Scripted:
    """Says `<party> says <turn>` in the talk, and answers by purpose beside it; `aside` goes before `ASIDE`."""
    return Scripted(answering(talk, **aside))


def answering(talk: Callable[[Call], Any] | None = None, **aside: Any) -> Callable[[Call], Any]:
    """What `far_end` answers with."""
    known = {**ASIDE, **aside}

    def answer(call: Call) -> Any:
        if call.request.schema is None:
            return talk(call) if talk else f"{call.party} says {call.turn}"
        found = known[call.purpose] if call.purpose in known else lowest(call.request.schema)
        found = found(call) if callable(found) else found
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    return answer


def lowest(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The first or lowest value of everything that a schema asks for."""
    return {
        name: wanted["enum"][0] if "enum" in wanted else wanted.get("minimum", "text")
        for name, wanted in schema["properties"].items()
    }


def talk_of(plan: Plan) -> list[tuple[str, str]]:
    with Archive(plan.folder) as archive:
        return [(row.party, row.text) for row in archive.messages()]


def texts(call: Call) -> str:
    return "\n".join(message.text for message in call.request.messages)


def logged(plan: Any, party: str = "client") -> list[dict[str, Any]]:
    (trial,) = [name for name in states(plan) if "-f" not in name]
    return [
        dict(fact.values)
        for fact in facts(plan, trial)
        if isinstance(fact, f.StateLogged) and fact.party == party
    ]
