"""Scenarios: metrics of every kind, what is missing, and the checks of quality."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import run, states
from tests.procedures.worlds import RULES, TRUST, Data, a_world, cast_of, measured, notes
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.core.calls import Call
from trialrun.store.archive import Archive

# --- metrics and checks -----------------------------------------------------------------------------------------------


async def test_both_documented_shapes_of_metrics_measure_the_same(tmp_path: Path) -> None:
    other = [
        {
            "name": "trust",
            "type": "continuous",
            "range": [0, 10],
            "extraction": {"type": "pattern", "pattern": r"trust.*?(\d+)"},
        }
    ]
    found: list[Any] = []
    for number, metrics in enumerate((TRUST, other)):
        plan = a_world(tmp_path / str(number), metrics=metrics)
        await run(plan, cast_of())
        found.append(measured(plan))
    assert found[0] == found[1] == {"trust": 6}


async def test_every_kind_of_metric_has_its_values(tmp_path: Path) -> None:
    metrics: Data = {
        "trust": TRUST["trust"],
        "water": {"type": "float", "extraction_method": "regex", "pattern": r"water: (\S+)"},
        "fights": {"type": "int", "method": "keyword", "keywords": ["fight"], "actor_specific": True},
        "angry": {"type": "bool", "extraction": {"type": "keyword", "keywords": ["angry"], "scoring": "presence"}},
        "fair": {"type": "continuous", "range": [0, 10], "extraction": {"type": "llm", "model": "x/rater"}},
        "mood": {"type": "categorical", "categories": ["calm", "wild"], "extraction": {"type": "llm"}},
        "unknown": {"type": "int", "extraction": {"type": "llm"}},
        "cat_words": {"type": "int", "method": "keyword", "keywords": ["fight"], "actor": "cat"},
    }  # fmt: skip

    def lines(call: Call, form: Mapping[str, Any]) -> Data:
        if "is_known" in form:
            value = {"metric fair": 7.5, "metric mood": "wild"}.get(call.purpose, 3)
            return {"is_known": call.purpose != "metric unknown", "value": value}
        if "action" in form:
            return {"action": "Fight, fight and fight." if call.party == "cat" else "Rest."}
        return (
            {"world_state": "They are angry. Trust: 4, then trust: 8. Water: 10^3"}
            if "world_state" in form
            else {}
        )

    provider = cast_of(lines)
    plan = a_world(tmp_path, metrics=metrics)
    await run(plan, provider)
    assert measured(plan) == {
        "trust": 8, "water": 1000.0, "ant.fights": 0, "bee.fights": 0, "cat.fights": 3, "angry": True, "fair": 7.5,
        "mood": "wild", "unknown": None, "cat_words": 3,
    }  # fmt: skip
    assert notes(plan)["unknown"] == "the text does not say it"
    assert {c.request.model for c in provider.calls if c.purpose == "metric fair"} == {"x/rater"}


async def test_a_metric_that_is_not_in_the_text_is_missing_and_never_0(tmp_path: Path) -> None:
    metrics = {**TRUST, "debt": {"type": "int", "extraction_method": "regex", "pattern": r"debt: (\w+)"}}

    def silent(call: Call, form: Mapping[str, Any]) -> Data:
        return {"world_state": "Nothing is said. Debt: none"} if "world_state" in form else {}

    plan = a_world(tmp_path, metrics=metrics, scenario={"failure_criteria": {"trust": "< 3"}})
    await run(plan, cast_of(silent))
    assert measured(plan) == {"trust": None, "debt": None, "success": None}
    assert notes(plan)["trust"] == "the pattern matches nothing"
    assert notes(plan)["debt"] == "`none` is no number"


async def test_a_value_outside_of_its_range_is_missing(tmp_path: Path) -> None:
    metrics = [
        {"name": "trust", "type": "int", "range": [0, 5], "method": "regex", "pattern": r"trust: (\d+)"}
    ]
    plan = a_world(tmp_path, metrics=metrics)
    await run(plan, cast_of())
    assert measured(plan)["trust"] is None
    assert notes(plan)["trust"] == "6 is outside of 0 to 5"


async def test_a_manual_metric_is_asked_of_a_person_at_the_end(tmp_path: Path) -> None:
    metrics = {
        **TRUST,
        "mood": {"type": "categorical", "categories": ["calm", "wild"], "extraction_method": "manual"},
    }
    plan = a_world(tmp_path, metrics=metrics)
    ran = await run(plan, cast_of())
    assert ran.exit == Exit.PARKED
    question = open_questions(plan.folder)[0]
    assert question.options == ("calm", "wild", "not known")
    await answer(plan.folder, question, "wild")
    provider = cast_of()
    assert (await run(plan, provider)).exit == Exit.DONE
    assert provider.calls == [], "nothing is asked again"
    assert measured(plan)["mood"] == "wild"


async def test_thresholds_that_are_crossed_are_noted(tmp_path: Path) -> None:
    metrics = {"trust": {**TRUST["trust"], "warning_threshold": 5, "critical_threshold": 6}}
    plan = a_world(tmp_path, metrics=metrics)
    await run(plan, cast_of())
    with Archive(plan.folder) as archive:
        found = [(row.turn, row.values["threshold"]) for row in archive.states() if "threshold" in row.values]
    assert found == [(1, "warning"), (2, "critical")]


def cheating(call: Call, form: Mapping[str, Any]) -> Data:
    return {"issues": ["It is unfair."]} if "issues" in form and call.purpose == "check fair_play" else {}


async def test_quality_checks_are_made_counted_and_reported(tmp_path: Path) -> None:
    provider = cast_of(cheating)
    plan = a_world(tmp_path, rules=RULES)
    await run(plan, provider)
    checks = [(call.purpose, call.turn) for call in provider.calls if call.party == "checker"]
    assert checks.count(("check actor_decision_consistency", 1)) == 3
    assert checks.count(("check fair_play", 2)) == 1
    assert not any("world_state" in purpose for purpose, _ in checks)
    assert {call.request.model for call in provider.calls if call.party == "checker"} == {"x/checker"}
    assert measured(plan)["issues"] == 2
    with Archive(plan.folder) as archive:
        kept = {row.name: archive.content_of(row.content).decode() for row in archive.artefacts()}
    assert set(kept) == {"validation-001.md", "validation-002.md", "validation-summary.md"}
    assert kept["validation-summary.md"].count("It is unfair.") == 2


@pytest.mark.parametrize(
    ("more", "turns", "end"),
    [
        ({}, 4, "max_turns"),
        ({"max_issues_before_halt": 2}, 2, "quality"),
        ({"halt_on_critical": True}, 4, "max_turns"),
        (
            {"halt_on_critical": True, "checks": {"fair_play": {"description": "?", "severity": "high"}}},
            1,
            "quality",
        ),
        ({"run_after_each_turn": False, "max_issues_before_halt": 1}, 4, "max_turns"),
    ],
)
async def test_what_follows_from_issues_the_rules_say(
    tmp_path: Path, more: Data, turns: int, end: str
) -> None:
    plan = a_world(tmp_path, scenario={"turns": 4}, rules={**RULES, **more})
    await run(plan, cast_of(cheating))
    state = next(iter(states(plan).values()))
    assert (state.turns, state.end_reason) == (turns, end)


async def test_reports_of_checks_come_in_the_form_that_is_asked_for_or_not_at_all(tmp_path: Path) -> None:
    kept: list[set[str]] = []
    for more in ({"report_format": "json", "generate_turn_reports": False}, {"generate_summary": False}):
        plan = a_world(tmp_path / str(len(kept)), rules={**RULES, **more}, scenario={"turns": 1})
        await run(plan, cast_of())
        with Archive(plan.folder) as archive:
            kept.append({row.name for row in archive.artefacts()})
    assert kept == [{"validation-summary.json"}, {"validation-001.md"}]
