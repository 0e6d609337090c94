"""Money that batches hold: who waits for it to make room, and who is told that it will not."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches
from tests.behaviour.support import BASE, make_plan, one_question, states
from trialrun.app.exits import Exit
from trialrun.app.forks import fork
from trialrun.app.live import Live
from trialrun.app.running import Control, Options, Ran, run_study
from trialrun.app.studies import Lane, Plan
from trialrun.core.calls import Call, Usage
from trialrun.core.ports import Lab
from trialrun.core.pricing import most_tokens_in
from trialrun.core.study import Price, Trial
from trialrun.testing.clock import ManualClock
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, ScriptedRoute, foreign

DEAR = "1000"


def committed(plan: Plan) -> Decimal:
    return sum((state.spent_usd + state.held_usd for state in states(plan).values()), Decimal(0))


def stopping_at(number: int, control: Control):
    """A procedure that puts the whole run to rest in its so manieth trial, before anything has left."""
    count = 0

    async def one_more(trial: Trial, lab: Lab) -> dict[str, object]:
        nonlocal count
        count += 1
        if count == number:
            control.interrupt()
        async with lab.next_turn():
            reply = await lab.ask("a", f"Question of replicate {trial.replicate}?")
        return {"answer": reply.text}

    return one_more


async def out_and_short_of_money(tmp_path: Path, route: ScriptedRoute, clock: ManualClock) -> Plan:
    """A study with four calls out in a batch, and a budget that has no room for one more beside them."""
    plan = batch_plan(tmp_path, one_question, budget_usd="100")
    await run_batches(plan, route, clock, Options(detach=True), usd_per_million=DEAR)
    held = committed(plan)
    return make_plan(tmp_path, one_question, replicates=3, budget_usd=str(held * Decimal("1.1")))


async def test_live_calls_use_the_room_that_a_batch_leaves_when_it_comes_back(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=600))
    plan = await out_and_short_of_money(tmp_path, route, clock)
    live = Scripted(answer)
    assert (await run_batches(plan, route, clock, live=live, usd_per_million=DEAR)).exit is Exit.DONE
    assert len(live.sent) == 2


@pytest.mark.parametrize("is_detached", [True, False])
async def test_live_calls_do_not_wait_for_the_money_of_a_batch_that_falls_into_doubt(
    tmp_path: Path, is_detached: bool
):
    clock = jumping()
    takes_s = 80_000 if is_detached else 600
    route = route_of(clock, Course(takes_s=takes_s, change=foreign()))
    plan = await out_and_short_of_money(tmp_path, route, clock)
    live = Scripted(answer)
    async with asyncio.timeout(30):
        ran = await run_batches(
            plan, route, clock, Options(detach=is_detached), live=live, usd_per_million=DEAR
        )
    assert ran.exit is Exit.BUDGET
    assert not live.sent
    cap = plan.study.budget.study_usd
    assert cap is not None
    assert committed(plan) <= cap


async def test_a_person_who_stops_a_run_does_not_wait_for_the_money_of_a_batch(tmp_path: Path):
    clock, control = jumping(), Control()
    route = route_of(clock, Course(takes_s=80_000))
    plan = await out_and_short_of_money(tmp_path, route, clock)
    began = clock.now()

    def stop(_: Live) -> None:
        if clock.now() > began + 10 and not control.was_used:
            control.interrupt()

    async with asyncio.timeout(30):
        ran = await run_batches(plan, route, clock, usd_per_million=DEAR, control=control, watch=stop)
    assert ran.exit is Exit.INTERRUPTED
    assert clock.now() < began + 60


async def test_a_trial_with_a_cap_waits_for_the_room_that_another_of_its_batches_makes(tmp_path: Path):
    clock = jumping()
    a = BASE["parties"]["a"]
    parties = {"a": a, "b": {**a, "model": "x/n"}, "c": a}

    async def all_three(trial: Trial, lab: Lab) -> dict[str, object]:
        replies = await lab.together(*[lambda lab, who=who: lab.ask(who, "?") for who in parties])
        return {"answers": [reply.text for reply in replies]}

    plan = batch_plan(
        tmp_path,
        all_three,
        parties=parties,
        replicates=1,
        budget_usd={"trial": "0.33"},
        batch={"poll_s": 5},
    )
    route = route_of(clock, *[Course(takes_s=100), Course(takes_s=500)] * 2, script="x")
    ran = await run_batches(plan, route, clock, usd_per_million=DEAR)
    assert ran.exit is Exit.DONE
    assert sum(route.billed.values()) == 6


async def test_what_never_left_is_no_part_of_a_trials_cap(tmp_path: Path):
    clock, control = jumping(), Control()
    plan = batch_plan(tmp_path, stopping_at(4, control), budget_usd={"trial": "0.3"})
    route = route_of(clock)
    ran = await run_batches(plan, route, clock, control=control, usd_per_million=DEAR)
    assert ran.exit is Exit.INTERRUPTED
    assert committed(plan) > Decimal("0.6")
    assert not route.batches
    assert (await run_batches(plan, route, clock, usd_per_million=DEAR)).exit is Exit.DONE


def at_its_ceiling(call: Call, text: str) -> Usage:
    return Usage(tokens_in=most_tokens_in(call.request), tokens_out=call.request.max_tokens)


async def test_a_fork_that_never_left_gives_nothing_back_to_a_condition_that_it_is_no_part_of(tmp_path: Path):
    clock = jumping()
    control = Control()
    procedure = stopping_at(3, control)  # the trial is opened twice: to ask, and to hear
    changes = {"factors": {}, "budget_usd": {"condition": "0.5"}}
    route = ScriptedRoute(Scripted(answer, usage=at_its_ceiling), clock=clock)

    async def run(plan: Plan, control: Control | None = None) -> Ran:
        return await run_batches(plan, route, clock, usd_per_million=DEAR, control=control)

    plan = batch_plan(tmp_path, procedure, replicates=1, **changes)
    assert (await run(plan)).exit is Exit.DONE
    await fork(plan, next(iter(states(plan))), turn=1, overrides={"parties.a.temperature": 0.5})
    assert (await run(plan, control)).exit is Exit.INTERRUPTED
    assert committed(plan) > Decimal("0.36"), "the fork holds its call"
    await run(batch_plan(tmp_path, procedure, replicates=5, **changes))
    (fork_state,) = [state for state in states(plan).values() if state.forked_from]
    assert fork_state.status == "done", "it is not forgotten"
    spent = sum(state.spent_usd for state in states(plan).values() if not state.forked_from)
    assert spent <= Decimal("0.5")


class NoPriceOf:
    """A price book in which one model is not."""

    def __init__(self, model: str) -> None:
        self._model = model

    def price_of(self, model: str) -> Price | None:
        return None if model == self._model else Price(input=Decimal(1), output=Decimal(1))

    batch_price_of = price_of


@pytest.mark.parametrize("lane", ["live", "batch"])
async def test_where_there_is_a_budget_a_model_without_a_price_is_not_asked(tmp_path: Path, lane: Lane):
    """The study file does not name it: a procedure does, or a fork."""

    async def helped(trial: Trial, lab: Lab) -> dict[str, object]:
        await lab.ask("a", "Question?")
        return {"said": (await lab.ask("x/helper", "And you?")).text}

    clock, live = jumping(), Scripted(answer)
    route = route_of(clock, script=answer)
    plan = make_plan(tmp_path, helped, lane=lane, budget_usd="1")

    async def run(prices: NoPriceOf) -> Ran:
        return await run_study(
            plan, route=lambda _: live, batch_route=lambda _: route, prices=prices, clock=clock
        )

    ran = await run(NoPriceOf("x/helper"))
    assert ran.exit is Exit.BUDGET
    assert "nobody knows the price of x/helper" in str(ran.stopped_by)
    asked = [*live.calls, *route.provider.calls]
    assert {call.request.model for call in asked} == {"x/m"}
    assert (await run(NoPriceOf("nothing"))).exit is Exit.DONE
    assert len(live.calls) + len(route.provider.calls) == 8, "and goes on where it was"


async def test_bills_above_what_was_held_are_told(tmp_path: Path):
    """Here somebody mends the price list while a batch is out; a provider may also overstep its limit of tokens."""
    clock = jumping()
    route = route_of(clock, Course(takes_s=600))
    plan = batch_plan(tmp_path, one_question, budget_usd="0.8")
    told: list[str] = []
    await run_batches(plan, route, clock, Options(detach=True), usd_per_million=DEAR, tell=told.append)
    assert told == []
    await run_batches(plan, route, clock, usd_per_million="50000", tell=told.append)
    assert committed(plan) > Decimal("0.8"), "it is what was paid"
    assert any("4 bills came above what was held" in line for line in told)
