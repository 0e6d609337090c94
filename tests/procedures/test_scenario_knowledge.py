"""Who knows what in a scenario: simultaneous decisions, private words, goals that evolve, turns that are summed up."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.behaviour.support import run, states
from tests.procedures.worlds import (
    NAMES,
    TALKATIVE,
    Data,
    a_world,
    cast_of,
    prompts_of,
    talkative,
)
from trialrun.core.calls import Call
from trialrun.store.archive import Archive


async def test_permuting_the_actors_changes_no_prompt_of_anybody(tmp_path: Path) -> None:
    seen: list[set[tuple[str, int, str, str]]] = []
    for number, order in enumerate(itertools.permutations(NAMES)):
        home = tmp_path / str(number)
        plan = a_world(home, scenario={**TALKATIVE, "actors": list(order)})
        provider = cast_of(talkative)
        await run(plan, provider)
        assert [state.status for state in states(plan).values()] == ["done"]
        seen.append({(c.party, c.turn, c.purpose, c.request.fingerprint) for c in provider.calls})
    assert len(seen[0]) > 30
    assert all(each == seen[0] for each in seen)


async def test_nobody_knows_what_others_decide_in_the_same_turn(tmp_path: Path) -> None:
    provider = cast_of()
    await run(a_world(tmp_path), provider)
    for call in provider.calls:
        if call.purpose == "actor decision":
            text = "\n".join(message.text for message in call.request.messages)
            assert f"action of bee in turn {call.turn}" not in text
            assert ("action of bee in turn 1" in text) == (call.turn == 2)


FOUR = (*NAMES, "dog")
MEMBERS = {"ant", "bee", "cat"}


def whispering(call: Call, form: Mapping[str, Any]) -> Data:
    """Ant writes to bee; ant, bee and cat have a coalition; dog is in none of it. Every private word has its mark."""
    mark = f"{call.party}-{call.turn}!"
    if "contact" in form:
        return {"contact": True, "to": "bee", "message": f"TO-BEE-{mark}"} if call.party == "ant" else {}
    if "reply" in form:
        return {"reply": f"TO-ANT-{mark}", "notes": f"NOTES-{mark}"}
    if "propose" in form:
        wish = {"propose": True, "members": ["ant", "bee"], "purpose": f"PLAN-{mark}"}
        return wish if call.party == "cat" else {"propose": False, "members": []}
    if "accept" in form:
        return {"accept": True, "reason": f"WHY-{mark}"}
    if call.purpose == "coalition message":
        return {"message": f"AMONG-US-{mark}"}
    if "summary" in form and call.party != "narrator":
        return {"summary": f"MEMORY-{mark}"}
    if "reasoning" in form:
        return {"reasoning": f"REASON-{mark}", "long_term_goals": [f"GOAL-{mark}"]}
    return {}


def may_read(word: str) -> set[str]:
    """Who may read a private word, by its mark alone: what the journal says of it does not count."""
    kind, _, of = word.rpartition("-")[0].rpartition("-")
    if kind in ("TO-BEE", "TO-ANT"):
        return {"ant", "bee"}
    return MEMBERS if kind in ("PLAN", "AMONG-US") else {of}


async def test_private_words_are_in_no_outsiders_prompt(tmp_path: Path) -> None:
    provider = cast_of(whispering)
    plan = a_world(
        tmp_path, scenario={**TALKATIVE, "turns": 5, "context_window": 1, "actors": list(FOUR)}, rules=None
    )
    await run(plan, provider)
    marks = re.compile(r"(?:TO-BEE|TO-ANT|NOTES|PLAN|WHY|AMONG-US|MEMORY|REASON|GOAL)-[a-z]+-\d+!")
    read: dict[str, set[str]] = {}
    for call in provider.calls:
        whole = "\n".join(message.text for message in call.request.messages)
        for word in marks.findall(whole):
            assert call.party in may_read(word), f"{call.party} reads {word}"
            read.setdefault(word.rpartition("-")[0].rpartition("-")[0], set()).add(call.party)
        for name in FOUR:
            assert (f"SECRET-OF-{name.upper()}" in whole) == (name == call.party)
    assert read["TO-BEE"] == read["TO-ANT"] == {"ant", "bee"}
    assert read["PLAN"] == read["AMONG-US"] == MEMBERS
    assert read["MEMORY"] == MEMBERS
    assert read["GOAL"] == set(FOUR)
    assert "REASON" not in read
    assert "WHY" not in read


async def test_who_took_part_in_a_talk_knows_of_it_when_it_decides_and_later(tmp_path: Path) -> None:
    provider = cast_of(whispering)
    await run(a_world(tmp_path, scenario={**TALKATIVE, "turns": 2, "actors": list(FOUR)}), provider)
    for call in provider.calls:
        if call.purpose == "actor decision" and call.party in ("ant", "bee"):
            whole = "\n".join(message.text for message in call.request.messages)
            for turn in range(1, call.turn + 1):
                assert f"TO-BEE-ant-{turn}!" in whole
                assert f"TO-ANT-bee-{turn}!" in whole
                assert f"AMONG-US-cat-{turn}!" in whole


async def test_the_transcript_says_who_heard_a_private_word(tmp_path: Path) -> None:
    plan = a_world(tmp_path, scenario={**TALKATIVE, "turns": 2, "actors": list(FOUR)})
    await run(plan, cast_of(whispering))
    with Archive(plan.folder) as archive:
        said = [(row.text, set(row.audience)) for row in archive.messages()]
    private = [(text, who) for text, who in said if re.match(r"TO-|PLAN|AMONG", text)]
    assert len(private) == 2 * (2 + 1 + 3)
    assert all(who == may_read(text) for text, who in private)


async def test_everything_that_is_meant_for_an_actor_reaches_its_prompt(tmp_path: Path) -> None:
    meant: Data = {
        "system_prompt": "MEANT-1", "role": "MEANT-2", "description": "MEANT-3", "goals": ["MEANT-4", "MEANT-5"],
        "constraints": "MEANT-6", "expertise": ["MEANT-7"], "expertise_level": "MEANT-8",
        "decision_making_style": "MEANT-9", "personality_traits": ["MEANT-10"], "communication_style": "MEANT-11",
        "preferred_coalitions": ["MEANT-12"], "private_information": {"a": "MEANT-13"},
        "information_access": {"public": "MEANT-14", "private": ["MEANT-15", "ledger"]},
    }  # fmt: skip
    provider = cast_of()
    background = {"ledger": "MEANT-16", "law": "FOR-ALL"}
    await run(a_world(tmp_path, actors={"ant": meant}, background=background), provider)
    for prompt in prompts_of(provider, "ant"):
        assert [number for number in range(1, 17) if f"MEANT-{number}" not in prompt] == []
        assert "FOR-ALL" in prompt
        assert "Speak plainly." in prompt
    for prompt in prompts_of(provider, "narrator"):
        assert "FOR-ALL" in prompt
        assert not [number for number in (1, 4, 6, 13, 15, 16) if f"MEANT-{number}\n" in f"{prompt}\n"]
        assert "MEANT-16" not in prompt, "a text of some is not for the narrator, who tells everybody"
    for prompt in prompts_of(provider, "bee", "cat"):
        found = {
            number
            for number in range(1, 17)
            if f"MEANT-{number}" in prompt and f"MEANT-{number}0" not in prompt
        }
        assert found - {1} <= {2, 14}, "others know the role and what is public"
        assert "MEANT-16" not in prompt
        assert "FOR-ALL" in prompt


async def test_the_prompt_of_a_party_in_the_study_is_added(tmp_path: Path) -> None:
    provider = cast_of()
    parties = {
        "ant": {"prompt": "Be {{ manner }}.", "values": {"manner": "bold"}},
        "narrator": {"prompt": "Be dry."},
    }
    await run(a_world(tmp_path, study={"parties": parties}), provider)
    assert all("Be bold." in prompt for prompt in prompts_of(provider, "ant"))
    assert all("Be dry." in prompt for prompt in prompts_of(provider, "narrator"))
    assert not any("Be bold." in prompt for prompt in prompts_of(provider, "bee", "narrator"))
    assert {call.request.model for call in provider.calls if call.party == "ant"} == {"x/ant"}


async def test_goals_evolve_and_are_remembered_for_two_turns(tmp_path: Path) -> None:
    provider = cast_of()
    await run(a_world(tmp_path, scenario={"turns": 4}), provider)
    third = next(c for c in provider.calls if c.party == "ant" and c.turn == 4)
    text = third.request.messages[-1].text
    for turn, is_there in ((1, False), (2, True), (3, True)):
        assert (f"long_term_goals of ant in turn {turn}" in text) == is_there
        assert (f"short_term_priorities of ant in turn {turn}" in text) == is_there
    assert "long_term_goals of bee" not in text


async def test_turns_before_the_window_are_summed_up_by_a_model(tmp_path: Path) -> None:
    provider = cast_of(talkative)
    plan = a_world(tmp_path, scenario={**TALKATIVE, "turns": 4, "context_window": 1})
    await run(plan, provider)
    asked = [call for call in provider.calls if call.purpose == "summary"]
    assert [(call.party, call.turn) for call in asked if call.party == "narrator"] == [
        ("narrator", 3),
        ("narrator", 4),
    ]
    last = next(
        c for c in provider.calls if c.party == "ant" and c.turn == 4 and c.purpose == "actor decision"
    )
    text = last.request.messages[-1].text
    assert "summary of narrator in turn 4" in text
    assert "summary of ant in turn 4" in text, "its own talks are remembered by itself"
    assert "action of bee in turn 3" in text
    assert "action of bee in turn 2" not in text
    assert "action of bee in turn 1" in asked[0].request.messages[-1].text
