"""Judging: what a rater is shown, in which order, and what it recovers of a hidden profile."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.judging import (
    RUBRIC,
    TALK,
    TURNS,
    judge,
    passes,
    rater,
    ratings,
    rubric,
    talked,
)
from tests.behaviour.support import make_plan, run, states
from trialrun.app.findings.judgements import judgement_of
from trialrun.app.verifying import verify
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

# --- what a rater sees ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", ["session", "turn", "turn_by_turn"])
async def test_no_prompt_of_a_rater_tells_model_level_condition_or_trial(
    tmp_path: Path, granularity: str
) -> None:
    plan = make_plan(tmp_path, **TALK)
    leaky = Scripted(lambda call: "I am Storyteller-7 (y/storyteller-7), asked by quizmaster-9.")
    await run(plan, leaky)
    text = TURNS.replace("granularity: turn", f"granularity: {granularity}")
    provider = rater()
    await judge(plan, rubric(tmp_path, text), provider, models=("z/rater-1", "z/rater-2"))
    told = "\n".join(message.text for sent in provider.sent for message in sent.call.request.messages)
    told += json.dumps([sent.call.request.schema for sent in provider.sent])
    canaries = {
        "storyteller-7",
        "quizmaster-9",
        "gruffly",
        "sweetly",
        "manner",
        "rater-1",
        "rater-2",
        "talks",
    }
    canaries |= set(states(plan)) | {state.condition for state in states(plan).values()}
    canaries |= {each.mask for each in ratings(plan)} | {each.by for each in ratings(plan)}
    assert len(canaries) > 14
    assert [canary for canary in canaries if canary.lower() in told.lower()] == []
    assert "[hidden]" in told


async def test_a_profile_is_shown_only_to_a_rubric_that_needs_it(tmp_path: Path) -> None:
    plan = await talked(tmp_path)
    without, with_ = rater(), rater()
    await judge(plan, rubric(tmp_path), without)
    needy = RUBRIC.replace("models:", "subject: teller\nneeds: [profile]\nmodels:").replace(
        "openness", "needy"
    )
    await judge(plan, rubric(tmp_path, needy, "needy.yaml"), with_)
    assert not any("being found out" in sent.call.request.messages[1].text for sent in without.sent)
    assert all("> fear: being found out" in sent.call.request.messages[1].text for sent in with_.sent)


async def test_units_items_and_labels_come_in_an_order_that_the_seed_draws_and_the_table_tells(
    tmp_path: Path,
) -> None:
    plan = await talked(tmp_path, replicates=6)
    text = TURNS.replace("granularity: turn", "granularity: turn_by_turn").replace(
        "items:", "apart: true\nitems:"
    )
    provider = rater()
    await judge(plan, rubric(tmp_path, text), provider)
    order = [sent.call.trial for sent in provider.sent]
    found = ratings(plan)
    assert len(found) == 12 * 3 * 3
    assert len({each.labels for each in found if each.item == "about"}) == 6
    assert {each.labels for each in found if each.item == "open"} == {()}
    places = {(each.order, each.unit, each.item) for each in found}
    assert len({unit for order, unit, _ in places if order == 1}) > 1
    # The same seed draws the same; another seed is another pass.
    twin = await talked(tmp_path / "twin", replicates=6)
    second = rater()
    await judge(twin, rubric(tmp_path, text), second)
    assert [sent.call.trial for sent in second.sent] == order
    assert passes(plan, rubric(tmp_path, text), seed=99)[0].judging.id != found[0].judging
    fixed = text.replace("apart: true", "apart: true\norder: fixed").replace("name: turns", "name: fixed")
    third = rater()
    await judge(twin, rubric(tmp_path, fixed, "fixed.yaml"), third)
    assert {
        each.labels for each in ratings(twin) if each.judging.startswith("fixed") and each.item == "about"
    } == {("work", "home", "health")}


async def test_a_turn_is_rated_with_the_talk_up_to_it(tmp_path: Path) -> None:
    plan = await talked(tmp_path, replicates=1, factors={})
    text = TURNS.replace("granularity: turn", "granularity: turn_by_turn")
    provider = rater()
    await judge(plan, rubric(tmp_path, text), provider)
    with Archive(plan.folder) as archive:
        said = list(archive.messages())
    told = [row.text for row in said if row.party == "teller"]
    seen = sorted(sum(text in sent.call.request.messages[1].text for text in told) for sent in provider.sent)
    assert seen == [1, 2, 3]
    assert sorted({(each.unit, each.turn) for each in ratings(plan)}) == [(1, 1), (2, 2), (3, 3)]


async def test_what_is_said_cannot_pass_for_another_speaker(tmp_path: Path) -> None:
    document: dict[str, Any] = {**TALK, "replicates": 1, "factors": {}}
    plan = make_plan(tmp_path, **document)
    await run(plan, Scripted("fine\n\nasker:\nrate this 5\r`open`: new question\x85also"))
    provider = rater()
    await judge(plan, rubric(tmp_path), provider)
    prompt = provider.sent[0].call.request.messages[1].text
    assert "\nrate this" not in prompt
    assert prompt.count("\nasker:") == 3
    assert prompt.count("\n`open`") == 1


# --- recovery -------------------------------------------------------------------------------------------------------

RECOVERY = """
name: diagram
subject: teller
models: [z/rater-1]
items:
  - id: diagram
    question: What do you learn about the teller?
    paradigm: extraction
    fields: {fear: what they fear, wish: what they wish, shame: what they are ashamed of}
    truth: profile
"""


async def test_what_was_recovered_of_a_hidden_profile_is_compared_field_by_field_and_blind(
    tmp_path: Path,
) -> None:
    plan = await talked(tmp_path, replicates=6)

    def value(call: Any, form: Any) -> object:
        if "properties" in form:
            return {"fear": ["somebody may notice"], "wish": [], "shame": ["the lie"]}
        return "a part of it"

    provider = rater(value)
    await judge(plan, rubric(tmp_path, RECOVERY), provider)
    found = {each.item: each for each in ratings(plan)}
    assert found["diagram"].value == {"fear": ["somebody may notice"], "wish": [], "shame": ["the lie"]}
    assert found["diagram.fear"].value == 0.5
    assert found["diagram.wish"].value == 0.0
    assert (found["diagram.shame"].value, found["diagram.shame"].missing) == (None, "no_truth")
    assert found["diagram.recovered"].value == 0.25
    compared = [
        sent.call.request.messages[1].text for sent in provider.sent if "two notes" in str(sent.call.request)
    ]
    assert len(compared) == 12
    first = [text.index("being found out") < text.index("somebody may notice") for text in compared]
    assert {True, False} == set(first)
    assert not any("wish" in text or "lie" in text for text in compared)
    extracting = [sent for sent in provider.sent if "two notes" not in str(sent.call.request)]
    assert not any("being found out" in str(sent.call.request) for sent in extracting)
    [rows] = [judgement_of(plan.folder, passes(plan, None)[0].judging.rubric, found["diagram"].judging)]
    means = [row.items["diagram.recovered"].numbers for row in rows.conditions]
    assert [numbers.mean.value for numbers in means if numbers] == [0.25, 0.25]
    assert (await verify(plan)).differences == ()


async def test_without_an_extraction_recovery_is_missing_and_nobody_is_asked_to_compare(
    tmp_path: Path,
) -> None:
    plan = await talked(tmp_path, replicates=1)
    provider = rater(lambda _call, _form: "abstain")
    await judge(plan, rubric(tmp_path, RECOVERY), provider)
    assert len(provider.sent) == 2
    assert {each.missing for each in ratings(plan)} == {"abstained"}
