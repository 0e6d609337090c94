"""What waits for a batch is on disk, and not in memory. How much in all: `bench/batches.py`."""

import gc
import weakref
from pathlib import Path

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches
from trialrun.app.exits import Exit
from trialrun.core.batches import PackFile
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.batch import Batch
from trialrun.store.database import Database
from trialrun.testing.scripted_batches import ScriptedRoute


class _Mine:
    """Something that a procedure has at hand."""


async def test_a_parked_trial_is_let_go_of_at_once_and_not_when_the_collector_comes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[weakref.ref[_Mine]] = []
    alive: list[int] = []
    create = ScriptedRoute.create

    async def counting(self: ScriptedRoute, pack: PackFile, input_: str) -> str:
        alive.append(sum(each() is not None for each in made))
        return await create(self, pack, input_)

    async def holds(trial: Trial, lab: Lab) -> dict[str, object]:
        mine = _Mine()
        made.append(weakref.ref(mine))
        async with lab.next_turn():
            reply = await lab.ask("a", f"Question of replicate {trial.replicate}?")
        return {"said": reply.text, "mine": type(mine).__name__}

    monkeypatch.setattr(ScriptedRoute, "create", counting)
    clock = jumping()
    plan = batch_plan(tmp_path, holds, replicates=20)
    gc.disable()
    try:
        assert (await run_batches(plan, route_of(clock), clock)).exit is Exit.DONE
    finally:
        gc.enable()
    assert len(made) == 2 * plan.trials
    assert alive == [0]


async def test_calls_that_are_put_down_follow_to_the_disk_though_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sizes: list[int] = []
    write = Batch.write

    def measured(self: Batch, db: Database) -> None:
        sizes.append(self.facts[3::6].count("held"))
        write(self, db)

    async def asks(trial: Trial, lab: Lab) -> dict[str, object]:
        return {"said": (await lab.ask("a", f"Question of replicate {trial.replicate}?")).text}

    monkeypatch.setattr(Batch, "write", measured)
    clock = jumping()
    plan = batch_plan(tmp_path, asks, replicates=500)
    assert (await run_batches(plan, route_of(clock, script=answer), clock)).exit is Exit.DONE
    assert plan.trials == 1000
    assert sum(sizes) == plan.trials
    assert max(sizes) < plan.trials / 2
