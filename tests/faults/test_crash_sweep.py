"""A study cut before and after every single write of its journal resumes without paying twice and to the same end."""

import asyncio
import contextlib
import random
from decimal import Decimal
from pathlib import Path

import pytest

from tests.behaviour.support import make_plan, run, states, tables
from trialrun.app.clock import SystemClock
from trialrun.app.exits import Exit
from trialrun.app.verifying import verify
from trialrun.core.calls import Call
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted

WRITES = 70


async def everything(trial: Trial, lab: Lab) -> dict[str, object]:
    """One of each thing that a lab offers."""
    deeds: list[str] = []

    async def deed() -> str:
        deeds.append("done")
        return "made a file"

    async def found() -> str:
        return "made a file"

    async with lab.next_turn():
        opening = await lab.ask("a", "How are you?")
        lab.say("a", opening)
        made = await lab.act("write", deed, recover=found)

        async def branch(inner: Lab) -> str:
            first = await inner.ask("a", f"One of two, {inner.random('dice').randrange(100)}?")
            inner.say("a", first, to=("a",))
            return str(await inner.ask("a", "And then?"))

        both = await lab.together(branch, branch)
    async with lab.next_turn():
        lab.state("a", trust=lab.random().random())
        lab.keep("note", f"{opening} and {made}")
        closing = await lab.ask("a", lab.heard_by("a"))
        lab.measure("length", len(closing.text))
    return {"both": both, "closing": closing.text}


def far_end() -> Scripted:
    async def slow(call: Call) -> str:
        await asyncio.sleep(call.key[0] / 255 / 200)
        return f"{call.place} was asked {len(call.request.messages)} messages"

    return Scripted(slow)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The tables of the study when nothing happens to it."""
    plan = make_plan(tmp_path_factory.mktemp("whole"), everything)
    assert asyncio.run(run(plan, far_end())).exit is Exit.DONE
    return tables(plan)


def settled(folder: Path) -> set[str]:
    with Archive(folder) as archive:
        return {f"{call.trial}/{call.at}" for call in archive.calls() if call.status == "settled"}


@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
async def test_a_run_cut_at_any_write_resumes_without_paying_twice(
    tmp_path: Path, whole: object, write: int, edge: str
) -> None:
    plan, provider = make_plan(tmp_path, everything, limits={"open_trials": 3}), far_end()
    inside = SqliteJournal.open(plan.folder, clock=SystemClock())
    journal = CrashingJournal(inside, write=write, edge="before" if edge == "before" else "after")
    with contextlib.suppress(Crash):
        await run(plan, provider, journal=journal)
        assert journal.writes < write, "it was not cut"
    inside.abandon()

    paid, sent = settled(plan.folder), len(provider.sent)
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert paid.isdisjoint({item.call.place for item in provider.sent[sent:]})
    assert len(states(plan)) == 4
    assert tables(plan) == whole
    assert (await verify(plan)).differences == ()


@pytest.mark.parametrize(
    ("level", "cap_usd"), [("study", "0.0025"), ("condition", "0.0015"), ("trial", "0.0005")]
)
async def test_a_cap_holds_over_all_runs_however_often_they_are_cut(
    tmp_path: Path, level: str, cap_usd: str
) -> None:
    """What earlier runs spent, and what they left in doubt, counts in the next one."""
    dice, cap = random.Random(5), Decimal(cap_usd)
    plan = make_plan(
        tmp_path, everything, replicates=8, budget_usd={level: cap_usd}, limits={"open_trials": 4}
    )
    most = Decimal(0)
    for number in range(25):
        inside = SqliteJournal.open(plan.folder, clock=SystemClock())
        journal = CrashingJournal(inside, write=dice.randrange(1, 30), edge=dice.choice(["before", "after"]))
        with contextlib.suppress(Crash):
            await run(plan, far_end(), journal=journal)
        inside.abandon()
        with Archive(plan.folder) as archive:
            committed = {
                "study": [archive.total()],
                "condition": archive.tallies(),
                "trial": archive.trials(),
            }
            most = max(each.spent_usd + each.held_usd for each in committed[level])
        assert most <= cap, f"run {number}"
    assert most > cap * Decimal("0.8"), "it was nearly reached, or this says nothing"


async def test_the_sweep_covers_the_whole_study(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, everything, limits={"open_trials": 3})
    journal = CrashingJournal(
        SqliteJournal.open(plan.folder, clock=SystemClock()), write=10**6, edge="before"
    )
    await run(plan, far_end(), journal=journal)
    assert journal.writes <= WRITES
