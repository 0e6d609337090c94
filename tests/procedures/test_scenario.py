"""Scenarios: who talks to whom, what happens by itself, how it ends, and what a study may vary of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import run, states
from tests.procedures.worlds import (
    NAMES,
    RULES,
    TALKATIVE,
    TRUST,
    Data,
    a_world,
    cast_of,
    measured,
    plan_for,
    prompts_of,
    talkative,
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

ONE: Data = {"type": "int", "method": "regex", "pattern": "x"}


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
