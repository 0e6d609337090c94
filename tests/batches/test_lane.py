"""Studies through the batch lane: a study goes in; facts, files and an exit code come out."""

from decimal import Decimal
from pathlib import Path

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches, two_turns
from tests.behaviour.support import BASE, facts, make_plan, run, states, tables
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.ports import Lab
from trialrun.core.study import Batching, Trial
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, doubled, foreign, missing, reverse


async def test_dependent_turns_travel_in_waves_and_end_like_a_live_study(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=300)] * 2)
    plan = batch_plan(tmp_path / "batch")
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert [batch.requests for batch in route.batches] == [4, 4], (
        "a wave holds every trial whose call is ready"
    )
    live = make_plan(tmp_path / "live", two_turns)
    await run(live, Scripted(answer))
    assert tables(plan) == tables(live)


async def test_the_lane_writes_down_each_step_before_the_next(tmp_path: Path):
    clock = jumping()
    plan = batch_plan(tmp_path)
    await run_batches(plan, route_of(clock, Course(looks=("queued", "running"))), clock)
    steps = [type(fact).__name__ for fact in facts(plan) if isinstance(fact, p.PackFact)]
    assert steps[:11] == [
        "PackBuilt", "PackIntended", "PackUploaded", "PackIntended", "PackCreated", "PackSeen", "PackSeen",
        "PackSeen", "PackFetched", "PackBalanced", "PackClosed",
    ]  # fmt: skip


async def test_the_body_in_a_pack_is_the_one_that_goes_live(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    await run_batches(batch_plan(tmp_path / "batch"), route, clock)
    live = Scripted(answer)
    await run(make_plan(tmp_path / "live", two_turns), live)
    batched = {(call.call.trial, call.call.address): call.call.request for call in route.provider.sent}
    assert batched == {(call.call.trial, call.call.address): call.call.request for call in live.sent}


async def test_detached_it_ends_when_all_is_handed_in_and_goes_on_later(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=3600)] * 2)
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock, Options(detach=True))
    assert ran.exit is Exit.PARKED
    assert len(route.batches) == 1
    assert {state.status for state in states(plan).values()} == {"parked"}
    early = await run_batches(plan, route, clock, Options(detach=True))
    assert early.exit is Exit.PARKED
    assert len(route.batches) == 1, "nothing is handed in twice"
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_results_in_any_order_find_their_calls(tmp_path: Path):
    clock = jumping()
    plan = batch_plan(tmp_path)
    await run_batches(plan, route_of(clock, *[Course(change=reverse)] * 2), clock)
    for state in states(plan).values():
        assert state.values["first"] == f"answer to {state.id}/1"


async def test_a_result_that_came_twice_is_booked_twice_and_read_once(tmp_path: Path):
    clock = jumping()
    plan = batch_plan(tmp_path / "twice")
    ran = await run_batches(plan, route_of(clock, Course(change=doubled(1))), clock)
    assert ran.exit is Exit.DONE
    charged = [fact for id_ in states(plan) for fact in facts(plan, id_) if isinstance(fact, f.Charged)]
    assert len(charged) == 1
    once = batch_plan(tmp_path / "once")
    await run_batches(once, route_of(clock), clock)
    spent = sum(state.spent_usd for state in states(plan).values())
    assert spent == sum((state.spent_usd for state in states(once).values()), Decimal(0)) + (
        charged[0].cost_usd or 0
    )


async def test_a_line_without_a_result_is_in_doubt_until_a_person_decides(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(change=missing(2)))
    plan = batch_plan(tmp_path)
    told: list[str] = []
    ran = await run_batches(plan, route, clock, tell=told.append)
    assert ran.exit is Exit.PARKED
    assert ran.live.done == 3, "the others are not held up"
    assert any("in doubt" in line for line in told)
    held = [state for state in states(plan).values() if state.held_usd]
    assert [state.status for state in held] == ["parked"]
    again = await run_batches(plan, route, clock)
    assert again.exit is Exit.PARKED, "nobody has decided"
    assert len(route.batches) == 2


async def test_foreign_results_are_not_unpacked_at_all(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(change=foreign()))
    plan = batch_plan(tmp_path)
    told: list[str] = []
    ran = await run_batches(plan, route, clock, tell=told.append)
    assert ran.exit is Exit.PARKED
    assert all(state.calls == 0 for state in states(plan).values())
    assert any("never sent" in line for line in told)


async def test_what_never_ran_goes_into_the_next_pack(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(runs=1))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert max(route.billed.values()) == 1
    assert sum(route.billed.values()) == 8
    released = [fact for id_ in states(plan) for fact in facts(plan, id_) if isinstance(fact, f.Released)]
    assert [fact.error for fact in released] == ["NeverRan"] * 3


async def test_a_budget_holds_for_what_is_out_and_what_waits(tmp_path: Path):
    clock = jumping()
    free = batch_plan(tmp_path / "free")
    await run_batches(free, route_of(clock), clock, usd_per_million="1000")
    spent = sum((state.spent_usd for state in states(free).values()), Decimal(0))
    plan = batch_plan(tmp_path / "capped", budget_usd=str(spent / 2 + Decimal("0.2")))
    route = route_of(clock)
    ran = await run_batches(plan, route, clock, usd_per_million="1000")
    assert ran.exit is Exit.BUDGET
    assert ran.live.spent_usd + ran.live.held_usd <= spent / 2 + Decimal("0.2")
    more = batch_plan(tmp_path / "capped", budget_usd=str(spent * 3))
    ran = await run_batches(more, route, clock, usd_per_million="1000")
    assert ran.exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_past_the_deadline_the_rest_goes_live(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=40_000, cancel_keeps=1))
    plan = batch_plan(tmp_path, batch={"deadline_h": 0.1})
    live = Scripted(answer)
    told: list[str] = []
    ran = await run_batches(plan, route, clock, live=live, tell=told.append)
    assert ran.exit is Exit.DONE
    assert sum(route.billed.values()) == 1
    assert len(live.sent) == 7
    assert any("deadline" in line for line in told)


async def test_a_full_pack_leaves_before_the_others_are_ready(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    plan = batch_plan(tmp_path, replicates=5, batch={"requests": 4})
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert sorted(batch.requests for batch in route.batches) == [2, 2, 4, 4, 4, 4]


async def test_so_many_tokens_wait_at_the_provider_and_no_more(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=100)] * 20)
    plan = batch_plan(tmp_path, replicates=5, batch={"queued_tokens": 60, "poll_s": 5})
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert len(route.batches) > 2
    assert all(
        second.created_at - first.created_at >= 100
        for first, second in zip(route.batches, route.batches[1:], strict=False)
    )


def test_the_settings_of_the_lane_come_from_the_study_file(tmp_path: Path):
    given = {"requests": 9, "queued_tokens": 8, "flush_s": 7, "poll_s": 6, "deadline_h": 2, "then": "wait"}
    plan = batch_plan(tmp_path, batch=given)
    assert plan.study.batching == Batching(
        requests=9, queued_tokens=8, flush_s=7.0, poll_s=6.0, deadline_s=7200.0, then="wait"
    )


async def test_a_reply_that_comes_while_its_trial_is_open_is_not_asked_for_again(tmp_path: Path):
    """One batch is back, and its trial is replayed; before that comes to the other question, so is the other batch."""
    clock = jumping()

    async def both(trial: Trial, lab: Lab) -> dict[str, object]:
        async def quick(lab: Lab) -> str:
            return (await lab.ask("a", "Quick?")).text

        async def slow(lab: Lab) -> str:
            await clock.sleep(60)  # something of the procedure's own, which takes its time in every replay
            return (await lab.ask("b", "Slow?")).text

        return {"said": await lab.together(quick, slow)}

    a = BASE["parties"]["a"]
    plan = batch_plan(tmp_path, both, parties={"a": a, "b": {**a, "model": "x/n"}}, batch={"poll_s": 5})
    route = route_of(clock, Course(takes_s=100), Course(takes_s=130))
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(route.batches) == 2
    assert sum(route.billed.values()) == 8, "two calls of four trials"
