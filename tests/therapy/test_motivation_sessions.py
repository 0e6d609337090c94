"""Motivational interviewing on both sides: the therapist's rounds, and the client's stages, topics and patience."""

from pathlib import Path
from typing import Any

from tests.behaviour.support import run, states
from tests.therapy.sessions import client, far_end, logged, session, texts, therapist
from trialrun.core.calls import Call


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
