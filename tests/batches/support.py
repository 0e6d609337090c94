"""Studies in the batch lane, with real SQLite, real files of packs, and a batch API in memory."""

from pathlib import Path
from typing import Any

from tests.behaviour.support import Function, OnePrice, make_plan
from trialrun.app.running import Options, Ran, run_study
from trialrun.app.studies import Plan
from trialrun.core.calls import Call
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.testing.clock import ManualClock
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, ScriptedRoute


def answer(call: Call) -> str:
    return f"answer to {call.place}"


async def two_turns(trial: Trial, lab: Lab) -> dict[str, object]:
    """A dependent question: its own first answer is in it."""
    async with lab.next_turn():
        first = await lab.ask("a", f"Question of replicate {trial.replicate}?")
        lab.say("a", first)
    async with lab.next_turn():
        second = await lab.ask("a", f"You said: {first}. Why?")
        lab.say("a", second)
    return {"first": first.text, "second": second.text}


def batch_plan(folder: Path, function: Function = two_turns, **changes: Any) -> Plan:
    return make_plan(folder, function, lane="batch", **changes)


def route_of(clock: ManualClock, *courses: Course, script: Any = answer, **kinds: Any) -> ScriptedRoute:
    return ScriptedRoute(Scripted(script), courses=courses, clock=clock, **kinds)


async def run_batches(
    plan: Plan,
    route: ScriptedRoute,
    clock: ManualClock,
    options: Options | None = None,
    *,
    live: Scripted | None = None,
    usd_per_million: str = "1",
    prices: OnePrice | None = None,
    **parts: Any,
) -> Ran:
    """Run the plan against this batch API; what goes live is answered by `live`."""
    far_end = live or Scripted("live")
    return await run_study(
        plan,
        options,
        route=lambda _: far_end,
        batch_route=lambda _: route,
        prices=prices or OnePrice(usd_per_million),
        clock=clock,
        **parts,
    )


def jumping() -> ManualClock:
    """A clock on which hours pass at once; the moment of grace is for the thread that writes."""
    return ManualClock(auto=True, grace_s=0.001)
