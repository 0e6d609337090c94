"""The JSON Schema that editors read says what the parser says."""

from pathlib import Path
from typing import Any

import pytest

from tests.core.studies import SMALL
from tests.core.test_parse import FULL
from trialrun.core.reading.document import STUDY_KEYS, StudyFile, json_schema
from trialrun.core.reading.source import read_source

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def data_of(text: str) -> Any:
    return read_source(text, file="s.yaml").data


def test_the_schema_names_its_dialect_and_describes_every_key() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert list(schema["properties"]) == [*(key for key in STUDY_KEYS if key != "sources"), "sources"]
    for name, part in [("study file", schema), *schema["$defs"].items()]:
        assert part["additionalProperties"] is False, name
        for key, field in part["properties"].items():
            assert field.get("description"), f"{name}: {key}"
    assert set(StudyFile.model_fields) == set(schema["properties"])


@pytest.mark.parametrize("text", [SMALL, FULL])
def test_valid_studies_pass(validator: Any, text: str) -> None:
    assert [error.message for error in validator.iter_errors(data_of(text))] == []


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/study.yaml")), ids=lambda file: file.parent.name)
def test_the_examples_pass(validator: Any, file: Path) -> None:
    assert [error.message for error in validator.iter_errors(data_of(file.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    "more",
    [
        "sed: 3",
        "replicates: 0",
        "replicates: x",
        "budget_usd: lots",
        "budget_usd: {studdy: 3}",
        "limits: {open_trial: 3}",
        "limits: {rates: {x: {requests: 3}}}",
        "prices: {a/b: {input: 1}}",
        "judges: {d: {model: a, question: q}}",
        "measures: turns",
        "factors: {a: {replicates: [1, 2]}}",
        "factors: {a: {levels: {x: 5}}}",
        "factors: {a: []}",
        "design: {zip: [a, b]}",
        "settings: []",
        "rehearsal: {errors: 3}",
    ],
)
def test_mistakes_are_seen_while_typing(validator: Any, more: str) -> None:
    assert list(validator.iter_errors(data_of(SMALL + more + "\n")))
