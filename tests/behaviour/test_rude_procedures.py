"""What happens to a study when a procedure raises, exits, hangs, swallows its end or blocks everything."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.behaviour.support import make_plan, run, states
from trialrun.app import watchdog
from trialrun.app.exits import Exit
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.engine import trials

QUICK = {"trial_timeout_s": 0.3}


class Rude(BaseException):
    """What a library raises that means to be caught by nobody."""


async def test_a_raising_procedure_fails_its_own_trial_and_no_other(tmp_path: Path) -> None:
    async def fragile(trial: Trial, lab: Lab) -> dict[str, object]:
        await lab.ask("a", "Well?")
        if trial.condition["mood"] == "wild":
            raise ValueError("too wild")
        return {"fine": True}

    plan = make_plan(tmp_path, fragile)
    ran = await run(plan)
    by_status = sorted((state.status, state.levels["mood"]) for state in states(plan).values())
    assert by_status == [("done", "calm")] * 2 + [("failed", "wild")] * 2
    assert ran.exit is Exit.SOME_FAILED
    failed = next(state for state in states(plan).values() if state.status == "failed")
    assert failed.boundary == "procedure"
    assert "ValueError: too wild at test_rude_procedures.py:" in failed.reason
    assert failed.spent_usd > 0, "what the failed trial paid for is counted"


@pytest.mark.parametrize(
    "error", [SystemExit(0), GeneratorExit(), Rude("go away")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("place", ["procedure", "branch", "act"])
async def test_a_procedure_that_wants_to_end_the_program_fails_its_own_trial_and_no_other(
    tmp_path: Path, error: BaseException, place: str
) -> None:
    async def leave(*_: object) -> None:
        raise error

    async def rude(trial: Trial, lab: Lab) -> dict[str, object]:
        await lab.ask("a", "Well?")
        if trial.condition["mood"] == "wild":
            match place:
                case "procedure":
                    await leave()
                case "branch":
                    await lab.together(leave, lambda branch: branch.ask("a", "And you?"))
                case _:
                    await lab.act("leave", leave)
        return {"fine": True}

    plan = make_plan(tmp_path, rude)
    ran = await run(plan)
    assert ran.exit is Exit.SOME_FAILED
    by_status = sorted((state.status, state.levels["mood"]) for state in states(plan).values())
    assert by_status == [("done", "calm")] * 2 + [("failed", "wild")] * 2
    failed = next(state for state in states(plan).values() if state.status == "failed")
    assert type(error).__name__ in failed.reason
    assert "test_rude_procedures.py:" in failed.reason


async def test_a_hanging_procedure_is_timed_out(tmp_path: Path) -> None:
    async def hangs(trial: Trial, lab: Lab) -> None:
        await lab.ask("a", "Well?")
        if trial.condition["mood"] == "wild":
            await asyncio.sleep(3600)

    plan = make_plan(tmp_path, hangs, limits=QUICK)
    ran = await run(plan)
    by_status = sorted(state.status for state in states(plan).values())
    assert by_status == ["done", "done", "timed_out", "timed_out"]
    assert ran.exit is Exit.SOME_FAILED


async def test_a_procedure_that_swallows_cancellation_is_named_and_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "GRACE_S", 0.1)
    release = asyncio.Event()
    after: list[BaseException] = []

    async def stubborn(trial: Trial, lab: Lab) -> None:
        await lab.ask("a", "Well?")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        try:
            lab.say("a", "too late")
        except BaseException as error:
            after.append(error)
            raise

    plan = make_plan(tmp_path, stubborn, replicates=1, limits=QUICK)
    ran = await run(plan)
    assert ran.exit is Exit.SOME_FAILED
    assert all("did not stop within" in state.reason for state in states(plan).values())
    release.set()
    await asyncio.sleep(0.05)
    assert [type(error).__name__ for error in after] == ["Drained", "Drained"], "its lab is closed to it"


async def test_a_turn_has_its_own_time_limit(tmp_path: Path) -> None:
    async def slow_turn(trial: Trial, lab: Lab) -> None:
        async with lab.next_turn():
            await lab.ask("a", "Quick?")
        async with lab.next_turn():
            await asyncio.sleep(3600)

    plan = make_plan(tmp_path, slow_turn, limits={"turn_timeout_s": 0.1})
    await run(plan)
    assert all(state.status == "timed_out" for state in states(plan).values())
    assert all("turn 2 took longer than 0.1 s" in state.reason for state in states(plan).values())


async def test_a_procedure_that_blocks_the_event_loop_is_named_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "WARN_AFTER_S", 0.3)
    told: list[str] = []

    async def sleeps(trial: Trial, lab: Lab) -> None:
        await lab.ask("a", "Well?")
        if trial.condition["mood"] == "wild":
            time.sleep(60)  # noqa: ASYNC251 - the misbehaviour

    plan = make_plan(tmp_path, sleeps, replicates=1, limits={"trial_timeout_s": 1.0})
    began = time.monotonic()
    ran = await run(plan, tell=told.append)
    assert time.monotonic() - began < 20
    assert ran.exit is Exit.SOME_FAILED
    by_mood = {state.levels["mood"]: state for state in states(plan).values()}
    assert by_mood["calm"].status == "done"
    assert "blocked everything for" in by_mood["wild"].reason
    assert "test_rude_procedures.py:" in by_mood["wild"].reason
    assert "asyncio.to_thread" in by_mood["wild"].reason
    assert any("blocks the event loop" in line and "test_rude_procedures.py:" in line for line in told)
