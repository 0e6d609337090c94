"""Motivational interviewing on both sides: the therapist's rounds, and the client's stages, topics and patience."""

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import run, states
from tests.therapy.sessions import client, far_end, logged, session, texts, therapist
from trialrun.core.calls import Call
from trialrun.procedures.therapy.shelf import SHELF


async def test_the_mi_therapist_greets_explores_and_refines(tmp_path: Path):
    scores = iter([3, 5, 9, 9, 9])
    provider = far_end(feedback=lambda call: {"feedback": "Warmer.", "score": next(scores)})
    plan = session(tmp_path, one=client("consistentMI"), other=therapist("MI"), settings={"max_turns": 3})
    await run(plan, provider)
    made = [(call.turn, call.purpose) for call in provider.calls if call.party == "therapist"]
    assert not [purpose for turn, purpose in made if turn == 1], "the greeting needs no model"
    second = [purpose for turn, purpose in made if turn == 2]
    assert second == [
        *("stage", "choose_strategies", "first_topic"),
        *("candidate", "candidate", "candidate", "selection"),
        *("feedback", "refinement", "feedback", "refinement", "feedback"),
    ]
    third = [purpose for turn, purpose in made if turn == 3]
    assert "next_topic" in third
    first, later = logged(plan, "therapist")
    assert (first["topics"], first["score"], first["rounds"]) == (["health"], 9, 3)
    assert (later["rounds"], later["strategies"]) == (1, ["affirm", "reflect_simple"])
    asked = next(call for call in provider.calls if call.purpose == "stage")
    assert "to drink less alcohol" in texts(asked), "the goal is the client's"


async def test_whoever_is_off_topic_too_long_is_left(tmp_path: Path):
    plan = session(
        tmp_path,
        one=client("consistentMI"),
        settings={"max_turns": 20, "patience_turns": 2, "remind_turns": 0},
    )
    provider = far_end(topic={"topic": "examinations"})
    await run(plan, provider)
    (state,) = states(plan).values()
    assert (state.end_reason, state.values["turns"]) == ("client_terminated", 7), "2 of patience and 5 errors"
    found = logged(plan)
    assert [each["off_topic"] for each in found] == [0, 0, 1, 2, 3, 4, 5]
    assert found[-1]["action"] == "terminate"
    assert found[0]["receptivity"] > found[-1]["receptivity"], "receptivity moves"
    kept = session(
        tmp_path / "kept",
        one=client("consistentMI"),
        settings={"patience_turns": 2, "receptivity_drift": 0, "max_turns": 4},
    )
    await run(kept, far_end(topic={"topic": "examinations"}))
    assert {each["receptivity"] for each in logged(kept)} == {2.6}


NEAR = {"examinations": 1, "quarrels": 2, "partnership": 3, "being an example": 4}
"""Topics at each grade of distance from what moves Anton."""


@pytest.mark.parametrize(("topic", "level"), NEAR.items())
async def test_the_nearer_the_talk_is_to_the_motive_the_narrower_the_topic_that_shows(
    tmp_path: Path, topic: str, level: int
):
    """What a counsellor can follow: nothing, the field, what is in it, and the thing itself; never the reason."""
    provider = far_end(topic={"topic": topic})
    plan = session(tmp_path, one=client("consistentMI"), settings={"max_turns": 1})
    await run(plan, provider)
    assert logged(plan)[0]["engagement"] == level
    (reply,) = [call for call in provider.calls if call.party == "client" and call.purpose == "reply"]
    direction = reply.request.messages[-1].text
    shown = {name for name in ("relationships (", "parenthood (", "being an example (") if name in direction}
    assert (
        shown
        == {
            1: set[str](),
            2: {"relationships (", "parenthood ("},
            3: {"parenthood (", "being an example ("},
            4: {"being an example ("},
        }[level]
    )
    assert "poured you a beer" not in texts(reply), "nothing has touched it"


async def test_a_greeting_moves_nobody(tmp_path: Path):
    plan = session(tmp_path, one=client("consistentMI"), settings={"patience_turns": 0})
    await run(plan, far_end(topic={"topic": "nothing in particular"}))
    seen = {
        tuple(each[key] for key in ("topic", "engagement", "receptivity", "off_topic"))
        for each in logged(plan)
    }
    assert seen == {(None, 2, 2.6, 0)}


async def test_facts_are_known_and_reasons_come_one_by_one(tmp_path: Path):
    """Who has a wife cannot deny her when asked; but what speaks against a change is said when its time comes."""

    def action(call: Call) -> Any:
        properties: Any = (call.request.schema or {})["properties"]
        return {name: int(name == "hesitate") for name in properties}

    provider = far_end(lambda call: "And then?" if call.party == "therapist" else "Hm.", action=action)
    character: dict[str, Any] = {**SHELF["anton"], "stage": "contemplation"}
    plan = session(tmp_path, one=client("consistentMI", character=character))
    await run(plan, provider)
    replies = [call for call in provider.calls if call.party == "client" and call.purpose == "reply"]
    assert len(replies) == 3
    for call, state in zip(replies, logged(plan), strict=True):
        said = texts(call)
        assert all(fact in said for fact in character["personas"])
        assert [belief for belief in character["beliefs"] if belief in said] == [state["item"]]
        assert not any(plan_ in said for plan_ in character["plans"])
        assert "half an ear" not in said, "no hints for those who have found it"


async def test_an_item_is_asked_for_with_what_it_is_to_do(tmp_path: Path):
    def action(call: Call) -> Any:
        properties: Any = (call.request.schema or {})["properties"]
        return {name: int(name == "blame") * 100 for name in properties}

    provider = far_end(lambda _: "Why?", action=action)
    plan = session(tmp_path, one=client("consistentMI"), settings={"max_turns": 8})
    await run(plan, provider)
    blaming = [turn for turn, state in enumerate(logged(plan), start=1) if state["action"] == "blame"]
    asked = [call for call in provider.calls if call.purpose == "item" and call.turn in blaming]
    assert asked
    assert all("other people or circumstances" in texts(call) for call in asked)


async def test_a_motive_that_is_met_leads_through_the_stages_to_action(tmp_path: Path):
    likely = {"hesitate": 100, "plan": 100, "accept": 1}

    def action(call: Call) -> Any:
        properties: Any = (call.request.schema or {})["properties"]
        return {name: likely.get(name, 0) for name in properties}

    provider = far_end(
        lambda call: "And what else?" if call.party == "therapist" else "Hm.",
        topic={"topic": "being an example"},
        motive={"answer": True},
        item=lambda call: {"answer": "card evening" in texts(call)},
        action=action,
    )
    plan = session(tmp_path, one=client("consistentMI"), settings={"max_turns": 8})
    await run(plan, provider)
    found = logged(plan)
    stages = [each["stage"] for each in found]
    assert stages == ["motivation", *["contemplation"] * 3, *["preparation"] * 2, *["action"] * 2]
    assert found[0]["action"] == "acknowledge"
    assert "card evening" in found[1]["item"], "the first item that answers the question"
    assert [each["beliefs_left"] for each in found[:4]] == [3, 2, 1, 0]
    assert [each["plans_left"] for each in found[4:6]] == [1, 0]
    assert len({each["item"] for each in found[1:6]}) == 5, "nothing is used twice"


async def test_topics_by_words_need_no_call(tmp_path: Path):
    provider = far_end(lambda call: "Let us talk about your children and being a role model for them.")
    plan = session(tmp_path, one=client("consistentMI"), settings={"topic_reader": "words"})
    await run(plan, provider)
    assert not any(call.purpose == "topic" for call in provider.calls)
    assert logged(plan)[0]["topic"] == "being an example"
    assert logged(plan)[0]["engagement"] == 4
