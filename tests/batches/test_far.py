"""What holds at every provider's batch API on bad days, over real HTTP."""

from pathlib import Path

import pytest

from tests.batches.far import far_plan, reach, run_far, script
from tests.behaviour.support import facts
from trialrun.app.exits import Exit
from trialrun.core import pack_facts as p
from trialrun.testing.emulator import Emulator


async def test_a_batch_is_seen_only_when_its_provider_says_something_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = {"running_s": 1.0, "jitter": 0}
    async with Emulator(script({"fault": "no_counts"}, batches=slow)) as server:
        reach(monkeypatch, server, "openai")
        plan = far_plan(tmp_path, "openai")
        assert (await run_far(plan)).exit is Exit.DONE
        looks = server.door.visits["openai", "look"]
    words = [fact.word for fact in facts(plan) if isinstance(fact, p.PackSeen)]
    assert len(words) <= 2 * len({"validating", "in_progress", "finalizing", "completed"})
    assert looks > 2 * len(words), "it is looked at far more often"
