"""Branches of trials: planned work like any other, with a past of their own that nothing changes any more."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import BASE, make_plan, run, states
from trialrun.app.exits import Exit
from trialrun.app.findings.tables import table_of
from trialrun.app.forks import fork
from trialrun.app.running import Options
from trialrun.app.studies import Plan
from trialrun.app.verifying import verify
from trialrun.core.calls import Call
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

TURNS = 4


async def talk(trial: Trial, lab: Lab) -> dict[str, object]:
    """Four turns; a furious party breaks the trial, and a shy one asks a person."""
    for number in range(TURNS):
        async with lab.next_turn():
            lab.say("a", await lab.ask("a", f"Turn {number}?"))
    mood = trial.parties["a"].values["mood"]
    if mood == "furious":
        raise ValueError("broken on purpose")
    if mood == "shy":
        await lab.ask_human("Shall we go on?")
    return {"turns": TURNS}


def study(folder: Path, *, prompt: str = "You are {{ mood }}.", **more: Any) -> Plan:
    party = {**BASE["parties"]["a"], "prompt": prompt}
    return make_plan(folder, talk, parties={"a": party}, replicates=1, **more)


async def finished(plan: Plan) -> str:
    """Run the study; gives the trial to branch off."""
    assert (await run(plan)).exit is Exit.DONE
    return min(states(plan))


async def branched(plan: Plan, source: str, mood: str, *, turn: int = 3) -> str:
    return await fork(plan, source, turn=turn, overrides={"parties.a.values.mood": mood})


def said_in(plan: Plan, trial: str) -> list[str]:
    with Archive(plan.folder) as archive:
        return [message.text for message in archive.messages() if message.trial == trial]


async def test_a_study_with_a_fork_that_has_not_run_is_not_done(tmp_path: Path):
    plan = study(tmp_path)
    await branched(plan, await finished(plan), "angry")
    assert table_of(plan.folder).exit is Exit.INTERRUPTED
    assert (await run(plan)).exit is Exit.DONE
    assert table_of(plan.folder).exit is Exit.DONE


async def test_a_study_whose_fork_failed_is_not_done_however_often_it_runs(tmp_path: Path):
    plan = study(tmp_path)
    id_ = await branched(plan, await finished(plan), "furious")
    for _ in range(2):
        assert (await run(plan)).exit is Exit.SOME_FAILED
        assert table_of(plan.folder).exit is Exit.SOME_FAILED
    assert states(plan)[id_].status == "failed"
    assert table_of(plan.folder).failures[0][1] == 1, "and it says why"


async def test_a_study_whose_fork_waits_for_a_person_is_parked(tmp_path: Path):
    plan = study(tmp_path)
    await branched(plan, await finished(plan), "shy")
    for _ in range(2):
        assert (await run(plan)).exit is Exit.PARKED
        assert table_of(plan.folder).exit is Exit.PARKED


async def test_a_fork_keeps_its_past_when_its_source_begins_anew(tmp_path: Path):
    plan = study(tmp_path)
    source = await finished(plan)
    id_ = await branched(plan, source, "angry")
    await run(plan, Scripted(lambda call: f"angry, turn {call.turn}"))
    before = said_in(plan, id_)

    changed = study(tmp_path, prompt="You were {{ mood }}.")
    provider = Scripted(lambda call: f"anew, turn {call.turn}")
    assert (await run(changed, provider, Options(consent="redo"))).exit is Exit.DONE
    assert said_in(changed, source) == [f"anew, turn {turn}" for turn in range(1, TURNS + 1)]
    assert said_in(changed, id_) == before
    assert len(before) == TURNS


@pytest.mark.parametrize("consent", ["keep", "redo"])
async def test_a_fork_that_ran_under_an_earlier_plan_is_no_difference(tmp_path: Path, consent: Any):
    plan = study(tmp_path)
    await branched(plan, await finished(plan), "angry")
    await run(plan)
    assert (await verify(plan)).trials == 3

    changed = study(tmp_path, prompt="You were {{ mood }}.")
    await run(changed, None, Options(consent=consent))
    found = await verify(changed)
    assert (found.trials, found.skipped, found.differences) == (3, 0, ()), (
        "each under the plan that it ran under"
    )


async def test_forks_are_outside_their_conditions_cap_in_every_run(tmp_path: Path):
    cost = Decimal(12) / 1_000_000

    def answer(call: Call) -> str:
        return "x" * 8

    plan = study(tmp_path)
    source = await finished(plan)
    row = next(row for row in table_of(plan.folder).rows if source.startswith(row.condition))
    capped = study(tmp_path, budget_usd={"condition": str(row.spent_usd + cost)})
    id_ = await branched(capped, source, "angry")
    assert (await run(capped, Scripted(answer))).exit is Exit.DONE
    assert states(capped)[id_].status == "done"
    assert states(capped)[id_].spent_usd > cost, "it would not have fitted beside its source"


async def test_a_trial_that_goes_on_under_a_higher_budget_is_no_longer_stopped_by_it(tmp_path: Path):
    """A second reason to stop must not be taken for the first."""
    provider = Scripted(lambda call: f"answer to {call.place}")
    plan = study(tmp_path, budget_usd="0.0005")
    assert (await run(plan, provider, usd_per_million="2")).exit is Exit.BUDGET
    stopped = [state for state in states(plan).values() if state.status == "stopped_by_budget"]
    assert stopped

    def quota(call: Call) -> str:
        if call.turn == TURNS:
            raise RuntimeError("our own bug")
        return "fine"

    richer = study(tmp_path, budget_usd=1)
    with pytest.raises(BaseException, match="our own bug"):
        await run(richer, Scripted(quota), usd_per_million="2")
    assert {state.status for state in states(richer).values()} <= {"running", "done"}
