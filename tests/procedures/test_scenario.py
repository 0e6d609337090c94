"""Scenarios: who is asked what and when, who hears whom, what happens by itself, what is measured, how it ends."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import run, states
from tests.procedures.worlds import (
    NAMES,
    RULES,
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


async def test_private_words_are_in_no_outsiders_prompt(tmp_path: Path) -> None:
    provider = cast_of(talkative)
    plan = a_world(tmp_path, scenario={**TALKATIVE, "turns": 4, "context_window": 1})
    await run(plan, provider)
    with Archive(plan.folder) as archive:
        private = [(row.text, set(row.audience)) for row in archive.messages() if row.audience]
    assert {text.split("-")[0] for text, _ in private} >= {"PRIVATE", "REPLY", "COALITION"}
    heard = 0
    for call in provider.calls:
        whole = "\n".join(message.text for message in call.request.messages)
        for text, audience in private:
            if call.party not in audience:
                assert text not in whole, f"{call.party} reads {text}"
            heard += text in whole
        for name in NAMES:
            assert (f"SECRET-OF-{name.upper()}" in whole) == (name == call.party)
            assert f"NOTES-{name}" not in whole or name == call.party
    assert heard > 20, "those who took part do read them"


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


def test_a_scenario_that_is_no_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    (write_world(tmp_path / "well") / "actors/bee.yaml").write_text("name: Bee\nshort_name: [bee\n")
    with pytest.raises(StudyMistakes) as refused:
        plan_for(tmp_path)
    assert any(m.file == "well/actors/bee.yaml" and m.line for m in refused.value.mistakes)


def test_a_missing_folder_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(StudyMistakes, match="there is no folder `well`"):
        plan_for(tmp_path)
