"""The reference of the study file says what the parser does."""

import re
from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel

from trialrun.core.design import Design
from trialrun.core.reading import document
from trialrun.core.reading.parse import parse_study
from trialrun.core.reading.source import read_source
from trialrun.procedures import conversation

PAGE = (Path(__file__).parents[2] / "docs" / "study-file.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
MODELS = [
    document.StudyFile,
    document.PartyEntry,
    document.JudgeEntry,
    document.DesignEntry,
    document.BudgetEntry,
    document.LimitsEntry,
    document.RateEntry,
    document.PriceEntry,
    document.RehearsalEntry,
]


def test_the_complete_example_is_a_study() -> None:
    study = parse_study(
        EXAMPLE,
        file="study.yaml",
        read=lambda name: f"Text of {name}, {{{{ tone }}}}." if name.startswith("prompts/") else None,
        procedures={"conversation": conversation.FACTS},
    )
    assert study.name == "warmth-and-disclosure"
    assert Design(study).count() == 2 * 2 * 2 * 2 - 4 + 1


def test_the_complete_example_uses_every_section() -> None:
    data = cast("dict[str, object]", read_source(EXAMPLE, file="").data)
    assert set(document.STUDY_KEYS) - set(data) == {"sources"}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_is_in_the_reference(model: type[BaseModel]) -> None:
    for key in model.model_fields:
        assert f"`{key}`" in PAGE, key


def test_the_schema_accepts_the_example() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = jsonschema.Draft202012Validator(document.json_schema()).iter_errors(
        read_source(EXAMPLE, file="").data
    )
    assert [error.message for error in found] == []
