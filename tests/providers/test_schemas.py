"""Bounds that constrained decoding does not know are told in descriptions, and read there again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.providers.schemas import closed, heeded

BOUNDS = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(-10, 10),
        "exclusiveMaximum": st.floats(-1e6, 1e6, allow_nan=False),
        "multipleOf": st.sampled_from([1, 0.25]),
        "description": st.sampled_from(["how deep", "{maximum: 3} is not the end", ""]),
    },
)


@given(bounds=BOUNDS, items=st.sampled_from([{}, {"uniqueItems": True, "maxItems": 4}]))
def test_what_is_said_of_a_bound_is_heeded(bounds: dict[str, Any], items: dict[str, Any]):
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"type": "number", **bounds},
            "b": {"type": "array", "items": {"type": "string"}, **items},
        },
        "required": ["a", "b"],
    }
    found: Any = heeded(closed(schema))["properties"]
    for name, part in schema["properties"].items():
        for keyword, value in part.items():
            if keyword != "description":
                assert found[name][keyword] == value


@pytest.mark.parametrize(
    "description", ["{minimum: many}", "a set {minimum: 1} and more", "{pattern: 3}", "minimum: 1"]
)
def test_other_words_are_no_bounds(description: str):
    assert set(heeded({"type": "number", "description": description})) == {"type", "description"}
