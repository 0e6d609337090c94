"""Sessions that are rated later: every paradigm at every granularity, the rubrics that come as examples, the hidden
diagram as an outcome, and what raters are shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.judging import judge, rater, ratings
from tests.behaviour.support import run
from tests.therapy.sessions import client, far_end, session, texts
from trialrun.app.exits import Exit
from trialrun.app.studies import Plan
from trialrun.core.calls import Call
from trialrun.procedures.therapy.shelf import SHELF
from trialrun.store.archive import Archive

RUBRICS = Path(__file__).parents[2] / "examples/therapy/rubrics"
ALL = """
name: all
subject: client
granularity: {granularity}
needs: [profile]
profile: character
models: [z/rater]
items:
  - {{id: open, question: Is it open?, paradigm: binary}}
  - {{id: depth, question: How deep is it?, paradigm: scalar, scale: [1, 5]}}
  - {{id: mood, question: Which mood?, paradigm: categorical, labels: [sad, angry]}}
  - {{id: words, question: Which feelings are named?, paradigm: extraction, fields: {{feelings: the words}}}}
"""
SECRET = "Margit has zqsecretzq."


async def finished(folder: Path, one: dict[str, Any] | None = None) -> Plan:
    plan = session(folder, one=one or client("patientPsi"))
    assert (await run(plan, far_end())).exit is Exit.DONE
    return plan


@pytest.mark.parametrize(
    ("granularity", "calls", "units"), [("session", 1, 1), ("turn", 1, 3), ("turn_by_turn", 3, 3)]
)
async def test_each_paradigm_at_each_granularity(tmp_path: Path, granularity: str, calls: int, units: int):
    plan, provider = await finished(tmp_path), rater()
    file = tmp_path / "all.yaml"
    file.write_text(ALL.format(granularity=granularity), encoding="utf-8")
    assert (await judge(plan, file, provider)).exit is Exit.DONE
    assert len(provider.calls) == calls
    assert all("He has seen that I know nothing." in texts(call) for call in provider.calls), (
        "with the profile"
    )
    found = {(each.item, each.turn): each for each in ratings(plan)}
    assert len(found) == 4 * units
    assert {key[0] for key in found} == {"open", "depth", "mood", "words"}
    paid = sum(each.cost_usd or 0 for each in found.values())
    assert paid > 0
    with Archive(plan.folder) as archive:
        assert float(sum(state.spent_usd for state in archive.judging())) == pytest.approx(float(paid))


def depressed() -> dict[str, Any]:
    """A client with a mark in what it hides, and a warning for readers."""
    character = dict(SHELF["margit-moderate"])
    return client("eeyore", character={**character, "situation": SECRET, "notice": "Contains zqnoticezq."})


@pytest.mark.parametrize("file", sorted(RUBRICS.glob("*.yaml")), ids=lambda path: path.stem)
async def test_a_rater_sees_what_its_rubric_needs_and_no_warning_for_readers(tmp_path: Path, file: Path):
    plan, provider = await finished(tmp_path, depressed()), rater()
    assert (await judge(plan, file, provider, models=("z/rater",))).exit is Exit.DONE
    assert ("zqsecretzq" in texts(provider.calls[0])) == (file.stem == "client")
    assert not any("zqnoticezq" in texts(call) for call in provider.calls)


@pytest.mark.parametrize(("told", "share"), [("everything", 1.0), ("half", 0.5), ("nothing", 0.0)])
async def test_the_hidden_diagram_is_recovered_as_far_as_the_talk_tells_it(
    tmp_path: Path, told: str, share: float
):
    plan = await finished(tmp_path)
    truth: Mapping[str, Any] = SHELF["mara-exam"]
    known = {"everything": 8, "half": 4, "nothing": 0}[told]

    def value(call: Call, form: Mapping[str, Any]) -> object:
        fields = form.get("properties")
        if not fields:
            return None
        assert "recital" not in texts(call), "who reconstructs the diagram has not seen it"
        return {name: [str(truth[name])] * (place < known) for place, name in enumerate(fields)}

    provider = rater(value)
    assert (await judge(plan, RUBRICS / "diagram.yaml", provider, models=("z/rater",))).exit is Exit.DONE
    found = {each.item: each.value for each in ratings(plan)}
    assert len([item for item in found if item.startswith("diagram.")]) == 9
    assert found["diagram.recovered"] == share
