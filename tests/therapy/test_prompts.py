"""What the models of a session are told: all that their part needs, and nothing that contradicts it."""

from pathlib import Path
from typing import cast

import pytest

from tests.behaviour.support import run
from tests.therapy.sessions import CASTS, client, far_end, session, talk_of, therapist
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.core.calls import Call
from trialrun.procedures.therapy.shelf import SHELF


def spoken(calls: list[Call], party: str) -> list[Call]:
    """What was asked for to be said aloud."""
    return [call for call in calls if call.party == party and call.request.schema is None]


def system_of(call: Call) -> str:
    return " ".join(call.request.messages[0].text.split())


@pytest.mark.parametrize("method", CASTS)
async def test_a_client_knows_how_it_came(tmp_path: Path, method: str):
    provider = far_end()
    plan = session(tmp_path, one=client(method), settings={"max_turns": 1})
    await run(plan, provider)
    replies = spoken(provider.calls, "client")
    assert replies
    assert all(str(SHELF[CASTS[method]]["referral"]) in system_of(call) for call in replies)


@pytest.mark.parametrize("method", ["CBT", "MI", "basic", "bad"])
async def test_every_therapist_knows_what_comes_before_its_method(tmp_path: Path, method: str):
    provider = far_end()
    plan = session(tmp_path, other=therapist(method), settings={"max_turns": 2})
    await run(plan, provider)
    replies = spoken(provider.calls, "therapist")
    assert replies
    for call in replies:
        assert "harm themselves or others" in system_of(call)
        assert "emergency number and a crisis line" in system_of(call)


@pytest.mark.parametrize("method", ["CBT", "MI", "basic", "bad"])
async def test_a_therapist_knows_the_whole_introduction_and_no_aim_where_there_is_none(
    tmp_path: Path, method: str
):
    for name, one in (("with", client("consistentMI")), ("without", client())):
        provider = far_end()
        plan = session(tmp_path / name, one=one, other=therapist(method), settings={"max_turns": 2})
        await run(plan, provider)
        for call in spoken(provider.calls, "therapist"):
            character = one["character"]
            assert character["name"] in system_of(call)
            assert character["referral"] in system_of(call)
            assert ("to drink less alcohol" in system_of(call)) == (name == "with")
            assert ("The aim of" in system_of(call)) == (name == "with" or method == "MI")


async def test_a_human_therapist_is_told_the_introduction_once(tmp_path: Path):
    plan = session(tmp_path, one=client("consistentMI"), other=therapist("user"), settings={"max_turns": 2})
    seen: list[str] = []
    while (await run(plan, far_end())).exit is Exit.PARKED:
        (question,) = open_questions(plan.folder)
        seen.append(question.question)
        await answer(plan.folder, question, "And then?", by="a person")
    assert ["to drink less alcohol" in text for text in seen] == [True, False]
    assert "Anton" in seen[0]
    assert str(SHELF["anton"]["referral"]) in seen[0]


@pytest.mark.parametrize("method", ["MI", "eliza"])
async def test_a_greeting_is_one_line(tmp_path: Path, method: str):
    plan = session(tmp_path, other=therapist(method), settings={"max_turns": 1})
    await run(plan, far_end())
    (_, greeting), *_ = talk_of(plan)
    assert len(greeting) > 20
    assert "\n" not in greeting


async def test_a_draft_is_written_with_the_principles_before_it_is_checked(tmp_path: Path):
    provider = far_end()
    plan = session(tmp_path, one=client("roleplayDoh"), settings={"max_turns": 1})
    await run(plan, provider)
    (draft,) = [call for call in provider.calls if call.purpose == "draft"]
    for principle in cast("list[str]", SHELF["felix"]["principles"]):
        assert principle in system_of(draft)


async def test_each_grade_of_resistance_is_told_as_behaviour(tmp_path: Path):
    told: set[str] = set()
    for grade in ("low", "medium", "high"):
        provider = far_end()
        character = {**SHELF["margit-moderate"], "resistance": grade}
        plan = session(tmp_path / grade, one=client("eeyore", character=character), settings={"max_turns": 1})
        await run(plan, provider)
        (reply,) = spoken(provider.calls, "client")
        told.add(system_of(reply).replace(f" {grade}.", ""))
    assert len(told) == 3, "more than a word differs"
