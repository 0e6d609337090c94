"""Judging as a stage of its own: over finished trials, again and again, from the same money, blind, and replayable."""

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.judging import (
    RUBRIC,
    TALK,
    TURNS,
    filled,
    judge,
    judge_plan,
    passes,
    rater,
    ratings,
    rubric,
    talked,
)
from tests.behaviour.support import OnePrice, facts, make_plan, run, states, tables
from trialrun.app.exits import Exit
from trialrun.app.findings.tables import table_of
from trialrun.app.forks import fork
from trialrun.app.judging.previewing import preview_judging
from trialrun.app.running import Options
from trialrun.app.verifying import verify
from trialrun.core import facts as f
from trialrun.core.calls import Parsed
from trialrun.core.errors import RequestRefused, Unavailable, UsageError
from trialrun.core.identity import ID_LIMIT, call_id
from trialrun.store.archive import Archive
from trialrun.store.inspection import check
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted


async def test_a_pass_rates_every_finished_trial_and_leaves_the_study_as_it_was(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    before, table = tables(plan), table_of(plan.folder)
    provider = rater()
    ran = await judge(plan, rubric(tmp_path), provider)
    assert ran.exit is Exit.DONE
    assert len(provider.sent) == 4
    assert sorted(each.trial for each in ratings(plan)) == sorted(states(plan))
    assert [each.value for each in ratings(plan)] == [1, 1, 1, 1]
    assert tables(plan) == before
    after = table_of(plan.folder)
    assert (after.rows, after.planned, after.done, after.forks, after.outside) == (
        table.rows, table.planned, table.done, {}, 0,
    )  # fmt: skip
    [row] = after.passes
    assert after.money.spent_usd == table.money.spent_usd + row.spent_usd
    assert row.spent_usd == sum(each.cost_usd or 0 for each in ratings(plan)) > 0
    assert (row.done, row.planned, row.failed) == (4, 4, 0)


async def test_the_calls_of_a_pass_are_in_the_ledger_as_calls_of_a_judge(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    await judge(plan, rubric(tmp_path), rater())
    with Archive(plan.folder) as archive:
        calls = [call for call in archive.calls() if call.purpose == "judge"]
        assert archive.total().spent_usd == sum(call.cost_usd or 0 for call in archive.calls())
    assert len(calls) == 4
    assert all(len(call_id(call.trial, call.at)) <= ID_LIMIT - 7 for call in calls)


async def test_the_same_pass_again_asks_nothing_and_another_rubric_stands_beside_it(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    await judge(plan, rubric(tmp_path), rater())
    first = ratings(plan)
    again = rater()
    assert (await judge(plan, rubric(tmp_path), again)).exit is Exit.DONE
    assert (await judge(plan, None, again)).exit is Exit.DONE
    assert not again.sent
    changed = rubric(tmp_path, RUBRIC.replace("How open", "How very open"), "changed.yaml")
    other = rater(lambda _call, form: form.get("maximum"))
    await judge(plan, changed, other)
    assert len(other.sent) == 4
    assert [each for each in ratings(plan) if each.judging == first[0].judging] == first
    assert [each.value for each in ratings(plan) if each.judging != first[0].judging] == [5, 5, 5, 5]
    assert len(table_of(plan.folder).passes) == 2


async def test_more_raters_repeats_and_trials_extend_a_pass(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    file = rubric(tmp_path)
    await judge(plan, file, rater())
    provider = rater()
    await judge(plan, file, provider, models=("z/rater-2",), repeats=2)
    # The first rater comes again, as it was declared before, and everybody rates twice.
    assert Counter(sent.call.request.model for sent in provider.sent) == {"z/rater-1": 4, "z/rater-2": 8}
    wider = await talked(tmp_path, replicates=3)
    more = rater()
    await judge(wider, None, more)
    assert len(more.sent) == 2 * 2 * 2
    keys = [(each.trial, each.rater, each.repeat) for each in ratings(wider)]
    assert len(keys) == len(set(keys)) == 6 * 2 * 2


async def test_repeats_are_samples_of_their_own(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    provider = rater()
    await judge(plan, rubric(tmp_path), provider, repeats=3)
    keys = [sent.call.key for sent in provider.sent]
    assert len(keys) == len(set(keys)) == 12


async def test_a_pass_verifies_offline_and_a_changed_reply_is_noticed(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    await judge(plan, rubric(tmp_path, TURNS), rater())
    found = await verify(plan)
    assert (found.trials, found.skipped, found.differences) == (8, 0, ())
    assert check(plan.folder) == []


@pytest.mark.parametrize("edge", ["before", "after"])
async def test_a_pass_cut_at_any_write_goes_on_without_paying_twice(tmp_path: Path, edge: Any) -> None:
    whole = await talked(tmp_path / "whole", replicates=1)
    file = rubric(tmp_path, TURNS)
    await judge(whole, file, rater())
    plan = await talked(tmp_path / "cut", replicates=1)
    [found] = passes(plan, file)
    from trialrun.app.clock import SystemClock
    from trialrun.store.journal import SqliteJournal

    for write in range(1, 60):
        provider = rater()
        with Archive(plan.folder) as archive:
            paid = {(call.trial, call.at) for call in archive.calls() if call.status == "settled"}
        journal = SqliteJournal.open(plan.folder, clock=SystemClock())
        crashing = CrashingJournal(journal, write=write, edge=edge)
        try:
            ran = await judge_plan(found, provider, journal=crashing)
        except (Crash, BaseExceptionGroup):
            ran = None
        finally:
            journal.abandon()
        assert paid.isdisjoint((sent.call.trial, sent.call.address) for sent in provider.sent)
        if ran is not None and ran.exit is Exit.DONE:
            break
    else:
        raise AssertionError("it never came to its end")

    def told(of: Any) -> list[tuple[object, ...]]:
        return sorted(
            (each.mask, each.item, each.value, each.explanation, each.order) for each in ratings(of)
        )

    assert told(plan) == told(whole)
    assert len(told(plan)) == 2 * 3 * 3


async def test_a_budget_that_runs_out_stops_a_pass_and_a_higher_one_continues_it(tmp_path: Path) -> None:
    plan = await talked(tmp_path, budget_usd="0.01")
    spent = table_of(plan.folder).money.spent_usd
    file = rubric(tmp_path)
    [found] = passes(plan, file)
    ceiling = (await preview_judging(found, OnePrice())).one_trial.ceiling_usd
    cap = spent + Decimal(str(ceiling)) * Decimal("1.15")
    [found] = passes(plan, file, overrides={"budget_usd": str(cap), "limits.open_trials": 1})
    provider = rater()
    ran = await judge_plan(found, provider)
    assert ran.exit is Exit.BUDGET
    money = table_of(plan.folder).money
    assert money.spent_usd + money.held_usd <= cap
    assert 0 < len(provider.answered) < 4
    second = rater()
    ran = await judge(plan, None, second, overrides={"budget_usd": 1})
    assert ran.exit is Exit.DONE
    assert len(second.answered) + len(provider.answered) == 4
    assert found.judging.id == table_of(plan.folder).passes[0].id


async def test_the_cap_of_a_condition_is_for_its_own_trials(tmp_path: Path) -> None:
    plan = await talked(tmp_path, budget_usd={"study": 1, "condition": "0.01"})
    before = {row.condition: row.spent_usd for row in table_of(plan.folder).rows}
    ran = await judge(plan, rubric(tmp_path), rater(), repeats=30)
    assert ran.exit is Exit.DONE
    assert {row.condition: row.spent_usd for row in table_of(plan.folder).rows} == before
    assert (await run(plan, Scripted("never asked"))).exit is Exit.DONE


async def test_abstained_unreadable_and_refused_are_three_things_and_never_a_value(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    sources = sorted(states(plan))
    with Archive(plan.folder) as archive:
        texts = {row.text: row.trial for row in archive.messages()}

    def answer(call: Any) -> Any:
        prompt = call.request.messages[1].text
        source = next(trial for text, trial in texts.items() if text in prompt)
        match sources.index(source):
            case 0:
                return json.dumps(filled(call.request.schema, call, lambda _call, _form: "abstain"))
            case 1:
                return "no JSON at all"
            case 2:
                return RequestRefused("the content filter says no", status=400)
            case _:
                return Parsed(text="I would rather not.", finish="refusal")

    ran = await judge(plan, rubric(tmp_path), Scripted(answer))
    assert ran.exit is Exit.SOME_FAILED
    found = {each.trial: each for each in ratings(plan)}
    [row] = table_of(plan.folder).passes
    assert (row.done, row.unanswered, row.is_done) == (4, 3, False), "an abstention is an answer"
    assert [found[trial].missing for trial in sources] == ["abstained", "unreadable", "refused", "refused"]
    assert all(each.value is None for each in found.values())
    assert found[sources[0]].explanation
    assert (await verify(plan)).differences == ()


async def test_a_pass_of_abstentions_is_complete(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    ran = await judge(plan, rubric(tmp_path), rater(lambda _call, _form: "abstain"))
    assert ran.exit is Exit.DONE
    [row] = table_of(plan.folder).passes
    assert (row.unanswered, row.is_done) == (0, True)


CUT = Parsed(text='{"open": {"explan', finish="length")
REFUSED = Parsed(text="I would rather not.", finish="refusal")


@pytest.mark.parametrize(
    "trouble", ["no JSON at all", CUT, REFUSED, RequestRefused("no", status=400)], ids=str
)
@pytest.mark.parametrize("granularity", ["turn", "turn_by_turn"])
async def test_answers_that_were_of_no_use_are_asked_again_alone(
    tmp_path: Path, trouble: Any, granularity: str
) -> None:
    """Every other call is answered; the pass says 3 until the rest is asked again, and no good one is paid twice."""
    plan = await talked(tmp_path, replicates=1)
    file = rubric(tmp_path, TURNS.replace("granularity: turn", f"granularity: {granularity}"))
    good = rater()
    asked: list[Any] = []

    def answer(call: Any) -> Any:
        if call.purpose == "repair":
            return "no JSON again"
        asked.append(call)
        return trouble if len(asked) % 2 else json.dumps(filled(call.request.schema, call, None))

    assert (await judge(plan, file, Scripted(answer))).exit is Exit.SOME_FAILED
    before = ratings(plan)
    lost = [each for each in before if each.missing]
    assert lost
    assert (await judge(plan, None, good)).exit is Exit.SOME_FAILED, "also when there is nothing left to do"
    assert not good.sent
    [row] = table_of(plan.folder).passes
    assert row.unanswered == len(lost) < len(before)
    ran = await judge(plan, None, good, Options(retry_failed=True))
    assert ran.exit is Exit.DONE
    assert sorted((sent.call.trial, sent.call.address) for sent in good.sent) == sorted(
        (call.trial, call.address) for call in asked[::2]
    )
    after = ratings(plan)
    assert not any(each.missing for each in after)
    assert len(after) == len(before) == 2 * 3 * 3
    kept = [each._replace(cost_usd=None) for each in before if not each.missing]
    assert all(each in [one._replace(cost_usd=None) for one in after] for each in kept)
    assert (await verify(plan)).differences == ()
    assert check(plan.folder) == []


@pytest.mark.parametrize("edge", ["before", "after"])
async def test_asking_again_cut_at_any_write_goes_on_without_paying_twice(tmp_path: Path, edge: Any) -> None:
    from trialrun.app.clock import SystemClock
    from trialrun.store.journal import SqliteJournal

    plan = await talked(tmp_path, replicates=1)
    await judge(plan, rubric(tmp_path, TURNS), Scripted(lambda _: CUT))
    for write in range(1, 60):
        journal = SqliteJournal.open(plan.folder, clock=SystemClock())
        [found] = passes(plan, None)
        try:
            crashing = CrashingJournal(journal, write=write, edge=edge)
            ran = await judge_plan(found, rater(), Options(retry_failed=True), journal=crashing)
        except (Crash, BaseExceptionGroup):
            ran = None
        finally:
            journal.abandon()
        if ran is not None and ran.exit is Exit.DONE:
            break
    else:
        raise AssertionError("it never came to its end")
    assert not any(each.missing for each in ratings(plan))
    with Archive(plan.folder) as archive:
        settled = Counter(
            call.trial for call in archive.calls() if call.purpose == "judge" and call.status == "settled"
        )
    assert set(settled.values()) == {2}, "once for the answer that was cut, once for the one that was not"
    assert (await verify(plan)).differences == ()


async def test_a_comparison_with_the_profile_that_was_cut_is_asked_again_and_the_extraction_is_not(
    tmp_path: Path,
) -> None:
    plan = await talked(tmp_path, replicates=1)
    file = rubric(
        tmp_path,
        "name: diagram\nsubject: teller\nmodels: [z/rater-1]\nitems:\n  - {id: diagram, question: What?, paradigm: "
        "extraction, fields: {fear: what they fear, wish: what they wish}, truth: profile}\n",
    )
    cut = Scripted(
        lambda call: (
            CUT if "two notes" in str(call.request) else json.dumps(filled(call.request.schema, call, None))
        )
    )
    assert (await judge(plan, file, cut)).exit is Exit.SOME_FAILED
    good = rater(lambda _call, form: "a part of it" if "enum" in form else None)
    assert (await judge(plan, None, good, Options(retry_failed=True))).exit is Exit.DONE
    assert len(good.sent) == 2
    assert all("two notes" in str(sent.call.request) for sent in good.sent)
    found = [each for each in ratings(plan) if each.item == "diagram.recovered"]
    assert [(each.value, each.missing) for each in found] == [(0.5, "")] * 2
    assert (await verify(plan)).differences == ()


async def test_a_provider_that_is_out_of_reach_fails_the_rating_and_not_the_talk(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    down = Scripted(lambda call: Unavailable("overloaded", status=503))
    options: dict[str, Any] = {"overrides": {"limits.call_attempts": 1}}
    ran = await judge(plan, rubric(tmp_path), down, **options)
    assert ran.exit is not Exit.DONE
    assert not ratings(plan)
    assert {state.status for state in states(plan).values()} == {"done"}
    provider = rater()
    ran = await judge(plan, None, provider, Options(retry_failed=True), **options)
    assert ran.exit is Exit.DONE
    assert len(ratings(plan)) == 4


async def test_a_run_of_the_study_leaves_rating_trials_alone(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    down = Scripted(lambda call: Unavailable("overloaded", status=503))
    await judge(plan, rubric(tmp_path), down, overrides={"limits.call_attempts": 1})
    provider = Scripted("never asked")
    assert (await run(plan, provider, Options(retry_failed=True))).exit is Exit.DONE
    assert not provider.sent


async def test_trials_that_are_run_anew_are_judged_anew_and_old_ratings_no_longer_count(
    tmp_path: Path,
) -> None:
    plan = await talked(tmp_path)
    file = rubric(tmp_path)
    await judge(plan, file, rater())
    parties = {**TALK["parties"], "teller": {**TALK["parties"]["teller"], "prompt": "You tell it all."}}
    document: dict[str, Any] = {**TALK, "parties": parties}
    changed = make_plan(tmp_path, **document)
    await run(changed, Scripted("told anew"), Options(consent="redo"))
    assert ratings(changed) == []
    provider = rater()
    await judge(changed, file, provider)
    assert len(provider.sent) == len(ratings(changed)) == 4
    found = await verify(changed)
    assert (found.trials, found.skipped, found.differences) == (8, 4, ())


async def test_forks_are_judged_when_asked_for(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    source = min(states(plan))
    forked = await fork(plan, source, turn=2, overrides={"parties.asker.values.manner": "oddly"})
    await run(plan, Scripted("something else"))
    file = rubric(tmp_path)
    await judge(plan, file, rater())
    assert forked not in {each.trial for each in ratings(plan)}
    provider = rater()
    await judge(plan, file, provider, forks=True)
    [sent] = provider.sent
    assert "something else" in sent.call.request.messages[1].text
    assert forked in {each.trial for each in ratings(plan)}
    assert (await verify(plan)).differences == ()


# --- before it is paid ----------------------------------------------------------------------------------------------


async def test_a_preview_tells_calls_and_money_and_what_is_left(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    file = rubric(tmp_path, TURNS)
    [found] = passes(plan, file, repeats=2)
    preview = await preview_judging(found, OnePrice())
    assert (preview.trials, preview.left, preview.all_left.calls.high) == (8, 8, 8)
    assert preview.all_left.ceiling_usd
    assert "What was said" in preview.prompts[0].messages[1].text
    provider = rater()
    await judge_plan(found, provider)
    assert len(provider.sent) == 8
    spent = float(table_of(plan.folder).passes[0].spent_usd)
    assert spent <= preview.all_left.ceiling_usd
    assert (await preview_judging(passes(plan, file)[0], OnePrice())).left == 0


@pytest.mark.parametrize(
    ("change", "what", "fix"),
    [
        ({"subject: teller": "subject: tellr"}, "`tellr`", "did you mean `teller`?"),
        ({"name: turns": "name: turns\nroles: {askr: A}"}, "`askr`", "did you mean `asker`?"),
        ({"name: turns": "name: turns\nneeds: [profile]\nprofile: secrets"}, "`secrets`", "profile:"),
    ],
)
async def test_a_rubric_that_cannot_work_here_is_refused_before_anything_is_paid(
    tmp_path: Path, change: dict[str, str], what: str, fix: str
) -> None:
    plan = await talked(tmp_path)
    text = TURNS
    for old, new in change.items():
        text = text.replace(old, new)
    [found] = passes(plan, rubric(tmp_path, text))
    with pytest.raises(UsageError) as caught:
        await preview_judging(found, OnePrice())
    assert what in caught.value.what
    assert fix in caught.value.fix


async def test_a_pass_is_declared_with_its_rubric_in_the_archive(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    file = rubric(tmp_path)
    await judge(plan, file, rater())
    file.unlink()
    [fact] = [fact for fact in facts(plan) if isinstance(fact, f.Judging)]
    with Archive(plan.folder) as archive:
        assert archive.texts([fact.source])[fact.source] == RUBRIC
    kept = plan.folder / "rubrics" / f"{fact.id}.yaml"
    again = rater()
    await judge(plan, kept, again)
    assert not again.sent
    assert [fact for fact in facts(plan) if isinstance(fact, f.Judging)] == [fact]
