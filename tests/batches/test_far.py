"""What holds at every provider's batch API on bad days, over real HTTP."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.batches.far import every_provider, far_plan, reach, run_far, script
from tests.batches.test_doubts import decide, packs
from tests.behaviour.support import facts, states
from trialrun.app.clock import SystemClock
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.testing.emulator import Emulator

HOUR_S = 3600.0
LOST = {"at": "create", "fault": "dropped_after", "times": 1}
THROTTLED = [
    {"at": step, "fault": "throttled", "first": 2, "wait_s": 0.01}
    for step in ("upload", "create", "look", "list", "download")
]


class Elsewhere(SystemClock):
    """The clock of somebody who has set it wrongly, or of a machine in another time."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def now(self) -> float:
        return super().now() + self._ahead_s


def asked_once(server: Emulator) -> bool:
    """Whether every call of the study arrived in one batch, and was billed once."""
    calls = Counter(entry.call for entry in server.book if entry.call)
    return bool(calls) and set(calls.values()) == {1}


def all_of(folder: Path) -> bytes:
    """Everything that was written there."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def collected(plan: Plan, most: int = 100) -> Exit:
    """Collect until nothing is out any more."""
    for _ in range(most):
        ran = await run_far(plan, Options(detach=True))
        if ran.exit is not Exit.PARKED:
            return ran.exit
        await asyncio.sleep(0.05)
    return Exit.PARKED


@every_provider
async def test_a_provider_that_throttles_every_request_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async with Emulator(script(LOST | {"after": 2}, *THROTTLED)) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan)).exit is Exit.DONE
        assert asked_once(server)
        throttled = {step for (_, step), count in server.door.visits.items() if count > 2}
        # Small batches of Gemini bring their results with the look.
        assert {"create", "look", "list", *(["download"] if kind != "gemini" else [])} <= throttled


@every_provider
@pytest.mark.parametrize("ahead_h", [-30, 30])
async def test_a_clock_that_is_wrong_by_more_than_a_day_loses_nothing_and_sends_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ahead_h: int
):
    """A lost reply of the creation on top, as looking a batch up is where times could mislead."""
    async with Emulator(script(LOST), clock=Elsewhere(ahead_h * HOUR_S)) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind, batch={"deadline_h": 5})
        assert (await run_far(plan)).exit is Exit.DONE
        assert asked_once(server)
        assert [pack.is_found for pack in packs(plan)] == [True, False]
        assert not any(pack.is_cancelled for pack in packs(plan)), "the deadline is by our own clock"


@every_provider
async def test_a_clock_that_is_put_right_between_two_runs_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async with Emulator(script(), clock=Elsewhere(9 * HOUR_S)) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind)
        late = Elsewhere(-7 * HOUR_S)
        assert (await run_far(plan, Options(detach=True), clock=late)).exit is Exit.PARKED
        assert await collected(plan) is Exit.DONE
        assert asked_once(server)


@every_provider
async def test_a_key_that_is_changed_while_a_batch_is_out_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async with Emulator(script()) as server:
        reach(monkeypatch, server, kind, key="sk-the-old-one-0123456789")
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan, Options(detach=True))).exit is Exit.PARKED
        reach(monkeypatch, server, kind, key="sk-the-new-one-0123456789")
        assert await collected(plan) is Exit.DONE
        assert asked_once(server)
    assert b"-one-0123456789" not in all_of(tmp_path)


@every_provider
@pytest.mark.parametrize("step", ["look", "download"])
async def test_a_key_that_is_refused_while_a_batch_is_out_stops_the_run_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
):
    if (kind, step) == ("gemini", "download"):
        pytest.skip("its small batches bring their results with the look")
    async with Emulator(script()) as server:
        reach(monkeypatch, server, kind, key="sk-the-old-one-0123456789")
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan, Options(detach=True))).exit is Exit.PARKED
        server.follow(script({"at": step, "fault": "revoked"}))
        ran = await run_far(plan)
        assert ran.exit is Exit.STOPPED
        assert ran.stopped_by is not None
        assert ran.stopped_by.fix
        assert ran.live.held_usd > 0, "what is out stays held"
        assert {pack.stage for pack in packs(plan)} == {"created"}
        server.follow(script())
        reach(monkeypatch, server, kind, key="sk-the-new-one-0123456789")
        assert (await run_far(plan)).exit is Exit.DONE
        assert asked_once(server)


@every_provider
async def test_a_key_of_another_account_finds_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    keys = {"ours": "sk-our-own-0123456789", "theirs": "sk-somebody-0123456789"}
    async with Emulator(script(keys=keys)) as server:
        reach(monkeypatch, server, kind, key=keys["ours"])
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan, Options(detach=True))).exit is Exit.PARKED
        reach(monkeypatch, server, kind, key=keys["theirs"])
        ran = await run_far(plan)
        assert ran.exit is Exit.STOPPED, ran.exit
        assert ran.stopped_by is not None
        assert "key" in ran.stopped_by.fix
        assert (await run_far(plan)).exit is Exit.STOPPED, "as long as the key is the wrong one"
        reach(monkeypatch, server, kind, key=keys["ours"])
        assert (await run_far(plan)).exit is Exit.DONE
        assert asked_once(server)


@every_provider
async def test_a_batch_that_its_provider_has_forgotten_is_for_a_person_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async with Emulator(script()) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind)
        assert (await run_far(plan, Options(detach=True))).exit is Exit.PARKED
        server.batches.forget()
        ran = await run_far(plan)
        assert ran.exit is Exit.STOPPED
        assert ran.stopped_by is not None
        assert "batch resolve" in ran.stopped_by.fix
        assert server.overview()["batches"] == [], "nothing is sent again by itself"
        await decide(plan, "unbilled")
        assert (await run_far(plan)).exit is Exit.DONE


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


@every_provider
@pytest.mark.parametrize("fault", ["length", "refusal"])
async def test_a_reply_that_was_cut_or_declined_in_a_batch_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str
):
    async with Emulator(script({"at": "line", "fault": fault, "nth": [2]})) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind, long_answers)
        assert (await run_far(plan)).exit in (Exit.DONE, Exit.SOME_FAILED)
        assert asked_once(server), "it is paid, and not asked again"
    ends = Counter(
        fact.finish for id_ in states(plan) for fact in facts(plan, id_) if isinstance(fact, f.Settled)
    )
    assert ends[fault] >= 1, ends


async def long_answers(trial: Trial, lab: Lab) -> dict[str, object]:
    return {
        "answer": (await lab.ask("a", f"Tell me the story of number {trial.replicate}.", max_tokens=900)).text
    }


async def test_batches_of_others_are_read_once_while_ours_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Anthropic's batches can only be told by their results, and one of the same size may be anybody's."""
    slow = {"running_s": 1.0, "jitter": 0}
    async with Emulator(script()) as server:
        reach(monkeypatch, server, "anthropic")
        assert (await run_far(far_plan(tmp_path / "others", "anthropic"))).exit is Exit.DONE
        others = server.door.visits["anthropic", "download"]
        server.follow(script(LOST, batches=slow))
        plan = far_plan(tmp_path / "ours", "anthropic", study="another")
        assert (await run_far(plan)).exit is Exit.DONE
        downloads = server.door.visits["anthropic", "download"] - others
    assert others == 2
    assert downloads <= others + 3, (
        "each stranger once; ours once to know it, and each of our two for its results"
    )
