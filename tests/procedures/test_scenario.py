"""Scenarios: who is asked what and when, who hears whom, what happens by itself, what is measured, how it ends."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import run, states
from tests.procedures.worlds import (
    NAMES,
    RULES,
    TRUST,
    Data,
    a_world,
    cast_of,
    measured,
    plan_for,
    prompts_of,
    write_world,
)
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.app.studies import load
from trialrun.core.calls import Call, Parsed
from trialrun.core.errors import ConsentNeeded, StudyMistakes
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

TALKATIVE: Data = {
    "enable_bilateral_communication": True,
    "enable_coalition_formation": True,
    "enable_public_statements": True,
    "max_communications_per_turn": 1,
}


def talkative(call: Call, form: Mapping[str, Any]) -> Data:
    """Everybody contacts the next one, and proposes a coalition of all three; all of them accept."""
    others = [name for name in NAMES if name != call.party]
    mark = f"{call.party}-{call.turn}"
    if "contact" in form:
        return {"contact": True, "to": others[0], "message": f"PRIVATE-{mark}"}
    if "propose" in form:
        return {"propose": call.party == "ant", "members": others, "purpose": f"COALITION-{mark}"}
    if "statement" in form:
        return {"speak": True, "statement": f"PUBLIC-{mark}"}
    if "reply" in form:
        return {"reply": f"REPLY-{mark}-{call.address}!", "notes": f"NOTES-{mark}"}
    return {"accept": True} if "accept" in form else {}


ONE: Data = {"type": "int", "method": "regex", "pattern": "x"}
# --- who knows what ---------------------------------------------------------------------------------------------------


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


# --- talks ------------------------------------------------------------------------------------------------------------


async def test_a_coalition_forms_only_if_all_accept(tmp_path: Path) -> None:
    def one_refuses(call: Call, form: Mapping[str, Any]) -> Data:
        said = talkative(call, form)
        return {"accept": call.party != "cat"} if "accept" in form else said

    formed, refused = cast_of(talkative), cast_of(one_refuses)
    await run(a_world(tmp_path / "a", scenario=TALKATIVE), formed)
    await run(a_world(tmp_path / "b", scenario=TALKATIVE), refused)
    assert sum(call.purpose == "coalition message" for call in formed.calls) == 2 * 3
    assert sum(call.purpose == "coalition message" for call in refused.calls) == 0
    last = [call for call in refused.calls if call.party == "bee" and call.purpose == "actor decision"][-1]
    assert "not formed: cat refused" in last.request.messages[-1].text


async def test_no_switch_means_no_talk(tmp_path: Path) -> None:
    provider = cast_of(talkative)
    await run(a_world(tmp_path), provider)
    assert {call.purpose for call in provider.calls} == {"actor decision", "world update"}


async def test_who_contacts_nobody_is_not_asked_again_in_the_turn(tmp_path: Path) -> None:
    def only_ant(call: Call, form: Mapping[str, Any]) -> Data:
        is_wish = "contact" in form and call.party == "ant"
        return {"contact": True, "to": "bee", "message": "hello"} if is_wish else {}

    provider = cast_of(only_ant)
    scenario = {"enable_bilateral_communication": True, "max_communications_per_turn": 3, "turns": 1}
    await run(a_world(tmp_path, scenario=scenario), provider)
    asked = [call.party for call in provider.calls if call.purpose == "contact"]
    assert asked == ["ant", "bee", "cat", "ant", "ant"]


# --- what happens by itself -------------------------------------------------------------------------------------------


async def test_events_of_all_kinds_come_when_they_are_due(tmp_path: Path) -> None:
    events: list[Data] = [
        {"type": "trend", "name": "heat", "description": "HEAT", "turn_range": [2, 6], "frequency": 2},
        {"type": "scheduled", "name": "vote", "description": "VOTE", "turn": 3},
        {"type": "random", "name": "rain", "description": "RAIN", "probability": 1, "turn_range": [2, 6]},
        {"type": "random", "name": "snow", "description": "SNOW", "probability": 1, "once": False},
        {"type": "conditional", "name": "peace", "description": "PEACE", "conditions": {"trust": ">= 7"}},
    ]
    provider = cast_of()
    plan = a_world(tmp_path, scenario={"turns": 6}, events=events)
    await run(plan, provider)
    with Archive(plan.folder) as archive:
        said = [(row.turn, row.text) for row in archive.messages() if row.party == "world"]
    came = {
        name: [turn for turn, text in said if text == name]
        for name in ("HEAT", "VOTE", "RAIN", "SNOW", "PEACE")
    }
    # Trust is turn + 4, so it is 7 after turn 3.
    assert came == {"HEAT": [2, 4, 6], "VOTE": [3], "RAIN": [2], "SNOW": [1, 2, 3, 4, 5, 6], "PEACE": [4]}
    for party in ("ant", "narrator"):
        third = [c for c in provider.calls if c.party == party and c.turn == 3][-1]
        assert "VOTE" in third.request.messages[-1].text


async def test_random_events_are_drawn_by_the_trial_and_not_by_the_order_of_the_file(tmp_path: Path) -> None:
    events: list[Data] = [
        {"type": "random", "name": name, "description": name, "probability": 0.5, "once": False}
        for name in "abc"
    ]
    drawn: list[list[tuple[str, int, str]]] = []
    for number, listed in enumerate((events, events[::-1])):
        plan = a_world(tmp_path / str(number), study={"replicates": 4}, scenario={"turns": 5}, events=listed)
        await run(plan, cast_of())
        with Archive(plan.folder) as archive:
            drawn.append([(r.trial, r.turn, r.text) for r in archive.messages() if r.party == "world"])
    assert drawn[0] == drawn[1]
    assert len({tuple(row[1:] for row in drawn[0] if row[0] == trial) for trial, *_ in drawn[0]}) > 1


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criteria", "turns", "end", "success"),
    [
        ({}, 5, "max_turns", None),
        ({"success_criteria": {"trust": ">= 7"}}, 3, "success", True),
        ({"success_criteria": ["trust >= 70"]}, 5, "max_turns", False),
        ({"failure_criteria": "trust >= 6"}, 2, "failure", False),
        ({"failure_criteria": "trust >= 60"}, 5, "max_turns", True),
        ({"success_criteria": {"trust": ">= 6"}, "failure_criteria": {"trust": ">= 6"}}, 2, "failure", False),
        ({"turns": None, "scenario_length": {"type": "fixed", "turns": 4}}, 4, "max_turns", None),
        ({"scenario_length": {"type": "condition", "condition": "trust >= 6"}}, 2, "condition", None),
        ({"turns": None, "num_turns": 2}, 2, "max_turns", None),
    ],
)
async def test_a_trial_ends_by_success_failure_or_length(
    tmp_path: Path, criteria: Data, turns: int, end: str, success: bool | None
) -> None:
    scenario = {"turns": 5, **criteria}
    plan = a_world(tmp_path, scenario=scenario)
    await run(plan, cast_of())
    state = next(iter(states(plan).values()))
    assert (state.status, state.turns, state.end_reason) == ("done", turns, end)
    assert measured(plan).get("success") is success
    assert state.values["outcome"] == (end if end in ("success", "failure") else "open")


async def test_a_decision_that_was_cut_off_fails_the_trial_and_is_no_empty_action(tmp_path: Path) -> None:
    provider = Scripted(lambda call: Parsed(text="{", finish="length"))
    plan = a_world(tmp_path)
    await run(plan, provider)
    state = next(iter(states(plan).values()))
    assert state.status == "failed"
    assert "the reply was cut at max_tokens (1500)" in state.reason


@pytest.mark.parametrize(
    ("key", "party"), [("world_state", "narrator"), ("action", "bee"), ("summary", "narrator")]
)
async def test_an_empty_text_is_asked_for_once_more_and_never_taken_for_a_turn(
    tmp_path: Path, key: str, party: str
) -> None:
    scenario: Data = {"turns": 3, "context_window": 1}
    blank = 99

    def mute(call: Call, form: Mapping[str, Any]) -> Data:
        nonlocal blank
        if key in form and call.party == party and blank:
            blank -= 1
            return {key: ""}
        return {}

    plan = a_world(tmp_path, scenario=scenario)
    assert (await run(plan, cast_of(mute))).exit == Exit.SOME_FAILED
    state = next(iter(states(plan).values()))
    assert (state.status, state.boundary) == ("failed", "provider")
    assert key in state.reason
    # Taken up again, only what broke is asked again; an empty reply that is mended at once breaks nothing.
    blank = 1
    again = cast_of(mute)
    assert (await run(plan, again, Options(retry_failed=True))).exit == Exit.DONE
    assert blank == 0
    assert again.calls[0].party == party, "what was answered before is not asked again"


@pytest.mark.parametrize(
    "broken", ["", "{}", "[1]", "null", '{"world_state": 7}', "no JSON at all", "{" * 300]
)
@pytest.mark.parametrize("party", ["narrator", "ant"])
async def test_malformed_replies_fail_the_trial_with_the_reason_and_at_its_cost(
    tmp_path: Path, broken: str, party: str
) -> None:
    good = cast_of()

    def answer(call: Call) -> Any:
        return broken if call.party == party else good._answer_to(call)

    plan = a_world(tmp_path)
    assert (await run(plan, Scripted(answer))).exit == Exit.SOME_FAILED
    state = next(iter(states(plan).values()))
    assert state.status == "failed"
    assert party in state.reason or "reply" in state.reason
    assert state.spent_usd > 0
    assert (await run(plan, good, Options(retry_failed=True))).exit == Exit.DONE


async def test_a_metric_model_that_writes_nonsense_leaves_its_metric_missing(tmp_path: Path) -> None:
    metrics = {**TRUST, "fair": {"type": "int", "extraction_method": "llm", "prompt": "How fair?"}}
    good = cast_of()

    def answer(call: Call) -> Any:
        return "nonsense" if call.party == "extractor" else good._answer_to(call)

    plan = a_world(tmp_path, metrics=metrics)
    assert (await run(plan, Scripted(answer))).exit == Exit.DONE
    assert measured(plan)["fair"] is None
    assert measured(plan)["trust"] == 6


# --- people and scripts -----------------------------------------------------------------------------------------------


async def test_a_person_may_play_an_actor(tmp_path: Path) -> None:
    plan = a_world(tmp_path, actors={"bee": {"control": "human"}}, scenario={"turns": 1})
    provider = cast_of()
    assert (await run(plan, provider)).exit == Exit.PARKED
    question = open_questions(plan.folder)[0]
    assert question.party == "bee"
    for known in ("SECRET-OF-BEE", "The well is half full.", "goal of bee"):
        assert known in question.question
    assert "SECRET-OF-ANT" not in question.question
    await answer(plan.folder, question, "I dig deeper.")
    assert (await run(plan, provider)).exit == Exit.DONE
    assert any("I dig deeper." in prompt for prompt in prompts_of(provider, "narrator"))


async def test_a_script_acts_and_does_not_talk(tmp_path: Path) -> None:
    provider = cast_of(talkative)
    plan = a_world(tmp_path, scenario=TALKATIVE, study={"parties": {"cat": {"script": ["purr", "hiss"]}}})
    await run(plan, provider)
    assert not prompts_of(provider, "cat")
    with Archive(plan.folder) as archive:
        assert [row.text for row in archive.messages() if row.party == "cat"] == ["purr", "hiss"]


# --- the study --------------------------------------------------------------------------------------------------------


async def test_a_factor_may_vary_anything_in_the_scenario(tmp_path: Path) -> None:
    factors = {
        "length": {"settings.world.scenario.turns": [1, 3]},
        "goal": {"settings.world.actors.ant.goals": ["GO-A", "GO-B"]},
    }
    provider = cast_of()
    plan = a_world(tmp_path, study={"factors": factors})
    await run(plan, provider)
    by_level = {(s.levels["length"], s.turns) for s in states(plan).values()}
    assert by_level == {("1", 1), ("3", 3)}
    assert all(("GO-A" in prompt) != ("GO-B" in prompt) for prompt in prompts_of(provider, "ant"))


async def test_two_scenarios_may_be_the_levels_of_a_factor(tmp_path: Path) -> None:
    write_world(tmp_path / "well", scenario={"turns": 1})
    write_world(tmp_path / "lake", scenario={"turns": 2, "name": "A shared lake"})
    parties = {name: {"model": "x/m"} for name in (*NAMES, "narrator")}
    plan = plan_for(
        tmp_path, settings={}, parties=parties, factors={"place": {"settings.world": ["well", "lake"]}}
    )
    await run(plan, cast_of())
    assert {(s.levels["place"], s.turns) for s in states(plan).values()} == {("well", 1), ("lake", 2)}


async def test_a_flag_leads_into_the_scenario(tmp_path: Path) -> None:
    write_world(tmp_path / "well")
    plan = plan_for(tmp_path, overrides={"settings.world.scenario.turns": 1})
    await run(plan, cast_of())
    assert next(iter(states(plan).values())).turns == 1


async def test_a_changed_file_of_the_scenario_is_a_changed_plan(tmp_path: Path) -> None:
    await run(a_world(tmp_path), cast_of())
    changed = a_world(tmp_path, background={"law": "There is a law now."})
    with pytest.raises(ConsentNeeded) as refused:
        await run(changed, cast_of())
    assert "settings.world.background" in str(refused.value)


async def test_the_archive_of_a_scenario_needs_no_other_file(tmp_path: Path) -> None:
    plan = a_world(tmp_path, study={"replicates": 2}, background={"law": "A law."})
    await run(plan, cast_of())
    for file in (tmp_path / "well").rglob("*.*"):
        file.unlink()
    again = load(plan.folder)
    assert again.study.digest == plan.study.digest
    provider = cast_of()
    assert (await run(again, provider)).exit == Exit.DONE
    assert provider.calls == []


def test_measures_are_those_of_the_scenario_unless_the_study_names_some(tmp_path: Path) -> None:
    scenario = {"success_criteria": {"trust": "> 3"}}
    plan = a_world(tmp_path, scenario=scenario, rules=RULES)
    assert plan.study.document["measures"] == ["success", "trust", "issues"]
    plan = a_world(tmp_path, study={"measures": ["trust", "ant.words"]})
    assert plan.study.document["measures"] == ["trust", "ant.words"]


@pytest.mark.parametrize(
    ("file", "change", "what", "fix"),
    [
        ("scenario.yaml", {"turnz": 3}, "has no key `turnz`", "did you mean `turns`?"),
        ("scenario.yaml", {"turns": 0}, "`turns` must be at least 1", "bounds"),
        ("scenario.yaml", {"turns": None}, "the scenario has no length", "add `turns: 5`"),
        ("scenario.yaml", {"actors": ["ant", "bea"]}, "there is no file actors/bea.yaml", "did you mean `bee`?"),
        ("scenario.yaml", {"parallel_action_resolution": False}, "must be true", "write true"),
        ("scenario.yaml", {"success_criteria": {"trst": "> 3"}}, "names `trst`, which is no metric", "`trust`"),
        ("scenario.yaml", {"success_criteria": ["they are happy"]}, "is no condition on metrics", "trust >= 7"),
        ("scenario.yaml", {"num_turns": 9}, "`num_turns` and `turns` say different things", "keep one"),
        ("actors/ant.yaml", {"short_name": "aunt"}, "has the short name `aunt`", "name the file after it"),
        ("actors/ant.yaml", {"llm_model": "gpt"}, "`gpt` names no provider", "provider/model"),
        ("actors/ant.yaml", {"gaols": []}, "has no key `gaols`", "did you mean `goals`?"),
        ("metrics.yaml", {"metrics": {"x": {"type": "int", "method": "regex", "pattern": "("}}}, "is none", "mend"),
        ("metrics.yaml", {"metrics": "trust"}, "must be a map or a list", "name each metric"),
        ("metrics.yaml", {"metrics": {"x": "trust"}}, "`x` must be a map", "key: value"),
        ("metrics.yaml", {"metrics": [{**ONE, "name": "x"}, {**ONE, "name": "x"}]}, "two metrics `x`", "rename"),
        ("metrics.yaml", {"metrics": {"x": {**ONE, "range": [9, 1]}}}, "ends before it begins", "[1, 9]"),
        ("actors/ant.yaml", {"information_access": {"privat": ["x"]}}, "has no key `privat`", "`private`"),
        ("scenario.yaml", {"scenario_length": {"turn": 3}}, "has no key `turn`", "`turns`"),
        ("metrics.yaml", {"metrics": {"x": {"type": "int", "method": "keyword"}}}, "has no keywords", "add"),
        ("metrics.yaml", {"metrics": {"x": {"type": "categorical", "method": "llm"}}}, "no categories", "add"),
    ],
)  # fmt: skip
def test_mistakes_in_a_scenario_are_reported_at_its_file(
    tmp_path: Path, file: str, change: Data, what: str, fix: str
) -> None:
    path = write_world(tmp_path / "well") / file
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}, sort_keys=False))
    with pytest.raises(StudyMistakes) as refused:
        plan_for(tmp_path)
    found = [m for m in refused.value.mistakes if what in m.what]
    assert found, refused.value.report()
    assert fix in found[0].fix
    assert found[0].file.endswith(file)


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("metrics.yaml", "- name: trust\n", "`metrics` must be a map"),
        ("exogenous-events.yaml", "- type: trend\n", "`exogenous-events` must be a map"),
        ("exogenous-events.yaml", "exogenous_events: {type: trend}\n", "`exogenous_events` must be a list"),
        ("exogenous-events.yaml", "exogenous_events: [storm]\n", "must be a map"),
        (
            "exogenous-events.yaml",
            "exogenous_events: [{type: trend, name: x, turn_range: [5, 2]}]\n",
            "before it",
        ),
        ("validation-rules.yaml", "- checks\n", "must be a map"),
        ("actors/ant.yaml", "- ant\n", "must be a map"),
        ("scenario.yaml", "name\n", "must be a map"),
    ],
)
def test_a_file_of_the_wrong_shape_is_a_mistake_and_never_as_good_as_empty(
    tmp_path: Path, file: str, text: str, what: str
) -> None:
    (write_world(tmp_path / "well") / file).write_text(text)
    with pytest.raises(StudyMistakes) as refused:
        plan_for(tmp_path)
    assert [m for m in refused.value.mistakes if what in m.what and m.file.endswith(file)], (
        refused.value.report()
    )


def test_a_scenario_that_is_no_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    (write_world(tmp_path / "well") / "actors/bee.yaml").write_text("name: Bee\nshort_name: [bee\n")
    with pytest.raises(StudyMistakes) as refused:
        plan_for(tmp_path)
    assert any(m.file == "well/actors/bee.yaml" and m.line for m in refused.value.mistakes)


def test_a_missing_folder_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(StudyMistakes, match="there is no folder `well`"):
        plan_for(tmp_path)
