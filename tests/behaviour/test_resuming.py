"""Stop anywhere, change something, go on: what is paid is kept, and what would be redone is asked first."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import BASE, OnePrice, facts, make_plan, run, states, tables
from trialrun.app.exits import Exit
from trialrun.app.findings.rows import table
from trialrun.app.findings.tables import table_of
from trialrun.app.forks import fork
from trialrun.app.previewing import preview
from trialrun.app.running import Control, Options
from trialrun.app.verifying import verify
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.errors import AuthRefused, ConsentNeeded, QuotaExhausted, StudyMistakes
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

CONVERSATION: dict[str, Any] = {
    "procedure": "conversation",
    "parties": {
        "a": {"model": "x/m", "prompt": "You are {{ mood }}.", "values": {"mood": "calm"}, "max_tokens": 50},
        "b": {"model": "x/n", "prompt": "You listen.", "max_tokens": 50},
    },
    "settings": {"max_turns": 4},
}


def echo() -> Scripted:
    return Scripted(lambda call: f"{call.party} {call.address} to {len(call.request.messages)} messages")


async def test_a_finished_study_run_again_asks_nothing(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    await run(plan)
    before, provider = tables(plan), Scripted("never asked")
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert not provider.sent
    assert tables(plan) == before


async def test_more_replicates_and_levels_extend_a_study_without_a_question(tmp_path: Path) -> None:
    await run(make_plan(tmp_path))
    provider = echo()
    wider = make_plan(
        tmp_path, factors={"mood": {"parties.a.values.mood": ["wild", "sad", "calm"]}}, replicates=3
    )
    ran = await run(wider, provider)
    assert ran.exit is Exit.DONE
    assert len(states(wider)) == 9
    assert len(provider.sent) == 5


async def test_a_changed_prompt_lists_what_changed_and_wants_consent(tmp_path: Path) -> None:
    await run(make_plan(tmp_path, **CONVERSATION), echo())
    parties = {**CONVERSATION["parties"], "b": {"model": "x/n", "prompt": "You interrupt.", "max_tokens": 50}}
    document: dict[str, Any] = {**CONVERSATION, "parties": parties}
    changed = make_plan(tmp_path, **document)
    provider = echo()
    with pytest.raises(ConsentNeeded) as caught:
        await run(changed, provider)
    assert not provider.sent
    assert "parties.b.prompt" in caught.value.what
    assert "You interrupt." in caught.value.what
    assert "4 trials that already ran" in caught.value.what
    assert "--redo" in caught.value.fix


async def test_redo_runs_the_touched_trials_anew_and_their_old_cost_stays_counted(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    first = await run(plan)
    harsher = {
        "a": {"model": "x/m", "prompt": "Be {{ mood }}!", "values": {"mood": "calm"}, "max_tokens": 50}
    }
    changed = make_plan(tmp_path, parties=harsher)
    provider = echo()
    ran = await run(changed, provider, Options(consent="redo"))
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 4
    assert ran.live.spent_usd > first.live.spent_usd
    assert all(state.generation == 1 for state in states(changed).values())
    assert (await run(changed, Scripted("never"))).exit is Exit.DONE


async def test_keep_leaves_ended_trials_and_writes_the_deviation_down(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    await run(plan)
    harsher = {
        "a": {"model": "x/m", "prompt": "Be {{ mood }}!", "values": {"mood": "calm"}, "max_tokens": 50}
    }
    changed = make_plan(tmp_path, parties=harsher, replicates=3)
    provider = echo()
    ran = await run(changed, provider, Options(consent="keep"))
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 2
    declared = [fact for fact in facts(changed) if isinstance(fact, f.Declared)]
    assert "4 kept as they were" in declared[-1].reason

    wider = make_plan(tmp_path, parties=harsher, replicates=4)
    assert (await run(wider)).exit is Exit.DONE, "what was agreed to is not asked again"


async def test_what_was_kept_is_shown_and_replays_under_its_own_plan(tmp_path: Path) -> None:
    await run(make_plan(tmp_path))
    harsher = {
        "a": {"model": "x/m", "prompt": "Be {{ mood }}!", "values": {"mood": "calm"}, "max_tokens": 50}
    }
    changed = make_plan(tmp_path, parties=harsher, replicates=3)
    await run(changed, echo(), Options(consent="keep"))
    assert table_of(changed.folder).deviating == 4
    with Archive(changed.folder) as archive:
        trials = table(archive, "trials", "live")
        place = trials.columns.index("spec")
        assert len({str(row[place]) for row in trials.rows}) == 4, "two conditions, each under two plans"
    found = await verify(changed)
    assert (found.trials, found.skipped, found.differences) == (6, 0, ())

    await run(changed, echo(), Options(consent="redo"))
    assert table_of(changed.folder).deviating == 0


async def test_trials_whose_code_is_gone_are_not_called_exact(tmp_path: Path) -> None:
    async def other_question(trial: Trial, lab: Lab) -> dict[str, object]:
        return {"answer": str(await lab.ask("a", f"Another question {trial.replicate}?"))}

    await run(make_plan(tmp_path))
    changed = make_plan(tmp_path, other_question)
    await run(changed, echo(), Options(consent="keep"))
    found = await verify(changed)
    assert (found.trials, found.skipped) == (0, 4)
    assert not found.is_exact


async def test_what_was_kept_can_be_run_anew_later(tmp_path: Path) -> None:
    await run(make_plan(tmp_path))
    harsher = {
        "a": {"model": "x/m", "prompt": "Be {{ mood }}!", "values": {"mood": "calm"}, "max_tokens": 50}
    }
    changed = make_plan(tmp_path, parties=harsher, replicates=3)
    await run(changed, echo(), Options(consent="keep"))
    provider = echo()
    ran = await run(changed, provider, Options(consent="redo"))
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 4, "those that were kept, and none that ran under this plan"
    assert (await run(changed, Scripted("never"), Options(consent="redo"))).exit is Exit.DONE
    declared = [fact for fact in facts(changed) if isinstance(fact, f.Declared)]
    assert "4 trials" in declared[-1].reason
    assert "redone" in declared[-1].reason


async def test_changed_code_of_a_procedure_wants_consent_too(tmp_path: Path) -> None:
    async def other_question(trial: Trial, lab: Lab) -> dict[str, object]:
        return {"answer": str(await lab.ask("a", f"Another question {trial.replicate}?"))}

    await run(make_plan(tmp_path))
    with pytest.raises(ConsentNeeded) as caught:
        await run(make_plan(tmp_path, other_question))
    assert "the code of procedure `mine` changed" in caught.value.what


async def test_another_seed_is_another_study_and_wants_consent(tmp_path: Path) -> None:
    await run(make_plan(tmp_path))
    with pytest.raises(ConsentNeeded) as caught:
        await run(make_plan(tmp_path, seed=2), Scripted("never"))
    assert "seed" in caught.value.what


async def test_limits_and_budgets_may_change_at_any_time(tmp_path: Path) -> None:
    await run(make_plan(tmp_path))
    ran = await run(
        make_plan(tmp_path, budget_usd=3, limits={"open_trials": 3}, question="Why?"), Scripted("never")
    )
    assert ran.exit is Exit.DONE


@pytest.mark.parametrize("level", ["study", "condition", "trial"])
async def test_a_cap_is_for_all_runs_together_and_not_for_each(tmp_path: Path, level: str) -> None:
    async def many_questions(trial: Trial, lab: Lab) -> dict[str, object]:
        return {str(number): (await lab.ask("a", f"Question {number}?")).text for number in range(30)}

    cap = Decimal("0.06")
    plan = make_plan(tmp_path, many_questions, replicates=1, budget_usd={level: str(cap)})
    for _ in range(4):
        assert (await run(plan, usd_per_million="100")).exit is Exit.BUDGET
        spent = [state.spent_usd + state.held_usd for state in states(plan).values()]
        assert min(spent) > 0
        assert (sum(spent) if level == "study" else max(spent)) <= cap


async def test_a_study_stopped_by_its_budget_goes_on_when_it_is_raised(tmp_path: Path) -> None:
    poor = make_plan(tmp_path, replicates=30, budget_usd="0.002")
    ran = await run(poor, usd_per_million="10")
    assert ran.exit is Exit.BUDGET
    assert ran.live.spent_usd + ran.live.held_usd <= Decimal("0.002")
    done = [state for state in states(poor).values() if state.status == "done"]
    assert 0 < len(done) < 60
    assert not any(state.status == "failed" for state in states(poor).values())

    provider = echo()
    rich = make_plan(tmp_path, replicates=30, budget_usd="1")
    ran = await run(rich, provider, usd_per_million="10")
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 60 - len(done)


async def test_a_condition_cap_stops_its_condition_alone(tmp_path: Path) -> None:
    def lengthy(call: Call) -> str:
        return "long " * 40 if "wild" in call.request.messages[0].text else "short"

    plan = make_plan(tmp_path, replicates=20, budget_usd={"condition": "0.01"}, limits={"open_trials": 2})
    ran = await run(plan, Scripted(lengthy), usd_per_million="10")
    done = [state.levels["mood"] for state in states(plan).values() if state.status == "done"]
    assert ran.exit is Exit.BUDGET
    assert done.count("calm") == 20
    assert 0 < done.count("wild") < 20


async def test_a_trial_cap_stops_a_long_trial_and_lets_the_others_finish(tmp_path: Path) -> None:
    async def talks(trial: Trial, lab: Lab) -> dict[str, object]:
        turns = 30 if trial.condition["mood"] == "wild" else 2
        for number in range(turns):
            await lab.ask("a", f"Question {number}?")
        return {"turns": turns}

    plan = make_plan(tmp_path, talks, budget_usd={"trial": "0.005"})
    ran = await run(plan, usd_per_million="10")
    assert ran.exit is Exit.BUDGET
    statuses = sorted((state.levels["mood"], state.status) for state in states(plan).values())
    assert statuses == [("calm", "done")] * 2 + [("wild", "stopped_by_budget")] * 2
    assert all(state.spent_usd <= Decimal("0.005") for state in states(plan).values())


@pytest.mark.parametrize(
    ("stop", "exit_"),
    [
        (AuthRefused("the key is not accepted", fix="check X_API_KEY"), Exit.STOPPED),
        (QuotaExhausted("the account has no credit left"), Exit.STOPPED),
    ],
)
async def test_quota_and_auth_stop_the_study_and_leave_trials_unfinished(
    tmp_path: Path, stop: Exception, exit_: Exit
) -> None:
    plan = make_plan(tmp_path, replicates=10, limits={"open_trials": 2})
    answers: list[str | Exception] = ["fine", "fine", "fine", stop, stop, stop]
    ran = await run(plan, Scripted(answers))
    assert ran.exit is exit_
    assert ran.stopped_by is stop
    found = [state.status for state in states(plan).values()]
    assert found.count("done") == 3
    assert "failed" not in found
    assert (await run(plan)).exit is Exit.DONE


async def test_the_first_interrupt_lets_calls_in_flight_settle_and_begins_nothing(tmp_path: Path) -> None:
    control, in_flight, release = Control(), 0, asyncio.Event()

    async def slow(call: Call) -> str:
        nonlocal in_flight
        in_flight += 1
        if in_flight == 3:
            control.interrupt()
            release.set()
        await release.wait()
        return "settled"

    provider = Scripted(slow)
    plan = make_plan(tmp_path, **CONVERSATION, replicates=10, limits={"open_trials": 3})
    ran = await run(plan, provider, control=control)
    assert ran.exit is Exit.INTERRUPTED
    assert len(provider.answered) == len(provider.sent) == 3
    assert ran.live.held_usd == 0
    again = echo()
    assert (await run(plan, again)).exit is Exit.DONE
    assert {call.place for call in again.calls}.isdisjoint({call.place for call in provider.calls})


async def test_the_second_interrupt_stops_at_once_and_the_study_can_go_on(tmp_path: Path) -> None:
    control = Control()

    async def never(call: Call) -> str:
        control.interrupt()
        await asyncio.sleep(3600)
        return "never"

    plan = make_plan(tmp_path, limits={"open_trials": 2})
    with pytest.raises(asyncio.CancelledError):
        await run(plan, Scripted(never), control=control)
    doubted = [state for state in states(plan).values() if state.held_usd > 0]
    assert doubted, "what was in flight may have been billed, and stays counted"
    assert (await run(plan)).exit is Exit.DONE


async def test_a_fork_shares_the_past_and_changes_the_future(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, **CONVERSATION, factors={}, replicates=1)
    await run(plan, echo())
    (source,) = states(plan)
    id_ = await fork(plan, source, turn=3, overrides={"parties.a.values.mood": "furious"})
    provider = echo()
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert {call.turn for call in provider.calls} == {3, 4}, "turns 1 and 2 come from the source"
    furious = [call for call in provider.calls if call.party == "a"]
    assert all(call.request.messages[0].text == "You are furious." for call in furious)
    assert furious[0].request.messages[2].text.startswith("a ")
    assert states(plan)[id_].turns == 4
    assert (await verify(plan)).differences == ()

    second = await fork(plan, id_, turn=4, overrides={"parties.b.prompt": "You shout."})
    provider = echo()
    await run(plan, provider)
    assert {(call.turn, call.party) for call in provider.calls} == {(4, "a"), (4, "b")} or {
        (call.turn, call.party) for call in provider.calls
    } == {(4, "b")}
    assert states(plan)[second].status == "done"
    assert (await verify(plan)).differences == ()


async def test_a_finished_study_verifies_and_a_touched_one_does_not(tmp_path: Path) -> None:
    async def measured(trial: Trial, lab: Lab) -> dict[str, object]:
        reply = await lab.ask("a", "Well?")
        lab.measure("length", len(reply.text) + trial.replicate + offset)
        lab.state("a", mood=lab.random("mood").random())
        return {"answer": reply.text}

    offset = 0
    plan = make_plan(tmp_path, measured)
    await run(plan)
    good = await verify(plan)
    assert (good.trials, good.differences) == (4, ())
    offset = 1
    bad = await verify(plan)
    assert len(bad.differences) == 4
    assert all("measured" in difference.what for difference in bad.differences)


async def test_a_replay_that_never_comes_to_what_is_recorded_is_a_difference(tmp_path: Path) -> None:
    async def twice(trial: Trial, lab: Lab) -> dict[str, object]:
        await lab.ask("a", "Well?")
        if asks_again:
            await lab.ask("a", "And?")
        return {}

    asks_again = True
    plan = make_plan(tmp_path, twice)
    await run(plan)
    asks_again = False
    found = await verify(plan)
    assert len(found.differences) == 4
    assert all("never came to 1" in difference.what for difference in found.differences)


async def test_a_dead_factor_is_found_by_walking(tmp_path: Path) -> None:
    alive = make_plan(tmp_path, **CONVERSATION)
    assert (await preview(alive, OnePrice())).conditions == 2
    dead = make_plan(tmp_path, **CONVERSATION, factors={"hat": {"parties.b.values.hat": ["red", "blue"]}})
    with pytest.raises(StudyMistakes) as caught:
        await preview(dead, OnePrice())
    assert "send the same requests" in caught.value.report()
    assert "`hat` changes nothing" in caught.value.report()


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("openai/gpt-5-mini", {"service_tier": "priority"}),
        ("openai/gpt-5-mini", {"n": 4}),
        ("openrouter/openai/gpt-5-mini", {"models": ["openai/o1-pro"]}),
        ("openai-responses/gpt-5-mini", {"prompt": {"id": "pmpt_1"}}),
        ("anthropic/claude-haiku-4-5", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
        ("google/gemini-2.5-flash", {"cachedContent": "cachedContents/1"}),
    ],
)
async def test_a_plan_says_which_parameters_would_go_behind_the_ceiling(
    tmp_path: Path, model: str, params: dict[str, Any]
) -> None:
    party = {**BASE["parties"]["a"], "model": model, "params": params}
    with pytest.raises(StudyMistakes) as caught:
        await preview(make_plan(tmp_path, parties={"a": party}), OnePrice())
    assert "`params` may not set" in caught.value.report()


async def test_the_order_is_balanced_and_both_orders_are_stored(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, replicates=10, limits={"open_trials": 1})
    await run(plan)
    in_order = sorted(states(plan).values(), key=lambda state: state.actual)
    assert [state.actual for state in in_order] == list(range(20))
    assert [state.planned for state in in_order] == sorted(state.planned for state in in_order)
    for stop in range(1, 20):
        moods = [state.levels["mood"] for state in in_order[:stop]]
        assert abs(moods.count("calm") - moods.count("wild")) <= 1


async def test_memory_of_a_conversation_is_linear_in_its_turns(tmp_path: Path) -> None:
    sizes = []
    for turns in (20, 80):
        document: dict[str, Any] = {**CONVERSATION, "settings": {"max_turns": turns}, "factors": {}}
        plan = make_plan(tmp_path / str(turns), **document, replicates=1)
        await run(plan, Scripted(lambda call: f"{call.party} {call.address} " + "word " * 100))
        sizes.append((plan.folder / "study.db").stat().st_size)
    assert sizes[1] / sizes[0] < 4.6
