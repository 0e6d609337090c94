"""The rehearsal lane fills any reasonable JSON Schema. The oracle is the validator of the `jsonschema` package."""

import asyncio
import contextlib
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import RequestRefused
from trialrun.core.json_schema import mistake_in
from trialrun.providers.rehearsal import RehearsalProvider, schemas
from trialrun.providers.rehearsal.dice import Dice
from trialrun.providers.rehearsal.instances import Writer

Schema = dict[str, Any]


def instance(schema: Schema, seed: int, *, is_brief: bool = False) -> Any:
    dice = Dice(chance.derive(b"schemas", seed))
    writer = Writer(root=schema, dice=dice, sentence=lambda: "The garden can wait.", is_brief=is_brief)
    return writer.value(schema)


def check(schema: Schema, value: Any) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


@st.composite
def bounded(draw: st.DrawFn, low: str, high: str, values: st.SearchStrategy[Any]) -> Schema:
    """Two bounds in order, one, or none."""
    first, second = sorted([draw(values), draw(values)])
    return draw(st.sampled_from([{}, {low: first}, {high: second}, {low: first, high: second}]))


numbers = st.one_of(
    bounded("minimum", "maximum", st.integers(-50, 50)).map(lambda b: {"type": "integer", **b}),
    bounded("minimum", "maximum", st.floats(-50, 50)).map(lambda b: {"type": "number", **b}),
    st.integers(-50, 50).map(
        lambda low: {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + 3}
    ),
    st.integers(-50, 50).map(
        lambda low: {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": low + 1}
    ),
    st.sampled_from([2, 5, 0.5, 0.25]).map(
        lambda step: {"type": "number", "minimum": 3, "maximum": 40, "multipleOf": step}
    ),
    st.sampled_from([2, 5, 7]).map(lambda step: {"type": "integer", "minimum": -3, "multipleOf": step}),
)
patterns = st.sampled_from(
    [
        "^[a-z]{3,8}$",
        r"^\d{4}-\d{2}$",
        "^(yes|no|maybe)$",
        "^[A-Z][a-z]+(-[A-Z][a-z]+)?$",
        r"^\+?[0-9]{2,4}[ -][0-9]+$",
        "^[^,;]+$",
        "ab+c?",
        r"^[\w.]+@[\w]+\.(org|net)$",
        "^(?:a|b){2}x*$",
        "^#[0-9a-fA-F]{6}$",
    ]
)
formats = st.sampled_from(
    [
        "date",
        "date-time",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uuid",
        "json-pointer",
        "regex",
    ]
)
texts = st.one_of(
    bounded("minLength", "maxLength", st.integers(0, 300)).map(lambda b: {"type": "string", **b}),
    patterns.map(lambda pattern: {"type": "string", "pattern": pattern}),
    formats.map(lambda form: {"type": "string", "format": form}),
    st.just({"type": "string", "pattern": "^[a-z]*$", "minLength": 7, "maxLength": 9}),
)
plain = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["string", "null"]}),
    st.just({"type": ["integer", "boolean"]}),
    st.lists(st.one_of(st.integers(), st.text(max_size=5), st.booleans()), min_size=1, max_size=4).map(
        lambda v: {"enum": v}
    ),
    st.one_of(st.integers(), st.text(), st.none()).map(lambda v: {"const": v}),
    numbers,
    texts,
)
names = st.sampled_from(["reason", "score", "name", "label", "turns", "mood", "confidence", "date"])


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(names, inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    closed = draw(st.sampled_from([None, False, True, {"type": "integer"}]))
    if closed is not None:
        schema["additionalProperties"] = closed
    if closed is not False and draw(st.booleans()):
        schema["minProperties"] = len(properties) + draw(st.integers(0, 2))
    if len(properties) == 2 and draw(st.booleans()):
        one, other = properties
        schema["dependentRequired"] = {one: [other]}
    return schema


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    schema: Schema = {
        "type": "array",
        "items": draw(inner),
        **draw(bounded("minItems", "maxItems", st.integers(0, 5))),
    }
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(inner, max_size=2))
    return schema


@st.composite
def branches(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    kind = draw(st.sampled_from(["anyOf", "oneOf", "allOf", "both", "if"]))
    if kind == "anyOf":
        return {"anyOf": draw(st.lists(inner, min_size=1, max_size=3))}
    if kind == "oneOf":
        labels = ["a", "b", "c"]
        options = [
            {
                "type": "object",
                "properties": {"kind": {"const": label}, "value": draw(inner)},
                "required": ["kind"],
            }
            for label in labels
        ]
        return {"oneOf": options}
    if kind == "if":
        return {
            "type": "object",
            "properties": {"is_deceptive": {"type": "boolean"}},
            "required": ["is_deceptive"],
            "if": {"properties": {"is_deceptive": {"const": True}}},
            "then": {"properties": {"quote": draw(inner)}, "required": ["quote"]},
        }
    if kind == "both":
        return {
            "type": "object",
            "properties": {"left": draw(inner)},
            "required": ["left"],
            "anyOf": [{"properties": {"x": draw(inner)}}],
        }
    return {
        "allOf": [
            {"type": "object", "properties": {"first": draw(inner)}, "required": ["first"]},
            {"properties": {"second": draw(inner)}, "required": ["second"]},
        ]
    }


any_schema = st.recursive(
    plain, lambda inner: st.one_of(objects(inner), arrays(inner), branches(inner)), max_leaves=12
)


@given(schema=any_schema, seed=st.integers(0, 2**32), is_brief=st.booleans())
def test_an_instance_is_valid(schema: Schema, seed: int, is_brief: bool) -> None:
    check(schema, instance(schema, seed, is_brief=is_brief))


@given(schema=any_schema, other=any_schema, seed=st.integers(0, 2**32))
def test_our_validator_agrees_with_the_full_one(schema: Schema, other: Schema, seed: int) -> None:
    value = instance(other, seed)
    assert schemas.fits(value, schema, schema) == jsonschema.Draft202012Validator(schema).is_valid(value)


TREE: Schema = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["label", "children"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
LINKED: Schema = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
SPECIAL: dict[str, Schema] = {
    "recursive tree": TREE,
    "linked list": LINKED,
    "a reference with more beside it": {
        "$defs": {"score": {"type": "integer", "minimum": 0, "maximum": 10}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/score", "minimum": 8}, "b": {"$ref": "#/$defs/score"}},
        "required": ["a", "b"],
    },
    "unique labels": {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "uniqueItems": True,
        "minItems": 3,
    },
    "unique numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 5},
        "uniqueItems": True,
        "minItems": 5,
    },
    "contains": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 42}, "minItems": 2},
    "a map": {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 3},
    "pattern properties": {
        "type": "object",
        "patternProperties": {"^turn_[0-9]+$": {"type": "boolean"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    "property names": {"type": "object", "propertyNames": {"enum": ["x", "y", "z"]}, "minProperties": 2},
    "not": {"type": "string", "enum": ["a", "b"], "not": {"const": "a"}},
    "one of, exclusive": {
        "oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]
    },
    "allOf narrows": {"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 4}, {"type": "number"}]},
    "enum and type": {"type": "string", "enum": ["yes", 1, None]},
    "everything": {},
    "nullable object": {
        "type": ["object", "null"],
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    },
    "old definitions": {
        "definitions": {"x": {"const": 3}},
        "type": "array",
        "items": {"$ref": "#/definitions/x"},
        "minItems": 1,
    },
    "dependent schemas": {
        "type": "object",
        "properties": {"card": {"type": "integer"}},
        "required": ["card"],
        "dependentSchemas": {
            "card": {"required": ["address"], "properties": {"address": {"type": "string"}}}
        },
    },
    "branches of branches": {
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "allOf": [
            {"anyOf": [{"required": ["c"]}, {"required": ["d"]}]},
            {"type": "object", "properties": {name: {"type": "integer"} for name in "abcd"}},
        ],
    },
    "a reference to branches": {
        "$defs": {"verdict": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}},
        "type": "array",
        "items": {"$ref": "#/$defs/verdict"},
        "minItems": 3,
    },
    "two conditions": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "allOf": [
            {
                "if": {"properties": {"a": {"const": True}}},
                "then": {"required": ["x"]},
                "else": {"required": ["y"]},
            },
            {"if": {"properties": {"b": {"const": True}}}, "then": {"required": ["z"]}},
        ],
    },
    "multiples of both": {"allOf": [{"type": "integer", "multipleOf": 4}, {"multipleOf": 6, "minimum": 1}]},
    "big integers": {"type": "integer", "minimum": 10**12, "maximum": 10**15},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_instances_of_special_schemas_are_valid(name: str) -> None:
    for seed in range(60):
        check(SPECIAL[name], instance(SPECIAL[name], seed))
        check(SPECIAL[name], instance(SPECIAL[name], seed, is_brief=True))


@pytest.mark.parametrize(
    "schema", [{"type": "integer", "minimum": 3, "maximum": 2}, {"$ref": "#/$defs/gone"}, {"$ref": "#"}]
)
def test_an_impossible_schema_is_said_to_be_so(schema: Schema) -> None:
    with pytest.raises(schemas.Unsatisfiable):
        instance(schema, 1)


KEYWORDS = st.sampled_from(
    [
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "additionalProperties",
        "patternProperties",
        "contains",
        "minProperties",
        "dependentRequired",
        "dependentSchemas",
        "propertyNames",
        "uniqueItems",
        "minContains",
        "$defs",
    ]
)
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 10**7),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["string", "object", "array", "integer", "#", "#/$defs/a", "(", "^a{99999}$", "(?=x)"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYWORDS | names, inner, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(schema=st.dictionaries(KEYWORDS, junk, max_size=5), seed=st.integers(0, 2**32))
def test_a_schema_that_makes_no_sense_is_refused_or_answered_and_never_breaks(
    schema: Schema, seed: int
) -> None:
    request = Request(model="m/x", messages=(Message("user", "Judge."),), max_tokens=200, schema=schema)
    this = Call(
        trial="t",
        condition="c",
        address="1",
        party="",
        purpose="",
        turn=1,
        request=request,
        key=chance.derive(b"junk", seed),
    )
    with contextlib.suppress(RequestRefused):
        raw = asyncio.run(RehearsalProvider().send(this, b"", attempt=1, timeout_s=5))
        assert RehearsalProvider().meter(raw) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
        {"type": "object", "minProperties": 10**9},
        {"type": "string", "pattern": "^(?!x).*(a+)+$"},
        {"$ref": "#"},
        {"allOf": [{"anyOf": [{"not": {}}] * 9}] * 9},
        {"type": "array", "minItems": float("inf")},
        {"multipleOf": 0},
        {"type": "number", "multipleOf": 1e308},
        {"type": "number", "multipleOf": -3},
    ],
)
def test_a_hopeless_schema_is_given_up_soon(schema: Schema) -> None:
    began = time.process_time()
    request = Request(model="m/x", messages=(Message("user", "Judge."),), max_tokens=200, schema=schema)
    this = Call(
        trial="t", condition="c", address="1", party="", purpose="", turn=1, request=request, key=b"k" * 32
    )
    asyncio.run(RehearsalProvider().send(this, b"", attempt=1, timeout_s=5))
    assert time.process_time() - began < 5


def test_a_step_of_a_tenth_is_kept_as_it_is_written() -> None:
    schema: Schema = {"type": "number", "minimum": 0, "maximum": 3, "multipleOf": 0.1}
    values = {instance(schema, seed) for seed in range(60)}
    assert len(values) > 10
    assert all(mistake_in(value, schema) is None for value in values)
