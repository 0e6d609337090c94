"""Answers that come early, deeds that break, time limits that a procedure does not want to hear of."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.behaviour.support import make_plan, run, states
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.app.verifying import verify
from trialrun.core.calls import Call
from trialrun.core.errors import KernelBug, StoreError, UsageError
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.engine import trials
from trialrun.testing.scripted import Scripted


async def two_people(trial: Trial, lab: Lab) -> dict[str, object]:
    """Asks two people side by side; a model has its say after the first."""

    async def ann(inner: Lab) -> str:
        said = await inner.ask_human("Ann?", party="ann")
        return str(await inner.ask("a", f"Ann said {said}?"))

    async def bob(inner: Lab) -> str:
        return await inner.ask_human("Bob?", party="bob")

    return {"both": await lab.together(ann, bob)}


async def give(folder: Path, party: str, text: str) -> None:
    """Answer the question to this person as soon as it is open."""
    for _ in range(200):
        with contextlib.suppress(StoreError):
            question = next((each for each in open_questions(folder) if each.party == party), None)
            if question is not None:
                await answer(folder, question, text)
                return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{party} was never asked")


@pytest.mark.parametrize("first", ["ann", "bob"])
async def test_an_answer_that_comes_while_its_trial_is_open_is_neither_lost_nor_opens_it_twice(
    tmp_path: Path, first: str
) -> None:
    plan = make_plan(tmp_path, two_people, factors={}, replicates=1)
    began = asyncio.Event()

    async def slow(call: Call) -> str:
        began.set()
        await asyncio.sleep(1.0)
        return "a word"

    provider = Scripted(slow)

    async def people() -> None:
        await give(plan.folder, first, "yes")
        if first == "ann":
            await began.wait()  # her branch asks the model now, so the trial is open
        await give(plan.folder, "bob" if first == "ann" else "ann", "no")

    async with asyncio.TaskGroup() as group:
        group.create_task(people())
        async with asyncio.timeout(20):
            ran = await run(plan, provider, Options(wait=True))
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 1
    (state,) = states(plan).values()
    assert state.values == {"both": ["a word", "no" if first == "ann" else "yes"]}
    assert ran.live.parked == 0


async def test_an_answer_that_comes_before_the_place_of_its_trial_counts_once(tmp_path: Path) -> None:
    """The engine asks about 500 trials at a time; the last one of 501 is answered while the first is open."""
    is_open = asyncio.Event()

    async def interview(trial: Trial, lab: Lab) -> dict[str, object]:
        said = await lab.ask_human("Well?")
        await lab.ask("a", f"They said {said}.")
        return {"said": said}

    plan = make_plan(tmp_path, interview, factors={}, replicates=501, limits={"open_trials": 1})
    assert (await run(plan)).exit is Exit.PARKED
    questions = {question.trial: question for question in open_questions(plan.folder)}
    in_order = sorted(states(plan).values(), key=lambda state: state.planned)
    first, second, *_, last = [state.id for state in in_order]
    middle = in_order[250].id
    await answer(plan.folder, questions[first], "early")
    await answer(plan.folder, questions[second], "early")

    async def slow(call: Call) -> str:
        if call.trial == first:
            is_open.set()
            await asyncio.sleep(1.5)
        return "noted"

    async def people() -> None:
        await is_open.wait()
        await answer(plan.folder, questions[last], "in between")
        await answer(plan.folder, questions[middle], "in between")

    async with asyncio.TaskGroup() as group:
        group.create_task(people())
        ran = await run(plan, Scripted(slow))
    assert ran.exit is Exit.PARKED
    by_status = [state.status for state in states(plan).values()]
    assert by_status.count("done") == 4
    assert ran.live.done == 4
    assert ran.live.parked == 497


async def test_the_first_of_two_answers_counts(tmp_path: Path) -> None:
    async def interview(trial: Trial, lab: Lab) -> dict[str, object]:
        said = await lab.ask_human("Well?")
        return {"said": said, "again": await lab.ask_human("Sure?")}

    plan = make_plan(tmp_path, interview, factors={}, replicates=1)
    await run(plan)
    (question,) = open_questions(plan.folder)
    await answer(plan.folder, question, "first")
    with pytest.raises(UsageError, match="answered"):
        await answer(plan.folder, question, "second")
    await run(plan)
    (question,) = open_questions(plan.folder)
    await answer(plan.folder, question, "yes")
    assert (await run(plan)).exit is Exit.DONE
    assert [state.values for state in states(plan).values()] == [{"said": "first", "again": "yes"}]


async def test_an_act_that_raised_is_over_and_a_replay_hears_the_same(tmp_path: Path) -> None:
    deeds: list[str] = []

    async def works(trial: Trial, lab: Lab) -> dict[str, object]:
        async def deed() -> str:
            deeds.append("tried")
            raise FileNotFoundError("no such tool")

        try:
            came = await lab.act("build", deed)
        except Exception as error:  # noqa: BLE001 - what a procedure that goes on without the deed does
            came = f"{type(error).__name__}: {error}"
        await lab.ask_human("Go on?")
        return {"came": came}

    plan = make_plan(tmp_path, works, factors={}, replicates=1)
    assert (await run(plan)).exit is Exit.PARKED
    for question in open_questions(plan.folder):
        await answer(plan.folder, question, "yes")
    assert (await run(plan)).exit is Exit.DONE
    (state,) = states(plan).values()
    assert "no such tool" in str(state.values["came"])
    assert deeds == ["tried"]
    assert (await verify(plan)).differences == ()


async def test_a_failed_act_is_tried_again_when_its_trial_is_retried(tmp_path: Path) -> None:
    deeds: list[str] = []

    async def works(trial: Trial, lab: Lab) -> dict[str, object]:
        async def deed() -> str:
            deeds.append("tried")
            if len(deeds) == 1:
                raise OSError("the disk is full")
            return "built"

        return {"came": await lab.act("build", deed)}

    plan = make_plan(tmp_path, works, factors={}, replicates=1)
    assert (await run(plan)).exit is Exit.SOME_FAILED
    (state,) = states(plan).values()
    assert "the disk is full" in state.reason
    assert (await run(plan, options=Options(retry_failed=True))).exit is Exit.DONE
    (state,) = states(plan).values()
    assert state.values == {"came": "built"}
    assert (await verify(plan)).differences == ()


async def test_an_act_that_nobody_can_find_out_about_is_done_again_when_a_person_says_so(
    tmp_path: Path,
) -> None:
    deeds: list[str] = []

    async def works(trial: Trial, lab: Lab) -> dict[str, object]:
        async def deed() -> str:
            deeds.append("tried")
            if len(deeds) == 1:
                raise KernelBug("the machine died here")
            return "built"

        return {"came": await lab.act("build", deed)}

    plan = make_plan(tmp_path, works, factors={}, replicates=1)
    with pytest.raises(KernelBug):
        await run(plan)
    assert (await run(plan)).exit is Exit.SOME_FAILED
    (state,) = states(plan).values()
    assert "--retry-failed" in state.reason
    assert deeds == ["tried"]
    assert (await run(plan, options=Options(retry_failed=True))).exit is Exit.DONE
    assert deeds == ["tried", "tried"]


async def test_a_swallowed_time_limit_of_a_turn_still_ends_the_trial(tmp_path: Path) -> None:
    async def stubborn(trial: Trial, lab: Lab) -> dict[str, object]:
        async with lab.next_turn():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        return {"answer": "made up"}

    plan = make_plan(tmp_path, stubborn, limits={"turn_timeout_s": 0.1})
    assert (await run(plan)).exit is Exit.SOME_FAILED
    assert {state.status for state in states(plan).values()} == {"timed_out"}


async def test_a_procedure_that_ignores_its_end_pays_for_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "GRACE_S", 0.3)

    async def stubborn(trial: Trial, lab: Lab) -> None:
        await lab.ask("a", "Well?")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await lab.ask("a", "One more?")

    plan = make_plan(tmp_path, stubborn, factors={}, replicates=1, limits={"trial_timeout_s": 0.2})
    provider = Scripted("yes")
    assert (await run(plan, provider)).exit is Exit.SOME_FAILED
    assert len(provider.sent) == 1
    assert {state.status for state in states(plan).values()} == {"timed_out"}
