"""What goes wrong between us and a provider's batch API, one row of the catalogue a test."""

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest

from tests.batches.support import answer, batch_plan, jumping, route_of, run_batches, two_turns
from tests.behaviour.support import facts, make_plan, one_question, states, tables
from trialrun.app.changes import Consent
from trialrun.app.clock import SystemClock
from trialrun.app.doctoring import checks_of_study, confirm, doubts_of
from trialrun.app.exits import Exit
from trialrun.app.running import Control, Options
from trialrun.app.studies import Plan
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import Look, PackFile
from trialrun.core.packs import Pack, packs_in
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted
from trialrun.testing.scripted_batches import Course, ScriptedRoute, foreign, garbled, missing

LOST = e.Unavailable("the connection was lost", billed="unknown")


def packs(plan: Plan) -> list[Pack]:
    with Archive(plan.folder) as archive:
        return list(packs_in(archive.facts_of("")).values())


async def decide(plan: Plan, decision: p.Decision, batch: str = "") -> None:
    journal = SqliteJournal.open(plan.folder, clock=SystemClock())
    pack = next(pack for pack in packs(plan) if pack.stage == "doubted")
    journal.append("", [p.PackDecided(pack=pack.id, decision=decision, batch=batch)])
    await journal.close()


@pytest.mark.parametrize("anchor", ["input", "name"])
async def test_a_batch_whose_creation_got_no_reply_is_found_and_not_made_again(tmp_path: Path, anchor: str):
    clock = jumping()
    route = route_of(clock, anchor=anchor)
    route.fail("create", LOST, after=True)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(route.batches) == 2
    assert max(route.billed.values()) == 1
    assert packs(plan)[0].is_found


async def test_a_batch_that_surely_was_not_made_is_made_again(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("create", LOST)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert route.used["find"] == 3, "lists lag behind: one look is not enough"
    assert max(route.billed.values()) == 1


async def test_without_an_anchor_a_batch_is_ours_when_its_results_have_our_ids(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=120), anchor="none")
    route.fail("create", LOST, after=True)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(route.batches) == 2
    assert max(route.billed.values()) == 1


@pytest.mark.parametrize("decision", ["send_again", "unbilled"])
async def test_without_anchor_and_candidates_a_person_decides(tmp_path: Path, decision: p.Decision):
    clock = jumping()
    route = route_of(clock, anchor="none")
    route.fail("create", LOST)
    plan = batch_plan(tmp_path)
    told: list[str] = []
    ran = await run_batches(plan, route, clock, tell=told.append)
    assert ran.exit is Exit.PARKED
    assert not route.batches
    held = sum((state.held_usd for state in states(plan).values()), Decimal(0))
    assert held > 0, "the money of what may be billed stays held"
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED

    await decide(plan, decision)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    left = sum((state.held_usd for state in states(plan).values()), Decimal(0))
    assert left == (held if decision == "send_again" else 0)


class Unlisted(ScriptedRoute):
    """A provider whose list does not have what a person can see on its pages."""

    async def find(self, pack: PackFile, input_: str) -> list[str]:
        return []


async def test_a_person_may_name_the_batch(tmp_path: Path):
    clock = jumping()
    route = Unlisted(Scripted(answer), courses=Course(takes_s=5), clock=clock, anchor="none")
    route.fail("create", LOST, after=True)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    await decide(plan, "adopt", "batch-1")
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert len(route.batches) == 2
    assert max(route.billed.values()) == 1


async def test_missing_lines_are_asked_again_when_a_person_says_so(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(change=missing(0, 2)))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    await decide(plan, "unbilled")
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0
    assert all(pack.stage == "closed" for pack in packs(plan))


async def test_a_line_that_cannot_be_read_leaves_its_call_missing_and_is_foreign(tmp_path: Path):
    clock = jumping()
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route_of(clock, Course(change=garbled(1))), clock)).exit is Exit.PARKED
    assert packs(plan)[0].stage == "doubted"


async def test_foreign_lines_are_passed_over_once_a_person_accepts_the_rest(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(change=lambda lines: [*lines, b'{"custom_id": "somebody-elses"}\n']))
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    await decide(plan, "accept")
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1


async def test_deleted_results_are_in_doubt_and_not_asked_again(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=50))
    plan = batch_plan(tmp_path)
    await run_batches(plan, route, clock, Options(detach=True))
    route.delete("batch-1")
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.PARKED
    assert len(route.batches) == 1
    assert "deleted" in packs(plan)[0].reason


async def test_a_download_that_breaks_off_begins_anew_and_keeps_nothing_half(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("fetch", e.Unavailable("broke off", billed="unknown"), after=True)
    plan = batch_plan(tmp_path)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert route.used["fetch"] == 3
    assert not list((plan.folder / "batches").rglob("*.partial"))


async def test_an_unknown_word_is_looked_at_again_and_told_once(tmp_path: Path):
    clock = jumping()
    strange = Look(phase="unknown", word="hibernating")
    route = route_of(clock, Course(looks=(strange, strange, strange)))
    plan = batch_plan(tmp_path)
    told: list[str] = []
    assert (await run_batches(plan, route, clock, tell=told.append)).exit is Exit.DONE
    assert len([line for line in told if "hibernating" in line]) == 1
    assert len(route.batches) == 2


async def test_what_has_not_left_is_taken_apart_when_the_study_goes_live(tmp_path: Path):
    clock = jumping()
    route = route_of(clock)
    route.fail("create", e.RequestRefused("this model has no batches", status=400))
    await run_batches(batch_plan(tmp_path), route, clock)
    live, plan = Scripted(answer), make_plan(tmp_path, two_turns)
    ran = await run_batches(plan, route, clock, live=live)
    assert ran.exit is Exit.DONE
    assert len(live.sent) == 8
    assert not route.batches
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0


async def test_what_is_out_is_collected_by_a_live_run(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(takes_s=50))
    await run_batches(batch_plan(tmp_path), route, clock, Options(detach=True))
    live, plan = Scripted(answer), make_plan(tmp_path, two_turns)
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert sum(route.billed.values()) == 4
    assert len(live.sent) == 4


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_trial_that_begins_anew_does_not_take_the_reply_to_its_earlier_self(
    tmp_path: Path, is_sent: bool
):
    clock = jumping()
    route = route_of(clock, Course(takes_s=50), script=lambda call: call.request.messages[0].text)
    if not is_sent:
        route.fail("create", e.AuthRefused("not yet"))
    await run_batches(batch_plan(tmp_path), route, clock, Options(detach=True))
    other = {
        "a": {
            "model": "x/m",
            "prompt": "You are now {{ mood }}.",
            "values": {"mood": "calm"},
            "max_tokens": 50,
        }
    }
    plan = batch_plan(tmp_path, parties=other)
    consent: Consent = "redo"
    assert (await run_batches(plan, route, clock, Options(consent=consent))).exit is Exit.DONE
    assert all(str(state.values["first"]).startswith("You are now") for state in states(plan).values())
    assert sum(route.billed.values()) == (12 if is_sent else 8), "what had left is paid all the same"
    paid = sum((state.spent_usd for state in states(plan).values()), Decimal(0))
    settled = [fact for id_ in states(plan) for fact in facts(plan, id_) if isinstance(fact, f.Settled)]
    assert paid == sum((fact.cost_usd or Decimal(0) for fact in settled), Decimal(0))


async def test_the_folder_of_a_study_can_be_copied_while_its_batches_are_out(tmp_path: Path):
    import shutil

    clock = jumping()
    route = route_of(clock, Course(takes_s=50))
    first = batch_plan(tmp_path / "here")
    await run_batches(first, route, clock, Options(detach=True))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    second = batch_plan(tmp_path / "there")
    assert (await run_batches(second, route, clock)).exit is Exit.DONE
    assert tables(second) != {}
    assert max(route.billed.values()) == 1


async def test_without_the_files_of_its_packs_a_study_says_so(tmp_path: Path):
    import shutil

    clock = jumping()
    route = route_of(clock, Course(takes_s=50))
    plan = batch_plan(tmp_path)
    await run_batches(plan, route, clock, Options(detach=True))
    shutil.rmtree(plan.folder / "batches")
    with pytest.raises(e.StoreError, match="is not there"):
        await run_batches(plan, route, clock)


async def test_a_refused_line_is_given_up_also_where_an_earlier_run_never_sent_its_call(tmp_path: Path):
    """A call that never left gives its number back, so the same number ends twice: once in each pack."""
    clock, control = jumping(), Control()
    questions = 0

    async def stopping(trial: Trial, lab: Lab) -> dict[str, object]:
        nonlocal questions
        questions += 1
        if questions == 4:
            control.interrupt()
        return {"answer": (await lab.ask("a", f"Question of replicate {trial.replicate}?")).text}

    plan = batch_plan(tmp_path, stopping)
    refusing = route_of(clock, *[Course(end="failed", problems=("line 1: the prompt is too long",))] * 50)
    ran = await run_batches(plan, refusing, clock, control=control)
    assert ran.exit is Exit.INTERRUPTED
    assert not refusing.batches, "all four waited for company"
    assert (await run_batches(plan, refusing, clock)).exit is Exit.SOME_FAILED
    assert len(refusing.batches) == 4, "each refusal names one, and the others are handed in again"
    assert {state.status for state in states(plan).values()} == {"failed"}
    assert sum((state.held_usd for state in states(plan).values()), Decimal(0)) == 0


async def test_what_is_out_in_a_batch_is_no_doubt_that_a_person_could_confirm(tmp_path: Path):
    """Confirmed, its reply would be taken for settled when it comes, and the call would be asked and paid again."""
    clock = jumping()
    route = route_of(clock, Course(takes_s=80_000))
    plan = batch_plan(tmp_path)
    await run_batches(plan, route, clock, Options(detach=True))
    assert doubts_of(plan.folder) == []
    trial = min(states(plan))
    with pytest.raises(e.UsageError, match="not in doubt"):
        await confirm(plan.folder, f"{trial}/1#1", "0.01")
    with Archive(plan.folder) as archive:
        assert {call.status for call in archive.calls()} == {"waiting"}


async def test_the_doctor_names_batches_in_doubt_and_who_decides(tmp_path: Path):
    clock = jumping()
    route = route_of(clock, Course(change=foreign()))
    plan = batch_plan(tmp_path)
    await run_batches(plan, route, clock)
    (check,) = [check for check in checks_of_study(plan.folder) if check.name == "batch batch-1"]
    assert "never sent" in check.found
    assert "batch resolve" in check.fix


async def test_the_end_of_an_old_batch_is_not_taken_for_that_of_the_call_that_was_asked_again(tmp_path: Path):
    """A person confirms what a missing line cost, so it is asked again; then the batch that missed it is done with."""
    clock = jumping()
    route = route_of(clock, Course(change=missing(1)), Course(takes_s=100), Course(takes_s=100))
    plan = batch_plan(tmp_path, one_question)
    assert (await run_batches(plan, route, clock)).exit is Exit.PARKED
    (doubt,) = doubts_of(plan.folder)
    await confirm(plan.folder, doubt.call, "0.0001")
    await decide(plan, "accept")
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert sum(route.billed.values()) == 5, "four calls, and the one that was asked again"
    assert len(route.batches) == 2
    assert ran.live.held_usd == 0
    assert all(pack.stage == "closed" for pack in packs(plan))


@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("write", range(1, 13))
async def test_a_batch_that_is_taken_apart_is_never_sent_whatever_cuts_it(
    tmp_path: Path, write: int, edge: Literal["before", "after"]
):
    """Its calls are given back, and it is over, in one write: cut between two, it would be sent all the same."""
    clock = jumping()
    route = route_of(clock, *[Course(takes_s=60)] * 3)
    plan = batch_plan(tmp_path, one_question, batch={"queued_tokens": 50, "requests": 2})
    await run_batches(plan, route, clock, Options(detach=True))
    assert "built" in {pack.stage for pack in packs(plan)}, "one waits for room"

    inside = SqliteJournal.open(plan.folder, clock=clock)
    live = Scripted(answer)
    with contextlib.suppress(Crash):
        await run_batches(
            make_plan(tmp_path, one_question),
            route,
            clock,
            Options(detach=True),
            live=live,
            journal=CrashingJournal(inside, write=write, edge=edge),
        )
    inside.abandon()
    assert (await run_batches(plan, route, clock, live=live)).exit is Exit.DONE
    assert max(route.billed.values()) == 1
    doubts = len(doubts_of(plan.folder))
    assert sum(route.billed.values()) + len(live.answered) <= 4 + doubts
