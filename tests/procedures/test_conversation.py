"""The conversation: who hears what, how it ends, and what judges see."""

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import facts, make_plan, run, states
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.core import facts as f
from trialrun.core.calls import Call, Parsed
from trialrun.core.errors import RequestRefused, StudyMistakes
from trialrun.procedures.conversation import without_end
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

TALK: dict[str, Any] = {
    "procedure": "conversation",
    "parties": {
        "asker": {
            "model": "x/m",
            "prompt": "You ask {{ partner }}, {{ max_turns }} turns at most.",
            "max_tokens": 50,
        },
        "teller": {"model": "x/n", "prompt": "You tell.", "max_tokens": 50},
    },
    "factors": {},
    "replicates": 1,
    "settings": {"max_turns": 3, "first": "asker"},
}


def talk(**changes: Any) -> dict[str, Any]:
    """The study with some keys changed, mappings key by key."""
    return {
        key: {**value, **changes[key]}
        if isinstance(value, dict) and key in changes
        else changes.get(key, value)
        for key, value in {**dict.fromkeys(changes), **TALK}.items()
    }


def numbered() -> Scripted:
    return Scripted(lambda call: f"{call.party} says {call.turn}")


async def test_parties_alternate_and_each_hears_the_other_as_user(tmp_path: Path) -> None:
    provider = numbered()
    plan = make_plan(tmp_path, **TALK)
    await run(plan, provider)
    assert [call.party for call in provider.calls] == ["asker", "teller"] * 3
    last = provider.calls[-1].request.messages
    assert [(message.role, message.text) for message in last] == [
        ("system", "You tell."),
        ("user", "asker says 1"),
        ("assistant", "teller says 1"),
        ("user", "asker says 2"),
        ("assistant", "teller says 2"),
        ("user", "asker says 3"),
    ]
    first = provider.calls[0].request.messages
    assert first[0].text == "You ask teller, 3 turns at most."
    assert first[1].role == "user", "every provider wants to begin with somebody else's words"


async def test_the_reason_why_it_ended_is_part_of_the_outcome(tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "full", **TALK)
    await run(plan, numbered())
    assert [state.end_reason for state in states(plan).values()] == ["max_turns"]

    def leaves(call: Call) -> str:
        return "I have to go.\n[END]" if call.party == "teller" and call.turn == 2 else "Well."

    plan = make_plan(tmp_path / "ended", **TALK)
    await run(plan, Scripted(leaves))
    (state,) = states(plan).values()
    assert (state.end_reason, state.values["turns"]) == ("ended_by:teller", 2)
    with Archive(plan.folder) as archive:
        assert [row.text for row in archive.messages()][-1] == "I have to go."


@pytest.mark.parametrize(
    ("text", "left", "is_end"),
    [
        ("[END]", "", True),
        ("Goodbye.\n[END]", "Goodbye.", True),
        ("Goodbye.\n  [END]  ", "Goodbye.", True),
        ("I say [END] in a sentence.", "I say [END] in a sentence.", False),
        ("[END] is not how I begin", "[END] is not how I begin", False),
        ("[END]\nand then more", "[END]\nand then more", False),
        ("", "", False),
    ],
)
def test_an_end_word_counts_only_alone_in_the_last_line(text: str, left: str, is_end: bool) -> None:
    assert without_end(text, ("[END]",)) == (left, is_end)


async def test_the_first_speaker_is_reminded_of_the_turns_left(tmp_path: Path) -> None:
    provider = numbered()
    plan = make_plan(tmp_path, **talk(settings={"remind_turns": 2}))
    await run(plan, provider)
    last_words = [call.request.messages[-1].text for call in provider.calls if call.party == "asker"]
    assert "(Turns left" not in last_words[0]
    assert last_words[1].endswith("(Turns left, this one included: 2.)")
    assert last_words[2].endswith("(Turns left, this one included: 1.)")
    with Archive(plan.folder) as archive:
        assert not any("Turns left" in row.text for row in archive.messages()), (
            "it is no part of the transcript"
        )


async def test_the_opening_is_told_to_the_first_speaker_alone(tmp_path: Path) -> None:
    provider = numbered()
    plan = make_plan(tmp_path, **talk(settings={"opening": "Ask about the sea.", "first": "teller"}))
    await run(plan, provider)
    assert provider.calls[0].party == "teller"
    assert [m.text for m in provider.calls[0].request.messages][1:] == ["Ask about the sea."]
    assert not any("sea" in m.text for m in provider.calls[1].request.messages)


async def test_a_script_says_its_lines_and_ends_with_them(tmp_path: Path) -> None:
    provider = numbered()
    plan = make_plan(tmp_path, **talk(parties={"teller": {"script": ["One.", "Two."]}}))
    await run(plan, provider)
    (state,) = states(plan).values()
    assert state.end_reason == "script_ended:teller"
    assert [call.party for call in provider.calls] == ["asker"] * 3


async def test_a_human_party_parks_each_turn(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, **talk(parties={"teller": {"human": True}}, settings={"max_turns": 2}))
    for turn in (1, 2):
        assert (await run(plan, numbered())).exit is Exit.PARKED
        (question,) = open_questions(plan.folder)
        assert question.question == f"asker says {turn}"
        await answer(plan.folder, question, f"My answer {turn}.", by="a person")
    ran = await run(plan, numbered())
    assert ran.exit is Exit.DONE
    with Archive(plan.folder) as archive:
        spoken = [(row.party, row.text) for row in archive.messages()]
    assert spoken[1::2] == [("teller", "My answer 1."), ("teller", "My answer 2.")]


JUDGED = talk(
    judges={
        "depth": {"model": "x/judge", "question": "How deep?", "scale": [1, 5]},
        "kind": {"model": "x/judge", "question": "Which kind?", "labels": ["warm", "cold"]},
    },
    measures=["depth", "kind", "teller.words"],
)


def judging(depth: object, kind: object) -> Scripted:
    def reply(call: Call) -> Any:
        if call.purpose != "judge":
            return f"{call.party} says {call.turn}"
        return depth if "How deep" in call.request.messages[-1].text else kind

    return Scripted(reply)


def verdicts(plan: Any) -> dict[str, tuple[object, str]]:
    (trial,) = states(plan)
    measured = [fact for fact in facts(plan, trial) if isinstance(fact, f.Measured)]
    return {fact.name: (fact.value, fact.note) for fact in measured}


async def test_judges_rate_the_whole_talk_and_never_see_models_or_conditions(tmp_path: Path) -> None:
    provider = judging(
        '{"reason": "r", "abstains": false, "score": 4}',
        '{"reason": "r", "abstains": false, "label": "warm"}',
    )
    plan = make_plan(tmp_path, **JUDGED)
    assert (await run(plan, provider)).exit is Exit.DONE
    assert verdicts(plan) == {"depth": (4, ""), "kind": ("warm", ""), "teller.words": (9, "")}
    judged = [call for call in provider.calls if call.purpose == "judge"]
    for call in judged:
        seen = " ".join(message.text for message in call.request.messages)
        assert "teller: teller says 3" in seen
        assert "x/m" not in seen
        assert call.condition not in seen
        assert call.trial not in seen


async def test_an_abstaining_or_failing_judge_is_missing_and_does_not_fail_the_trial(tmp_path: Path) -> None:
    provider = judging(
        '{"reason": "r", "abstains": true, "score": 1}', RequestRefused("no such model", status=404)
    )
    plan = make_plan(tmp_path, **JUDGED)
    assert (await run(plan, provider)).exit is Exit.DONE
    found = verdicts(plan)
    assert found["depth"] == (None, "abstained")
    assert found["kind"] == (None, "RequestRefused: no such model")


async def test_a_verdict_that_was_cut_off_is_missing(tmp_path: Path) -> None:
    provider = judging(
        Parsed(text='{"reason": "it', finish="length"), '{"reason": "", "abstains": false, "label": "cold"}'
    )
    plan = make_plan(tmp_path, **JUDGED)
    assert (await run(plan, provider)).exit is Exit.DONE
    value, note = verdicts(plan)["depth"]
    assert value is None
    assert "max_tokens" in note


def test_a_conversation_of_one_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    alone: dict[str, Any] = {**TALK, "parties": {"asker": TALK["parties"]["asker"]}}
    with pytest.raises(StudyMistakes) as caught:
        make_plan(tmp_path, **alone)
    assert "part" in caught.value.report()
