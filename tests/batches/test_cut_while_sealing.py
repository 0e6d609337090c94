"""A run that is cancelled while a pack is made durable, and the next one in the same process: one has ended before the
other begins."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.batches.support import batch_plan, jumping, route_of, run_batches
from trialrun.app.exits import Exit
from trialrun.core.batches import PackFile
from trialrun.store.packs import FileSpool

_SLOW_S = 0.2


async def test_who_continues_at_once_meets_no_pack_that_is_still_being_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealing, sealed, seal = threading.Event(), threading.Event(), FileSpool.seal

    def slowly(spool: FileSpool, id_: str) -> PackFile:
        sealing.set()
        time.sleep(_SLOW_S)  # a disk that takes its time
        try:
            return seal(spool, id_)
        finally:
            sealed.set()

    clock = jumping()
    route = route_of(clock)
    plan = batch_plan(tmp_path)
    with monkeypatch.context() as slow:
        slow.setattr(FileSpool, "seal", slowly)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            running = group.create_task(run_batches(plan, route, clock))
            assert await asyncio.to_thread(sealing.wait, 10)
            running.cancel()
            await asyncio.wait({running})
            assert sealed.is_set(), "nothing of a run goes on in a thread when it has ended"
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE, ran.stopped_by
    assert max(route.billed.values()) == 1
    built = {path.name for path in (plan.folder / "batches").iterdir()}
    assert len(built) == len(route.batches) == 2
