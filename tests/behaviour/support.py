"""Builds small studies and runs them through the app, with real SQLite and a scripted far end."""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from trialrun.app.running import Options, Ran, run_study
from trialrun.app.studies import Lane, Plan, plan_of
from trialrun.core import facts as f
from trialrun.core.ports import Clock, Lab, Provider
from trialrun.core.state import TrialState
from trialrun.core.study import Price, Trial
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

Function = Callable[[Trial, Lab], Awaitable[object]]
BASE: dict[str, Any] = {
    "study": "small",
    "procedure": "mine",
    "parties": {
        "a": {"model": "x/m", "prompt": "You are {{ mood }}.", "values": {"mood": "calm"}, "max_tokens": 50}
    },
    "factors": {"mood": {"parties.a.values.mood": ["calm", "wild"]}},
    "replicates": 2,
    "seed": 1,
}


class OnePrice:
    """Every model costs the same."""

    def __init__(self, usd_per_million: str = "1") -> None:
        self._price = Price(input=Decimal(usd_per_million), output=Decimal(usd_per_million))

    def price_of(self, model: str) -> Price:
        return self._price

    def batch_price_of(self, model: str) -> Price:
        return self.price_of(model)


async def one_question(trial: Trial, lab: Lab) -> dict[str, object]:
    """The smallest procedure."""
    reply = await lab.ask("a", f"Question of replicate {trial.replicate}?")
    return {"answer": reply.text}


def make_plan(
    folder: Path, function: Function = one_question, *, lane: Lane = "live", **changes: Any
) -> Plan:
    """The base study with some keys changed; `function` is what `mine` means in it."""
    document = {**BASE, **changes}
    return plan_of(
        msgspec.json.encode(document).decode(),
        file="study.yaml",
        home=folder,
        lane=lane,
        folder=None,
        overrides={},
        given={"mine": function},
    )


async def run(
    plan: Plan,
    provider: Provider | None = None,
    options: Options | None = None,
    *,
    clock: Clock | None = None,
    usd_per_million: str = "1",
    **parts: Any,
) -> Ran:
    """Run the plan against this far end."""
    far_end = provider or Scripted(lambda call: f"answer to {call.place}")
    return await run_study(
        plan, options, route=lambda _: far_end, prices=OnePrice(usd_per_million), clock=clock, **parts
    )


def states(plan: Plan) -> dict[str, TrialState]:
    with Archive(plan.folder) as archive:
        return {state.id: state for state in archive.trials()}


def facts(plan: Plan, trial: str = "") -> list[f.Fact]:
    with Archive(plan.folder) as archive:
        return [entry.fact for entry in archive.facts_of(trial)]


def tables(plan: Plan) -> Mapping[str, object]:
    """Results without times and without the accidental order of execution."""
    with Archive(plan.folder) as archive:
        return {
            "trials": {
                s.id: (s.status, s.values, s.end_reason, s.turns, s.spent_usd) for s in archive.trials()
            },
            "messages": sorted((row.trial, row.number, row.party, row.text) for row in archive.messages()),
            "measures": sorted((row.trial, row.at, row.name, repr(row.value)) for row in archive.measures()),
        }
