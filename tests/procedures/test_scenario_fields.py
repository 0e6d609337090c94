"""Every key of a scenario's files does what it says, or is refused; none is read and forgotten."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import run
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
from trialrun.core.calls import Call
from trialrun.core.errors import StudyMistakes
from trialrun.procedures.scenario import files
from trialrun.procedures.scenario.spelling import SAME
from trialrun.store.archive import Archive

PAGE = (Path(__file__).parents[2] / "docs/scenarios.md").read_text(encoding="utf-8")


def test_every_key_is_on_the_page() -> None:
    models = (files.ScenarioEntry, files.ActorEntry, files.MetricEntry, files.EventEntry, files.CheckEntry)
    keys = {key for model in (*models, files.RulesEntry) for key in model.model_fields} - {"method"}
    others = {name for same in SAME.values() for name in same}
    missing = [key for key in sorted(keys | others) if key not in PAGE]
    assert missing == []


# --- scenario.yaml ----------------------------------------------------------------------------------------------------


async def prompts(home: Path, *parties: str, **scenario: Any) -> list[str]:
    provider = cast_of()
    await run(a_world(home, scenario=scenario), provider)
    return prompts_of(provider, *parties)


@pytest.mark.parametrize(
    ("key", "value", "for_narrator"),
    [
        ("name", "MEANT for all", True),
        ("description", "MEANT for all", True),
        ("system_prompt", "MEANT for actors", False),
        ("initial_world_state", "MEANT for all", True),
        ("turn_duration", "7 MEANT months", True),
        ("background_information", "MEANT for all", True),
        ("background_information", {"law": "MEANT for all"}, True),
    ],
)
async def test_texts_for_everybody_reach_everybody(
    tmp_path: Path, key: str, value: object, for_narrator: bool
) -> None:
    assert all("MEANT" in prompt for prompt in await prompts(tmp_path / "a", *NAMES, turns=1, **{key: value}))
    told = await prompts(tmp_path / "b", "narrator", turns=1, **{key: value})
    assert {"MEANT" in prompt for prompt in told} == {for_narrator}


async def test_what_a_file_says_about_itself_reaches_nobody(tmp_path: Path) -> None:
    about = dict.fromkeys(("schema_version", "version", "author", "tags"), "UNMEANT")
    found = await prompts(tmp_path, features={"x": "UNMEANT"}, **about)
    assert found
    assert not any("UNMEANT" in prompt for prompt in found)


async def test_the_narrators_model_is_that_of_the_scenario(tmp_path: Path) -> None:
    provider = cast_of()
    await run(a_world(tmp_path, scenario={"world_state_model": "x/teller"}), provider)
    assert {call.request.model for call in provider.calls if call.party == "narrator"} == {"x/teller"}


@pytest.mark.parametrize("key", ["context_window", "context_window_size"])
@pytest.mark.parametrize("size", [1, 2])
async def test_the_window_is_as_wide_as_both_of_its_names_say(tmp_path: Path, key: str, size: int) -> None:
    provider = cast_of()
    await run(a_world(tmp_path, scenario={key: size, "turns": 4}), provider)
    last = next(c for c in provider.calls if (c.party, c.turn, c.purpose) == ("ant", 4, "actor decision"))
    told = [turn for turn in (1, 2, 3) if f"action of bee in turn {turn}" in last.request.messages[-1].text]
    assert told == [1, 2, 3][-size:]


@pytest.mark.parametrize("kind", ["bilateral", "coalition", "public"])
async def test_kinds_of_talk_may_be_listed_or_switched_on(tmp_path: Path, kind: str) -> None:
    switch = {
        "bilateral": "bilateral_communication",
        "coalition": "coalition_formation",
        "public": "public_statements",
    }
    purpose = {"bilateral": "contact", "coalition": "proposal", "public": "statement"}[kind]
    for number, scenario in enumerate(({"communication_types": [kind]}, {f"enable_{switch[kind]}": True})):
        provider = cast_of(lambda _, form: {"members": []} if "members" in form else {})
        await run(a_world(tmp_path / str(number), scenario=scenario), provider)
        talk = {call.purpose for call in provider.calls} - {"actor decision", "world update"}
        assert talk == {purpose}


async def test_a_decision_may_begin_with_a_look_back(tmp_path: Path) -> None:
    for number, reflects in enumerate((True, False)):
        provider = cast_of()
        await run(a_world(tmp_path / str(number), scenario={"allow_actor_reflection": reflects}), provider)
        forms: list[Any] = [c.request.schema for c in provider.calls if c.purpose == "actor decision"]
        assert {"reflection" in form["properties"] for form in forms} == {reflects}


SWAN: Data = {
    "name": "flood",
    "description": "FLOOD",
    "effects": ["The well overflows."],
    "turn_range": [2, 3],
}


@pytest.mark.parametrize(
    ("scenario", "turns"),
    [
        ({"black_swans": [{**SWAN, "probability": 1}]}, [2]),
        ({"black_swans": [{**SWAN, "probability": 1, "once": False}], "enable_black_swans": True}, [2, 3]),
        ({"black_swans": [{**SWAN, "probability": 1}], "enable_black_swans": False}, []),
    ],
)
async def test_black_swans_come_in_their_turns_where_they_may_and_are_told_once(
    tmp_path: Path, scenario: Data, turns: list[int]
) -> None:
    provider = cast_of()
    await run(a_world(tmp_path, scenario={"turns": 4, **scenario}), provider)
    new = [
        call.turn
        for call in provider.calls
        if call.party == "narrator" and "FLOOD" in _section(call, "What happens in this turn")
    ]
    assert new == turns


def _section(call: Call, heading: str) -> str:
    return call.request.messages[-1].text.partition(f"# {heading}")[2].partition("\n# ")[0]


@pytest.mark.parametrize(
    ("scenario", "what"),
    [
        ({"name": None}, "`name` is missing"),
        ({"initial_world_state": "short"}, "initial_world_state"),
        ({"turn_duration": None}, "`turn_duration` is missing"),
        ({"actors": ["ant", "ant"]}, "takes part twice"),
        ({"actors": ["ant", "narrator"]}, "no actor can be called"),
        ({"scenario_length": {"type": "fixd", "turns": 3}}, "`type` must be `fixed` or `condition`"),
        ({"communication_types": ["shouting"]}, "communication_types"),
    ],
)
def test_what_a_scenario_cannot_be_is_refused(tmp_path: Path, scenario: Data, what: str) -> None:
    with pytest.raises(StudyMistakes) as refused:
        a_world(tmp_path, scenario=scenario)
    assert what in refused.value.report()


# --- actors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["llm_model", "model"])
async def test_how_an_actor_is_asked_stands_in_its_file(tmp_path: Path, key: str) -> None:
    provider = cast_of()
    changes: Data = {"llm_model": None, key: "x/own", "temperature": 0.25, "max_tokens": 77}
    await run(a_world(tmp_path, actors={"ant": changes}), provider)
    asked = [call.request for call in provider.calls if call.party == "ant"]
    assert {(one.model, one.temperature, one.max_tokens) for one in asked} == {("x/own", 0.25, 77)}


@pytest.mark.parametrize("key", ["decision_style", "decision_making_style"])
async def test_both_names_of_a_style_reach_the_prompt(tmp_path: Path, key: str) -> None:
    provider = cast_of()
    await run(a_world(tmp_path, actors={"ant": {key: "MEANT"}}), provider)
    assert all("MEANT" in prompt for prompt in prompts_of(provider, "ant"))


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_how_the_other_tool_exports_is_read_and_left_to_export(tmp_path: Path) -> None:
    file = write_world(tmp_path / "well") / "metrics.yaml"
    more = {"scenario_name": "x", "export_format": "both", "auto_export": True, "export_path": "out/"}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **more}))
    assert plan_for(tmp_path).study.document["measures"] == ["trust"]


@pytest.mark.parametrize(
    "spelling", ["int", "integer", "float", "number", "continuous", "string", "bool", "boolean"]
)
async def test_types_have_many_names(tmp_path: Path, spelling: str) -> None:
    pattern = r"trust: (\w+)"
    metrics = {"trust": {"type": spelling, "extraction_method": "regex", "pattern": pattern}}
    is_truth, is_text = spelling.startswith("bool"), spelling == "string"

    def told(_: Call, form: Mapping[str, Any]) -> Data:
        return {"world_state": f"Trust: {'yes' if is_truth else 7}"} if "world_state" in form else {}

    plan = a_world(tmp_path, metrics=metrics)
    await run(plan, cast_of(told))
    assert measured(plan)["trust"] == (True if is_truth else "7" if is_text else 7)


async def test_metrics_may_begin_with_a_digit_and_have_long_names(tmp_path: Path) -> None:
    long = "water_that_every_household_of_the_valley_may_take"
    metrics: Data = {"2030_trust": TRUST["trust"], long: TRUST["trust"]}
    plan = a_world(tmp_path, metrics=metrics, scenario={"success_criteria": ["2030_trust >= 6"]})
    await run(plan, cast_of())
    assert measured(plan) == {"2030_trust": 6, long: 6, "success": True}


async def test_each_metric_has_the_model_that_it_names_however_alike_their_names_are(tmp_path: Path) -> None:
    names = [f"average_household_water_consumption_{side}" for side in ("north", "south")]
    metrics = {name: {"type": "int", "extraction_method": "llm", "model": f"x/{name[-5:]}"} for name in names}
    provider = cast_of(lambda _, form: {"is_known": True} if "is_known" in form else {})
    await run(a_world(tmp_path, metrics=metrics), provider)
    asked = {call.purpose: call.request.model for call in provider.calls if call.purpose.startswith("metric")}
    assert asked == {f"metric {name}": f"x/{name[-5:]}" for name in names}


async def test_a_unit_and_a_description_reach_the_model_that_takes_the_metric(tmp_path: Path) -> None:
    metric = {
        "type": "float",
        "unit": "litres",
        "description": "MEANT",
        "extraction_method": "llm",
        "range": [0, 9],
    }
    provider = cast_of()
    await run(a_world(tmp_path, metrics={"water": metric}), provider)
    for prompt in prompts_of(provider, "extractor"):
        assert "in litres" in prompt
        assert "MEANT" in prompt
        assert "between 0 and 9" in prompt


# --- validation rules -------------------------------------------------------------------------------------------------


async def test_a_check_that_is_described_asks_by_its_description(tmp_path: Path) -> None:
    provider = cast_of()
    plan = a_world(tmp_path, rules=RULES)
    await run(plan, provider)
    asked = [call for call in provider.calls if call.purpose == "check fair_play"]
    assert all("Does anybody cheat?" in call.request.messages[-1].text for call in asked)
    with Archive(plan.folder) as archive:
        kept = {
            row.values["check"]: row.values["severity"] for row in archive.states() if "check" in row.values
        }
    assert kept == {"actor_decision_consistency": "high", "fair_play": "low"}
