"""What a procedure may do, what it gets back, and what happens when it misbehaves."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.behaviour.support import facts, make_plan, run, states, tables
from trialrun.app.exits import Exit
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.errors import BreakerOpen, CallTimedOut, KernelBug, RequestRefused, Unavailable
from trialrun.core.ports import Lab, Outcome
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.testing.clock import ManualClock
from trialrun.testing.scripted import Scripted


async def test_every_trial_ends_with_its_own_outcome(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    ran = await run(
        plan, Scripted(lambda call: f"{call.request.messages[0].text} {call.request.messages[1].text}")
    )
    answers = sorted(str(state.values["answer"]) for state in states(plan).values())
    assert ran.exit is Exit.DONE
    assert answers == [
        "You are calm. Question of replicate 1?",
        "You are calm. Question of replicate 2?",
        "You are wild. Question of replicate 1?",
        "You are wild. Question of replicate 2?",
    ]


async def test_replicates_that_ask_the_same_question_are_asked_separately(tmp_path: Path) -> None:
    async def same(trial: Trial, lab: Lab) -> dict[str, object]:
        return {"answer": str(await lab.ask("a", "The same question?"))}

    provider = Scripted([f"answer {number}" for number in range(8)])
    plan = make_plan(tmp_path, same, replicates=4)
    await run(plan, provider)
    assert len(provider.sent) == 8
    assert len({state.values["answer"] for state in states(plan).values()}) == 8


async def test_an_intent_is_durable_before_it_leaves_and_a_reply_before_it_is_used(tmp_path: Path) -> None:
    """L2, G1, seen by another reader of the file at the moments that count."""

    def attempts_of(trial: str) -> list[str]:
        with Archive(plan.folder) as archive:
            return [call.status for call in archive.calls() if call.trial == trial]

    async def suspicious(trial: Trial, lab: Lab) -> None:
        for number in range(1, 4):
            await lab.ask("a", f"Question {number}?")
            assert attempts_of(trial.id) == ["settled"] * number

    def answer(call: Call) -> str:
        assert attempts_of(call.trial)[-1] == "open"
        return "yes"

    plan = make_plan(tmp_path, suspicious)
    assert (await run(plan, Scripted(answer))).exit is Exit.DONE


async def test_positions_of_parallel_asks_do_not_depend_on_timing(tmp_path: Path) -> None:
    async def debate(trial: Trial, lab: Lab) -> Outcome:
        async def speaker(inner: Lab) -> str:
            first = await inner.ask("a", "First?")
            second = await inner.ask("a", f"Second, after {first}?")
            return f"{inner.random('dice').randrange(1000)} {second}"

        answers = await lab.together(*[speaker] * 5)
        for answer in answers:
            lab.say("a", answer)
        return Outcome(values={"answers": answers})

    def far_end(seed: int) -> Scripted:
        dice = random.Random(seed)

        async def slow(call: Call) -> str:
            await asyncio.sleep(dice.random() / 50)
            return f"answer to {call.address}"

        return Scripted(slow)

    one, other = make_plan(tmp_path / "one", debate), make_plan(tmp_path / "other", debate)
    await run(one, far_end(1))
    await run(other, far_end(2))
    assert tables(one) == tables(other)


async def test_branches_hear_each_other_only_when_all_have_spoken(tmp_path: Path) -> None:
    async def council(trial: Trial, lab: Lab) -> dict[str, object]:
        lab.say("chair", "Speak!")

        def member(name: str) -> Callable[[Lab], Awaitable[list[str]]]:
            async def speak(inner: Lab) -> list[str]:
                inner.say(name, await inner.ask("a", f"{name}, speak up?"))
                inner.say(name, "And that is all.")
                return [said.party for said in inner.transcript]

            return speak

        heard = await lab.together(member("ann"), member("bob"))
        return {"heard": heard, "after": [said.party for said in lab.transcript]}

    dice = random.Random(3)

    async def slow(call: Call) -> str:
        await asyncio.sleep(dice.random() / 50)
        return "words"

    plan = make_plan(tmp_path, council, replicates=5)
    await run(plan, Scripted(slow))
    for state in states(plan).values():
        assert state.values["heard"] == [["chair", "ann", "ann"], ["chair", "bob", "bob"]]
        assert state.values["after"] == ["chair", "ann", "ann", "bob", "bob"]
    with Archive(plan.folder) as archive:
        spoken: dict[str, list[str]] = {}
        for row in archive.messages():
            spoken.setdefault(row.trial, []).append(row.party)
    assert all(parties == ["chair", "ann", "ann", "bob", "bob"] for parties in spoken.values())


async def test_branches_draw_chance_of_their_own(tmp_path: Path) -> None:
    async def drawing(trial: Trial, lab: Lab) -> dict[str, object]:
        async def draw(branch: Lab) -> float:
            return branch.random("dice").random()

        return {"drawn": [await draw(lab), *await lab.together(draw, draw), await draw(lab)]}

    plan = make_plan(tmp_path, drawing, factors={}, replicates=3)
    await run(plan)
    drawn = [draw for state in states(plan).values() for draw in state.values["drawn"]]  # pyright: ignore[reportGeneralTypeIssues]
    assert len(set(drawn)) == 12, "no two of them are the same draw"


async def test_a_retried_trial_keeps_its_paid_calls_and_goes_on(tmp_path: Path) -> None:
    is_mended = False

    async def fragile(trial: Trial, lab: Lab) -> dict[str, object]:
        reply = await lab.ask("a", "Well?")
        if not is_mended:
            raise ValueError("not yet")
        return {"answer": reply.text}

    from trialrun.app.running import Options

    plan = make_plan(tmp_path, fragile)
    assert (await run(plan)).exit is Exit.SOME_FAILED
    is_mended = True
    provider = Scripted("never asked")
    assert (await run(plan, provider)).exit is Exit.SOME_FAILED, "a failed trial is not taken up by itself"
    ran = await run(plan, provider, Options(retry_failed=True))
    assert ran.exit is Exit.DONE
    assert not provider.sent


async def test_a_call_that_failed_for_good_is_asked_again_only_when_the_trial_is_retried(
    tmp_path: Path,
) -> None:
    from trialrun.app.running import Options

    plan = make_plan(tmp_path, replicates=1, limits={"call_attempts": 1})
    assert (await run(plan, Scripted(lambda _: RequestRefused("no", status=400)))).exit is Exit.SOME_FAILED
    provider = Scripted("yes")
    assert (await run(plan, provider, Options(retry_failed=True))).exit is Exit.DONE
    assert sorted(sent.attempt for sent in provider.sent) == [2, 2]


async def test_asks_from_foreign_tasks_are_refused_with_the_way_to_do_it(tmp_path: Path) -> None:
    async def gathers(trial: Trial, lab: Lab) -> None:
        await asyncio.gather(lab.ask("a", "one?"), lab.ask("a", "two?"))  # noqa: TID251 - the misbehaviour

    plan = make_plan(tmp_path, gathers, replicates=1)
    await run(plan)
    reasons = {state.reason for state in states(plan).values()}
    assert len(reasons) == 1
    assert "lab.together" in reasons.pop()


async def test_a_trial_that_does_something_else_on_replay_is_reported_with_what_changed(
    tmp_path: Path,
) -> None:
    mood = "first"

    async def drifts(trial: Trial, lab: Lab) -> None:
        await lab.ask("a", f"In the {mood} process?")
        await lab.ask_human("Go on?")

    plan = make_plan(tmp_path, drifts, replicates=1)
    assert (await run(plan)).exit is Exit.PARKED
    mood = "second"
    await answer_all(plan.folder, "yes")
    provider = Scripted("never asked")
    assert (await run(plan, provider)).exit is Exit.SOME_FAILED
    assert not provider.sent, (
        "a different question is never answered from the record, and never paid for in silence"
    )
    reasons = {state.reason for state in states(plan).values()}
    assert all("message 2 (user) has another text" in reason for reason in reasons)


async def test_a_human_question_parks_the_trial_until_the_answer_comes(tmp_path: Path) -> None:
    async def interview(trial: Trial, lab: Lab) -> dict[str, object]:
        opinion = await lab.ask("a", "What do you think?")
        verdict = await lab.ask_human(f"Is this fine: {opinion}?", options=("yes", "no"))
        closing = await lab.ask("a", f"A person said {verdict}. Reply?")
        return {"verdict": verdict, "closing": closing.text}

    plan = make_plan(tmp_path, interview)
    provider = Scripted(lambda call: f"reply {call.address}")
    ran = await run(plan, provider)
    assert ran.exit is Exit.PARKED
    assert {state.status for state in states(plan).values()} == {"parked"}
    assert len(provider.sent) == 4

    await answer_all(plan.folder, "yes")
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 8, "the first questions were answered from the journal"
    assert all(state.values["verdict"] == "yes" for state in states(plan).values())


async def answer_all(folder: Path, text: str) -> None:
    from trialrun.app.answers import answer, open_questions

    for question in open_questions(folder):
        await answer(folder, question, text)


async def test_an_act_happens_once_and_its_result_is_remembered(tmp_path: Path) -> None:
    deeds: list[str] = []

    async def works(trial: Trial, lab: Lab) -> dict[str, object]:
        async def deed() -> dict[str, int]:
            deeds.append(trial.id)
            return {"lines": 3}

        done = await lab.act("write", deed)
        await lab.ask_human("Look at it?")
        again = await lab.act("write more", deed)
        return {"lines": done["lines"] + again["lines"]}

    plan = make_plan(tmp_path, works, replicates=1)
    await run(plan)
    assert len(deeds) == 2
    await answer_all(plan.folder, "good")
    assert (await run(plan)).exit is Exit.DONE
    assert len(deeds) == 4
    assert all(state.values == {"lines": 6} for state in states(plan).values())


async def test_an_act_cut_off_in_the_middle_is_found_out_and_not_done_again(tmp_path: Path) -> None:
    deeds: list[str] = []

    async def works(trial: Trial, lab: Lab) -> dict[str, object]:
        async def deed() -> str:
            deeds.append("began")
            raise KernelBug("the machine died here")

        async def recover() -> str:
            return "found finished"

        return {"result": await lab.act("risky", deed, recover=recover)}

    plan = make_plan(tmp_path, works, replicates=1, factors={})
    with pytest.raises(KernelBug):
        await run(plan)
    assert (await run(plan)).exit is Exit.DONE
    assert deeds == ["began"]
    assert [state.values for state in states(plan).values()] == [{"result": "found finished"}]


async def test_a_swallowed_stop_does_not_turn_into_a_result(tmp_path: Path) -> None:
    async def swallows(trial: Trial, lab: Lab) -> dict[str, object]:
        with contextlib.suppress(Exception):
            await lab.ask("a", "Expensive?")
        return {"answer": "made up"}

    plan = make_plan(tmp_path, swallows, budget_usd="0.00001")
    ran = await run(plan)
    assert ran.exit is Exit.BUDGET
    assert not any(state.status == "done" for state in states(plan).values())


async def test_equal_failures_in_a_row_stop_the_study(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, replicates=20, limits={"identical_failures": 5, "open_trials": 1})
    provider = Scripted(lambda _: RequestRefused("this model takes no temperature", status=400))
    ran = await run(plan, provider)
    assert ran.exit is Exit.STOPPED
    assert isinstance(ran.stopped_by, BreakerOpen)
    assert len(provider.sent) == 5


async def test_failures_between_successes_do_not_stop_the_study(tmp_path: Path) -> None:
    count = 0

    def flaky(call: Call) -> str | Exception:
        nonlocal count
        count += 1
        return RequestRefused("now and then", status=400) if count % 3 == 0 else "fine"

    plan = make_plan(tmp_path, replicates=20, limits={"identical_failures": 3, "open_trials": 1})
    ran = await run(plan, Scripted(flaky))
    assert ran.exit is Exit.SOME_FAILED
    assert sum(state.status == "done" for state in states(plan).values()) == 27


async def test_attempts_are_recorded_and_a_doubt_keeps_its_hold(tmp_path: Path) -> None:
    script = [Unavailable("broken", status=500), CallTimedOut("no reply in time"), "at last"]
    plan = make_plan(tmp_path, factors={}, replicates=1)
    clock = ManualClock(auto=True, grace_s=0.002)
    ran = await run(plan, Scripted(script), clock=clock)
    assert ran.exit is Exit.DONE
    (state,) = states(plan).values()
    kinds = [f.tag_of(fact) for fact in facts(plan, state.id)]
    assert kinds == ["started", "held", "released", "held", "doubted", "held", "settled", "finished"]
    assert state.held_usd > 0
    assert ran.live.held_usd == state.held_usd


async def test_a_clock_that_jumps_changes_nothing_but_the_written_times(tmp_path: Path) -> None:
    class Jumping(ManualClock):
        jumps = 0

        def now(self) -> float:
            self.jumps += 1
            return super().now() + (-(10.0**6) if self.jumps % 2 else 10.0**6)

    plan, calm = make_plan(tmp_path / "jumping"), make_plan(tmp_path / "calm")
    ran = await run(plan, clock=Jumping(auto=True, grace_s=0.002))
    await run(calm)
    assert ran.exit is Exit.DONE
    assert tables(plan) == tables(calm)
