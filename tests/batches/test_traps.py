"""Coincidences: two things that each have their test, at the same time."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches, two_turns
from tests.batches.test_doubts import LOST, decide, packs
from tests.behaviour.support import facts, make_plan, states
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.app.studies import Plan
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import PackFile
from trialrun.core.calls import Call
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.gateway.batches.lane import BatchLane
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.store.packs import FileSpool
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, ScriptedRoute, missing


def settlements(plan: Plan) -> list[tuple[str, str, int]]:
    """Each attempt that was settled, as often as it was."""
    return [
        (id_, fact.at, fact.attempt)
        for id_ in states(plan)
        for fact in facts(plan, id_)
        if isinstance(fact, f.Settled)
    ]


def spent(plan: Plan) -> Decimal:
    return sum((state.spent_usd for state in states(plan).values()), Decimal(0))


@pytest.mark.parametrize("status", [404, 400])
async def test_a_batch_that_the_provider_does_not_know_any_more_stops_the_run_and_loses_nothing(
    tmp_path: Path, status: int
):
    clock = jumping()
    route = route_of(clock)
    route.fail("look", e.RequestRefused("no such batch", status=status, fix="is the key the right one?"))
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.STOPPED
    assert ran.stopped_by is not None
    assert "no such batch" in ran.stopped_by.what
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_a_list_that_the_provider_refuses_leaves_an_ambiguous_creation_for_the_next_run(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("create", LOST, after=True)
    route.fail("find", e.RequestRefused("lists are not for this key", status=403))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.STOPPED
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_a_cancel_that_is_refused_as_the_batch_has_just_ended_changes_nothing(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=800))
    route.fail("cancel", e.RequestRefused("cannot cancel a batch with status completed", status=409))
    plan = batch_plan(tmp_path, batch={"deadline_h": 0.2})
    assert (await run_batches(plan, route, clock, live=Scripted(answer))).exit is Exit.DONE
    assert max(route.billed.values()) == 1


class Breaking(ScriptedRoute):
    """The first download of a candidate breaks off before its first line."""

    breaks = 1

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        if self.breaks:
            self.breaks -= 1
            raise e.Unavailable("the connection was lost")
        async for chunk in super().fetch(batch, result):
            yield chunk


async def test_a_candidate_whose_results_break_off_is_looked_at_again(tmp_path: Path):
    clock = jumping()
    route = Breaking(Scripted(answer), courses=Course(takes_s=5), clock=clock, anchor="none")
    route.fail("create", LOST, after=True)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


@pytest.mark.parametrize("decision", ["accept", "adopt"])
async def test_results_that_are_unpacked_a_second_time_are_not_settled_a_second_time(
    tmp_path: Path, decision: str
):
    clock = jumping()
    route = route_of(clock, Course(change=missing(1)))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    before = spent(plan)
    await decide(plan, "accept" if decision == "accept" else "adopt", "batch-1")
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    assert len(settlements(plan)) == len(set(settlements(plan)))
    assert spent(plan) == before


async def test_what_was_missing_is_settled_when_a_person_names_the_batch_that_has_it(tmp_path: Path):
    clock = jumping()
    course = Course(change=missing(1))
    route = route_of(clock, course)
    plan = batch_plan(tmp_path, budget_usd="5")
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    object.__setattr__(course, "change", list)
    await decide(plan, "adopt", "batch-1")
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert len(settlements(plan)) == len(set(settlements(plan))) == 8
    assert ran.live.held_usd == 0
    assert ran.live.spent_usd == spent(plan)


async def test_the_queue_of_a_provider_is_not_overfilled_by_a_run_that_does_not_stay(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=100)] * 20)
    settings = {"queued_tokens": 60, "poll_s": 5}
    plan = batch_plan(tmp_path, replicates=5, batch=settings)
    told: list[str] = []
    assert (await run_batches(plan, route, clock, Options(detach=True), tell=told.append)).exit is Exit.PARKED
    assert len(route.batches) == 1, "the others wait on disk until there is room"
    assert any("queue" in line for line in told)
    codes = list[Exit]()
    while len(codes) < 60 and Exit.DONE not in codes:
        await clock.advance(101)
        codes.append((await run_batches(plan, route, clock, Options(detach=True))).exit)
    assert codes[-1] is Exit.DONE
    assert max(route.billed.values()) == 1
    assert all(
        second.created_at - first.created_at >= 100
        for first, second in zip(route.batches, route.batches[1:], strict=False)
    )


async def test_a_full_disk_while_a_pack_is_sealed_does_not_cut_the_creation_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = jumping()
    route = SlowToCreate(Scripted(answer), clock=clock, anchor="none")
    plan = batch_plan(tmp_path, replicates=2, batch={"requests": 2})
    seal, sealed = FileSpool.seal, list[str]()

    def failing(self: FileSpool, id_: str) -> PackFile:
        sealed.append(id_)
        if len(sealed) == 2:
            until = time.monotonic() + 10
            while not route.batches and time.monotonic() < until:
                time.sleep(0.001)
            raise e.StoreError("no space left on the device", where="batches")
        return seal(self, id_)

    monkeypatch.setattr(FileSpool, "seal", failing)
    assert (await run_batches(plan, route, clock)).stopped_by is not None
    assert [pack.stage for pack in packs(plan)] == ["created"], "not cut, so not in doubt"
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


class SlowToCreate(ScriptedRoute):
    """Takes a while to say that a batch is made."""

    async def create(self, pack: PackFile, input_: str) -> str:
        batch = await super().create(pack, input_)
        assert self._clock
        for _ in range(50):
            await self._clock.sleep(1)
        return batch


class Lagging(ScriptedRoute):
    """A list that shows a batch only at the third look."""

    hides = 2

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        found = await super().find(pack, input_)
        if self.hides and len(self.batches) > 1:
            self.hides -= 1
            return found[1:]
        return found


async def test_a_batch_for_which_there_was_no_room_is_not_taken_for_the_one_whose_creation_is_in_doubt(
    tmp_path: Path,
):
    clock = jumping()
    full = Course(end="failed", problems=("Enqueued token limit reached for this model",))
    route = Lagging(Scripted(answer), courses=[full], clock=clock)
    plan = batch_plan(tmp_path)
    create, calls = route.create, list[str]()

    async def losing(pack: PackFile, input_: str) -> str:
        batch = await create(pack, input_)
        calls.append(batch)
        if len(calls) == 2:
            raise LOST
        return batch

    route.create = losing  # type: ignore[method-assign]
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


@pytest.mark.parametrize("budget", ["100", "0.000001"])
async def test_the_same_calls_can_be_packed_again_after_their_pack_was_taken_apart(
    tmp_path: Path, budget: str
):
    clock = jumping()
    route = route_of(clock)
    route.fail("create", e.RequestRefused("batches are off today", status=400))
    assert (await run_batches(batch_plan(tmp_path), route, clock)).exit is Exit.STOPPED
    refused = e.AuthRefused("no key for live calls")
    plan = make_plan(tmp_path, two_turns, budget_usd=budget)
    ran = await run_batches(plan, route, clock, live=Scripted(lambda _: refused))
    assert ran.exit in (Exit.STOPPED, Exit.BUDGET)
    assert (await run_batches(batch_plan(tmp_path), route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


class EndsWhenFetched(SqliteJournal):
    """A process that ends between the download and the unpacking."""

    is_fetched = False

    def append(
        self,
        trial: str,
        facts: Sequence[f.TrialFact] | Sequence[f.StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        if self.is_fetched:
            raise e.StoreError("the process ended here")
        super().append(trial, facts, texts)
        self.is_fetched = any(isinstance(fact, p.PackFetched) for fact in facts)


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
async def test_results_that_are_not_as_they_were_stored_are_fetched_again(tmp_path: Path, damage: str):
    """The run ended before they were unpacked, and the disk did something meanwhile."""
    clock = jumping()
    route = route_of(clock, script="A" * 30)
    plan = batch_plan(tmp_path)

    journal = EndsWhenFetched.open(plan.folder, clock=clock)
    assert (await run_batches(plan, route, clock, journal=journal)).exit is Exit.STORE
    (results,) = plan.folder.glob("batches/*/results-1.jsonl")
    stored = results.read_bytes()
    match damage:
        case "changed":
            results.write_bytes(stored.replace(b"QUFB", b"QUFD", 1))  # "AAA" and "AAC" in Base64
        case "cut":
            results.write_bytes(stored[: stored.index(b"\n") + 1])
        case _:
            results.unlink()
    told: list[str] = []
    assert (await run_batches(plan, route, clock, tell=told.append)).exit is Exit.DONE
    assert results.read_bytes() == stored
    assert any("fetched again" in line for line in told)
    assert max(route.billed.values()) == 1
    assert all(state.values["first"] == "A" * 30 for state in states(plan).values())


async def test_a_trial_that_is_woken_for_nothing_says_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever is woken too often is replayed from what it said a moment ago, durable or not."""
    run_lane, append = BatchLane.run, SqliteJournal.append
    wakes: list[Callable[[Iterable[str]], None]] = []

    async def known(self: BatchLane, wake: Callable[[Iterable[str]], None]) -> None:
        wakes.append(wake)
        await run_lane(self, wake)

    def waking(self: SqliteJournal, trial: str, facts_: Sequence[Any], texts: Any = None) -> None:
        append(self, trial, facts_, texts)
        if any(isinstance(fact, f.Waiting) for fact in facts_) and trial not in woken:
            woken.add(trial)
            asyncio.get_running_loop().call_soon(wakes[0], [trial])

    woken = set[str]()
    monkeypatch.setattr(BatchLane, "run", known)
    monkeypatch.setattr(SqliteJournal, "append", waking)

    async def talks(trial: Trial, lab: Lab) -> dict[str, object]:
        lab.say("a", "I begin.")
        reply = await lab.ask("a", "And?")
        lab.say("a", reply)
        return {}

    clock = jumping()
    plan = batch_plan(tmp_path, talks)
    assert (await run_batches(plan, route_of(clock), clock)).exit is Exit.DONE
    assert len(woken) == 4
    with Archive(plan.folder) as archive:
        said = Counter(message.trial for message in archive.messages())
    assert set(said.values()) == {2}


async def test_a_call_whose_number_is_free_again_waits_until_its_pack_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """L1. Between the fact that gives a number back and the end of its pack in memory, nothing is put down twice."""
    ask, create = BatchLane.ask, ScriptedRoute.create
    asked: list[tuple[BatchLane, Call, Any]] = []
    waiting: list[tuple[str, ...]] = []

    async def noting(self: BatchLane, call: Call, **given: Any) -> Any:
        asked.append((self, call, given))
        return await ask(self, call, **given)

    async def asking_again(self: ScriptedRoute, pack: PackFile, input_: str) -> str:
        for lane, call, given in asked:
            assert given["attempts_before"] == 0
            with pytest.raises(e.Parked):
                await ask(lane, call, **given)
        waiting.append(asked[0][0].waits())
        return await create(self, pack, input_)

    async def asks(trial: Trial, lab: Lab) -> dict[str, object]:
        return {"said": (await lab.ask("a", f"Question of replicate {trial.replicate}?")).text}

    monkeypatch.setattr(BatchLane, "ask", noting)
    monkeypatch.setattr(ScriptedRoute, "create", asking_again)
    clock = jumping()
    plan, route = batch_plan(tmp_path, asks), route_of(clock)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(waiting) == 1
    assert not any("wait for company" in line for line in waiting[0])
    assert len(route.billed) == plan.trials
    assert max(route.billed.values()) == 1
