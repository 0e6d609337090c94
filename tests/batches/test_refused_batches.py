"""Batches and lines that a provider refuses, for now or for good, and what becomes of their trials."""

from decimal import Decimal
from pathlib import Path

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches
from tests.behaviour.support import states
from trialrun.app.exits import Exit
from trialrun.core import errors as e
from trialrun.testing.scripted_batches import Course


async def test_a_batch_refused_as_a_whole_stops_the_study_and_costs_nothing(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(end="failed", problems=("the model does not take batches",)))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.STOPPED
    assert ran.stopped_by is not None
    assert "does not take batches" in ran.stopped_by.what
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE, "the next run tries again"


async def test_lines_that_the_provider_names_fail_and_the_others_go_again(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(end="failed", problems=("line 2: the prompt is too long",)))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.SOME_FAILED
    assert (ran.live.done, ran.live.failed) == (3, 1)
    failed = [state for state in states(plan).values() if state.status == "failed"]
    assert "too long" in failed[0].reason


async def test_a_full_queue_at_the_provider_is_waited_for(tmp_path: Path):
    clock = jumping()
    full = Course(end="failed", problems=("Enqueued token limit reached for this model",))
    route = route_of(clock, full, full)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert route.used["upload"] == 2, "the same file is handed in again"


async def test_requests_refused_in_a_line_fail_their_trials_and_no_others(tmp_path: Path):
    clock = jumping()
    refused = e.RequestRefused("the body is wrong", status=400)
    route = route_of(clock, script=lambda call: refused if "-r1" in call.trial else answer(call))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.SOME_FAILED
    assert (ran.live.done, ran.live.failed) == (2, 2)
    assert len(route.batches) == 2


async def test_rate_and_overload_in_a_line_go_into_the_next_pack(tmp_path: Path):
    clock = jumping()
    left = {"calm": 1, "wild": 2}

    def stumbling(call: object) -> object:
        name = call.trial.split("-")[0]  # pyright: ignore[reportAttributeAccessIssue]
        if left[name]:
            left[name] -= 1
            return e.Throttled("later") if name == "calm" else e.Unavailable("overloaded", status=529)
        return "answer"

    route = route_of(clock, script=stumbling)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_a_call_that_always_fails_is_given_up(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, script=lambda call: e.Throttled("later"))
    plan = batch_plan(tmp_path, limits={"call_attempts": 3, "identical_failures": 50})
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.SOME_FAILED
    assert len(route.batches) == 3


async def test_a_spend_limit_in_a_line_stops_the_study_after_everything_else_is_settled(tmp_path: Path):
    clock = jumping()
    quota = e.QuotaExhausted("the organisation is on hold")
    route = route_of(clock, script=lambda call: quota if "-r1" in call.trial else answer(call))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.STOPPED
    assert sum(state.calls for state in states(plan).values()) == 2


async def test_a_provider_that_is_away_is_asked_again(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("look", e.Throttled("slow down", retry_after_s=7), *[e.Unavailable("503")] * 8)
    route.fail("upload", e.CallTimedOut("late"))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(route.batches) == 2


async def test_a_revoked_key_between_creation_and_look_stops_the_run_and_loses_nothing(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("look", e.AuthRefused("revoked"))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.STOPPED
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_a_creation_that_the_provider_refuses_stops_the_run_with_the_fix(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("create", e.RequestRefused("this model has no batches", status=400))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.STOPPED
    assert ran.stopped_by is not None
    assert "--lane live" in ran.stopped_by.fix
