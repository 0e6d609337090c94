"""A study in batches, cut before and after every write of its journal, pays nothing twice and comes to the same end."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches
from tests.behaviour.support import make_plan, run, states, tables
from trialrun.app.clock import SystemClock
from trialrun.app.exits import Exit
from trialrun.app.verifying import verify
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, reverse

WRITES = 70


async def branching(trial: Trial, lab: Lab) -> dict[str, object]:
    """Two calls that are out at the same time, and one that needs both."""

    async def branch(inner: Lab) -> str:
        return str(await inner.ask("a", f"One of two, {inner.random('dice').randrange(100)}?"))

    async with lab.next_turn():
        both = await lab.together(branch, branch)
    async with lab.next_turn():
        closing = await lab.ask("a", " and ".join(both))
        lab.say("a", closing)
        lab.measure("length", len(closing.text))
    return {"both": both, "closing": closing.text}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The tables of the same study when it goes live and nothing happens to it."""
    plan = make_plan(tmp_path_factory.mktemp("whole"), branching)
    assert asyncio.run(run(plan, Scripted(answer))).exit is Exit.DONE
    return tables(plan)


@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
async def test_a_run_cut_at_any_write_resumes_without_paying_twice(
    tmp_path: Path, whole: object, write: int, edge: str
) -> None:
    clock = jumping()
    route = route_of(clock, *[Course(looks=("running",), change=reverse)] * 20)
    plan = batch_plan(tmp_path, branching, batch={"requests": 3})
    inside = SqliteJournal.open(plan.folder, clock=SystemClock())
    journal = CrashingJournal(inside, write=write, edge="before" if edge == "before" else "after")
    with contextlib.suppress(Crash):
        await run_batches(plan, route, clock, journal=journal)
        assert journal.writes < write, "it was not cut"
    inside.abandon()

    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert max(route.billed.values()) == 1, "no request ran twice"
    assert sum(route.billed.values()) == 12
    assert len(states(plan)) == 4
    assert tables(plan) == whole
    assert (await verify(plan)).differences == ()


async def test_the_sweep_covers_the_whole_study(tmp_path: Path) -> None:
    clock = jumping()
    plan = batch_plan(tmp_path, branching, batch={"requests": 3})
    journal = CrashingJournal(
        SqliteJournal.open(plan.folder, clock=SystemClock()), write=10**6, edge="before"
    )
    route = route_of(clock, *[Course(looks=("running",), change=reverse)] * 20)
    await run_batches(plan, route, clock, journal=journal)
    assert 20 < journal.writes <= WRITES
