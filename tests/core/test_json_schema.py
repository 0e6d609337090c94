"""Whether a value fits its schema: held against jsonschema, and in words that a model can act on."""

from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from trialrun.core.json_schema import mistake_in

NAMES = st.sampled_from(["a", "b", "score"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([0.0, 1.0, 1.5, -2.25]),
    st.sampled_from(["", "a", "ab", "yes", "é☃"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
BOUNDS = st.integers(0, 4)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "const": SCALARS,
            "minimum": BOUNDS,
            "exclusiveMaximum": BOUNDS,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": BOUNDS,
            "maxLength": BOUNDS,
            "pattern": st.sampled_from(["^a", "b$", "[yé]"]),
            "minItems": BOUNDS,
            "maxItems": BOUNDS,
            "uniqueItems": st.booleans(),
            "items": inner | st.booleans(),
            "prefixItems": some,
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "o"]), inner, max_size=1),
            "additionalProperties": inner | st.booleans(),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": BOUNDS,
            "maxProperties": BOUNDS,
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "not": inner,
        },
    )


SCHEMAS = st.recursive(keywords(st.just({})), keywords, max_leaves=4)


@given(value=VALUES, schema=SCHEMAS)
@example(value=True, schema={"enum": [1]})
@example(value=1.0, schema={"type": "integer", "const": 1})
@example(value=[1, True], schema={"uniqueItems": True})
@example(value={"a": [1]}, schema={"enum": [{"a": [1.0]}, {"a": [True]}]})
def test_a_value_fits_where_jsonschema_says_so(value: Any, schema: dict[str, Any]) -> None:
    assert (mistake_in(value, schema) is None) == Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "x", "next": None},
        {"name": "x", "next": {"name": "y", "next": None}},
        {"name": 3},
        {"next": {}},
    ],
)
def test_references_are_followed_and_may_come_back(value: Any) -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["name"],
            }
        },
    }
    assert (mistake_in(value, schema) is None) == Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"score": 7}, "`$.score` is 7, and must be at most 5"),
        ({"score": "7"}, '`$.score` is "7", and must be of type integer'),
        ({}, "`$` has no `score`"),
        ({"score": 3, "why": 1}, "`$` must not have `why`, only `score`, `labels`"),
        (
            {"score": 3, "labels": ["good", "odd"]},
            '`$.labels[1]` is "odd", and must be one of ["good","bad"]',
        ),
        ([], "`$` is [], and must be of type object"),
    ],
)
def test_a_mistake_says_where_and_what_is_allowed(value: object, words: str) -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "labels": {"type": "array", "items": {"enum": ["good", "bad"]}},
        },
        "required": ["score"],
        "additionalProperties": False,
    }
    assert mistake_in(value, schema) == words


def test_what_makes_no_sense_forbids_nothing_and_never_raises() -> None:
    for schema in (
        {"$ref": "#"},
        {"$ref": "http://x/y"},
        {"$ref": "#/no/where"},
        {"pattern": "("},
        {"multipleOf": 0},
    ):
        assert mistake_in("a", cast("dict[str, object]", schema)) is None
        assert mistake_in(3, cast("dict[str, object]", schema)) is None


@pytest.mark.parametrize(
    ("value", "step", "fits"),
    [
        (0.07, 0.01, True),
        (0.3, 0.1, True),
        (0.35, 0.1, False),
        (10**400, 0.5, True),
        (10**400 + 1, 2.5, False),
        (float("inf"), 0.5, False),
        (1.5, float("inf"), True),
        (3, -2, True),
    ],
)
def test_a_multiple_is_one_of_the_numbers_as_they_are_written(value: float, step: float, fits: bool) -> None:
    assert (mistake_in(value, {"multipleOf": step}) is None) is fits
