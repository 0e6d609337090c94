"""From a finished study to the levels of the next: rules, what they look at, and the file that comes out."""

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import make_plan, run
from trialrun.app.findings.selecting import Selection, rule_of, select
from trialrun.core.errors import UsageError
from trialrun.core.ports import Lab
from trialrun.core.reading.entries import entries_of, read_entries
from trialrun.core.study import Trial
from trialrun.testing.scripted import Scripted

QUESTIONS = [{"id": name, "text": f"Is {name} safe?"} for name in ("ice", "fire", "fog")]
FLIPS: dict[tuple[str, str], list[bool | None]] = {
    ("ice", "cheap"): [True, True, False, False],
    ("ice", "dear"): [False, False, False, False],
    ("fire", "cheap"): [False, False, False, False],
    ("fire", "dear"): [True, False, False, False],
    ("fog", "cheap"): [None, None, None, None],
    ("fog", "dear"): [None, None, None, None],
}


async def screening(trial: Trial, lab: Lab) -> dict[str, object]:
    """Measures what the table says, and a number and a label beside it."""
    labels = trial.condition.labels
    flipped = FLIPS[labels["question"], labels["model"]][trial.replicate - 1]
    lab.measure("flipped", flipped)
    lab.measure("first", "wrong" if labels["question"] == "fire" else "right")
    await lab.ask("a", labels["question"])
    return {"level": trial.replicate}


async def screened(folder: Path) -> Path:
    factors: dict[str, Any] = {
        "question": {
            "levels": {str(entry["id"]): {"settings.question": entry} for entry in QUESTIONS},
        },
        "model": {"parties.a.model": {"cheap": "x/cheap", "dear": "x/dear"}},
    }
    plan = make_plan(folder, screening, factors=factors, replicates=4)
    await run(plan, Scripted("answer"))
    return plan.folder


def taken(folder: Path, *rules: str, **only: str) -> tuple[str, ...]:
    return found(folder, *rules, **only).taken


def found(folder: Path, *rules: str, **only: str) -> Selection:
    return select(folder, factor="question", rules=rules, only=only)


async def test_a_rule_takes_the_levels_for_which_it_holds(tmp_path: Path):
    folder = await screened(tmp_path)
    assert taken(folder, "flipped >= 0.25") == ("ice",)
    assert taken(folder, "flipped > 0") == ("ice", "fire")
    assert taken(folder, "flipped < 0.2") == ("fire",)
    assert taken(folder, "flipped > 0", model="dear") == ("fire",)
    assert taken(folder, "flipped > 0", "first=right > 0.5") == ("ice",)
    assert taken(folder, "level >= 2.5", "flipped >= 0") == ("ice", "fire")


async def test_an_end_of_the_interval_keeps_what_few_trials_cannot_rule_out(tmp_path: Path):
    folder = await screened(tmp_path)
    assert taken(folder, "flipped >= 0.4", model="cheap") == ("ice",)
    assert taken(folder, "high flipped >= 0.4", model="cheap") == ("ice", "fire")
    assert taken(folder, "low flipped >= 0.4", model="cheap") == ()


async def test_levels_of_which_the_trials_say_nothing_are_named_and_not_taken(tmp_path: Path):
    selection = found(await screened(tmp_path), "flipped >= 0")
    assert (selection.taken, selection.left_out, selection.without_data) == (("ice", "fire"), (), ("fog",))


async def test_the_file_is_read_back_as_levels_and_says_where_it_comes_from(tmp_path: Path):
    selection = found(await screened(tmp_path), "flipped > 0", model="dear")
    assert selection.text.startswith(
        "# Levels of `question` in the study `small` for which `flipped > 0` holds, in trials with model=dear.\n"
    )
    assert entries_of(read_entries(selection.text, file="risky.yaml")) == [
        {"id": "fire", "text": "Is fire safe?"}
    ]


@pytest.mark.parametrize(
    "text", ["flipped", "flipped ~ 3", ">= 2", "flipped >= lots", "flipped >= 1.2.3", "middle flipped > 1"]
)
def test_what_is_no_rule_is_refused(text: str):
    with pytest.raises(UsageError, match="is no rule"):
        rule_of(text)


async def test_unknown_factors_and_levels_are_refused_with_the_near_miss(tmp_path: Path):
    folder = await screened(tmp_path)
    with pytest.raises(UsageError) as caught:
        select(folder, factor="qestion", rules=["flipped > 0"])
    assert caught.value.fix == "did you mean `question`?"
    with pytest.raises(UsageError) as caught:
        select(folder, factor="question", rules=["flipped > 0"], only={"model": "chaep"})
    assert caught.value.fix == "did you mean `cheap`?"
