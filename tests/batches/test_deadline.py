"""`--deadline 6h --then live`: after so long, batches are not waited for any more."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches
from tests.batches.test_doubts import packs
from tests.behaviour.support import OnePrice, states
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.core import errors as e
from trialrun.core.ports import Lab
from trialrun.core.study import Batching, Price, Trial
from trialrun.gateway.batches.telling import late_line
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course

LATE = {"deadline_h": 0.1}
"""Six minutes."""


async def five_turns(trial: Trial, lab: Lab) -> dict[str, object]:
    text = f"Question of replicate {trial.replicate}?"
    for _ in range(5):
        async with lab.next_turn():
            reply = await lab.ask("a", text)
            lab.say("a", reply)
            text = f"You said: {reply}. Why?"
    return {"last": text}


async def test_the_waves_of_a_study_share_one_deadline(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=100)] * 10)
    live, began = Scripted(answer), clock.now()
    plan = batch_plan(tmp_path, five_turns, batch=LATE)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert clock.now() - began < 420, "it ends about when the user wanted"
    assert 4 <= sum(route.billed.values()) < 16
    assert sum(route.billed.values()) + len(live.sent) == 20
    assert max(route.billed.values()) == 1


async def test_calls_that_wait_for_room_in_the_queue_go_live_too(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=300)] * 20)
    live = Scripted(answer)
    plan = batch_plan(tmp_path, replicates=5, batch={**LATE, "queued_tokens": 60, "poll_s": 5})
    began = clock.now()
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert clock.now() - began < 700
    assert len(route.batches) <= 2
    assert sum(route.billed.values()) + len(live.sent) == 20
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0


async def test_a_run_that_was_stopped_after_the_deadline_goes_on_live(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000))
    plan = batch_plan(tmp_path, batch=LATE)
    revoked = Scripted(lambda _: e.AuthRefused("not now"))
    assert (await run_batches(plan, route, clock, live=revoked)).exit is Exit.STOPPED
    live = Scripted(answer)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert len(route.batches) == 1, "nothing goes into a batch again"
    assert len(live.sent) == 8


async def test_without_a_deadline_the_next_run_waits_for_batches_again(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000))
    revoked = Scripted(lambda _: e.AuthRefused("not now"))
    await run_batches(batch_plan(tmp_path, batch=LATE), route, clock, live=revoked)
    assert (await run_batches(batch_plan(tmp_path), route, clock)).exit is Exit.DONE
    assert sum(route.billed.values()) == 8


async def test_a_study_that_grows_after_a_late_end_begins_with_batches(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000))
    await run_batches(batch_plan(tmp_path, batch=LATE), route, clock, live=Scripted(answer))
    more = batch_plan(tmp_path, replicates=3, batch=LATE)
    live = Scripted(answer)
    assert (await run_batches(more, route, clock, Options(consent="keep"), live=live)).exit is Exit.DONE
    assert not live.sent
    assert sum(route.billed.values()) == 4


async def test_the_rest_may_be_left_for_a_later_run(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000, cancel_keeps=1))
    live = Scripted(answer)
    plan = batch_plan(tmp_path, batch={**LATE, "then": "wait"})
    told: list[str] = []
    assert (await run_batches(plan, route, clock, live=live, tell=told.append)).exit is Exit.PARKED
    assert len(route.batches) == 1
    assert not live.sent
    assert any("later run" in line for line in told)
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert not live.sent
    assert max(route.billed.values()) == 1


async def test_the_budget_says_how_much_goes_live(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000))
    live = Scripted(answer)
    plan = batch_plan(tmp_path, batch=LATE, budget_usd="0.35")
    ran = await run_batches(plan, route, clock, live=live, usd_per_million="1000")
    assert ran.exit is Exit.BUDGET
    assert ran.live.spent_usd + ran.live.held_usd <= Decimal("0.35")
    more = batch_plan(tmp_path, batch=LATE, budget_usd="100")
    assert (await run_batches(more, route, clock, live=live, usd_per_million="1000")).exit is Exit.DONE
    assert sum(route.billed.values()) + len(live.sent) == 8, "nothing is asked twice"


async def test_a_cancel_that_comes_too_late_keeps_everything_that_is_done(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000, cancel_keeps=None))
    live = Scripted(answer)
    plan = batch_plan(tmp_path, batch=LATE)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert sum(route.billed.values()) == 4
    assert len(live.sent) == 4, "the second wave"


@pytest.mark.parametrize("pause_s", [10.0, 350.0])
async def test_a_run_that_continues_counts_on_from_the_first_batch(tmp_path: Path, pause_s: float):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=200)] * 10)
    plan = batch_plan(tmp_path, five_turns, batch=LATE)
    began = clock.now()
    await run_batches(plan, route, clock, Options(detach=True))
    await clock.advance(pause_s)
    live = Scripted(answer)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert clock.now() - began < 500
    assert max(route.billed.values()) == 1


async def test_what_is_late_is_told_with_what_it_costs_more(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000, cancel_keeps=1))
    plan = batch_plan(tmp_path, batch=LATE)
    told: list[str] = []
    await run_batches(plan, route, clock, live=Scripted(answer), tell=told.append)
    (line,) = [line for line in told if "deadline" in line]
    assert "6 min" in line
    assert "at the live price" in line
    assert packs(plan)[0].stage == "closed"


async def test_a_cancel_that_never_left_is_done_by_the_next_run(tmp_path: Path):
    """The intent is durable before the deed, so it may be all that there is."""
    clock = jumping()
    route = route_of(clock, Course(takes_s=80_000))
    route.fail("cancel", *[e.Unavailable("the provider is away", status=503)] * 120)
    live = Scripted(answer)
    plan = batch_plan(tmp_path, batch=LATE)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.STOPPED
    began = clock.now()
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert clock.now() < began + 60
    assert route.used["cancel"] == 121, "once more, and not at every look"
    assert len(live.sent) == 8


class HalfPrice(OnePrice):
    """Batches cost half."""

    def batch_price_of(self, model: str) -> Price:
        live = self.price_of(model)
        return Price(input=live.input / 2, output=live.output / 2)


@pytest.mark.parametrize(
    ("deadline_h", "usd_per_million", "said"),
    [
        (6, "1000", "the deadline of 6 h has passed"),
        (0.5, "1000", "the deadline of 30 min has passed"),
        (0.001, "1000", "the deadline of 3.6 s has passed"),
        (6, "0.01", "at most 0.0000"),
    ],
)
async def test_the_surcharge_is_stated_however_small_it_is(
    tmp_path: Path, deadline_h: float, usd_per_million: str, said: str
):
    clock = jumping()
    plan = batch_plan(tmp_path)
    prices = HalfPrice(usd_per_million)
    await run_batches(plan, route_of(clock, Course(takes_s=1e9)), clock, Options(detach=True), prices=prices)
    out = packs(plan)
    line = late_line(out, Batching(deadline_s=deadline_h * 3600, then="live"), prices)
    assert said in line
    stated = Decimal(line.rpartition("at most ")[2].removesuffix(" USD more"))
    more = sum((pack.ceiling_usd or Decimal(0) for pack in out), Decimal(0))
    assert more <= stated <= more * Decimal("1.1"), "live costs twice as much: as much again"
