"""What the stand-in makes for a JSON schema is valid by that schema, for the keywords of structured output."""

import json
import random
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shell.simulate.pattern import from_pattern
from shell.simulate.schema import instance

NODE = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}}
TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["children"],
}
SCORE = {"enum": [1, 2, 3], "title": "Score"}
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "empty": {},
    "const": {"const": {"a": [1]}},
    "enum of mixed values": {"enum": ["a", 1, None, True]},
    "type list": {"type": ["null", "integer"], "minimum": 5},
    "bounded integer": {"type": "integer", "minimum": -3, "maximum": -3},
    "only a maximum below zero": {"type": "integer", "maximum": -50},
    "exclusive bounds": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    "exclusive number": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.01},
    "a narrow number": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    "steps": {"type": "integer", "minimum": 10, "maximum": 20, "multipleOf": 7},
    "both kinds of minimum": {"type": "integer", "minimum": 0, "exclusiveMinimum": 9},
    "lengths": {"type": "string", "minLength": 40, "maxLength": 41},
    "pattern": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
    "pattern with a choice": {"type": "string", "pattern": "^(low|high)( and more)?$"},
    "pattern within lengths": {"type": "string", "pattern": "^[a-z]+$", "minLength": 5, "maxLength": 8},
    "unique": {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "maxItems": 3, "uniqueItems": True},
    "at most": {"type": "array", "items": {"type": "boolean"}, "maxItems": 0},
    "at least": {"type": "array", "items": {"type": "boolean"}, "minItems": 7},
    "exactly as many": {"type": "array", "items": {"type": "string"}, "minItems": 6, "maxItems": 6},
    "first items and more": {"type": "array", "prefixItems": [{"type": "integer"}] * 6, "items": {"type": "string"}},
    "a forbidden property": {"type": "object", "properties": {"a": False, "b": {"type": "integer"}}},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
    "required without a property": {"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}},
    "a map": {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 2},
    "at most some properties": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["b"],
        "maxProperties": 1,
    },
    "linked list": {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
    "tree through the root": TREE,
    "escaped reference": {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 7}}},
    "reference with more beside it": {"$ref": "#/$defs/S", "minLength": 30, "$defs": {"S": {"type": "string"}}},
    "all of": {
        "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
        "$defs": {"A": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}},
    },
    "any of with required parts": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "anyOf": [{"required": ["b"]}],
    },
    "nullable reference": {"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}], "$defs": {"S": SCORE}},
    "one of": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_made_is_valid(schema: Any) -> None:
    for seed in range(20):
        made = instance(schema, random.Random(seed))
        jsonschema.Draft202012Validator(schema).validate(made)
        assert json.loads(json.dumps(made)) == made


names = st.sampled_from(["name", "age", "tags", "note"])
leaves = st.one_of(
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more}, *[st.integers(0, 50)] * 2),
    st.builds(lambda low: {"type": "number", "minimum": low}, st.integers(-5, 5)),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, *[st.integers(0, 30)] * 2
    ),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | st.text(), min_size=1, max_size=3)),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(names, inner, min_size=1)
    return st.one_of(
        st.builds(lambda item, least: {"type": "array", "items": item, "minItems": least}, inner, st.integers(0, 2)),
        st.builds(lambda least, more: _array_of_digits(least, least + more), st.integers(0, 7), st.integers(0, 7)),
        st.builds(lambda of: {"type": "object", "properties": of, "required": sorted(of)[:2]}, properties),
        st.builds(lambda of: {"type": "object", "properties": of, "additionalProperties": False}, properties),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
    )


def _array_of_digits(least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": [*range(10)]}, "minItems": least, "maxItems": most}


@settings(max_examples=60, deadline=None)
@given(schema=st.recursive(leaves, _nested, max_leaves=6), seed=st.integers(0, 9))
def test_what_is_made_for_any_nested_schema_is_valid(schema: Any, seed: int) -> None:
    jsonschema.Draft202012Validator(schema).validate(instance(schema, random.Random(seed)))


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{3}-\d{2}$",
        r"[^a]+x",
        r"^(a|bc)*d?$",
        r"^\w+@\w+\.com$",
        r"^(?P<q>['\"])\w(?P=q)$",
        r"^[\w.-]+\s\S$",
        "a.c",
    ],
)
def test_a_pattern_is_found_in_its_text(pattern: str) -> None:
    for seed in range(20):
        assert re.search(pattern, from_pattern(pattern, random.Random(seed)))


def test_a_pattern_that_python_cannot_read_gives_an_empty_text() -> None:
    assert from_pattern(r"\p{L}+", random.Random(0)) == ""


def test_the_same_seed_makes_the_same() -> None:
    schema = SCHEMAS["tree through the root"]
    assert instance(schema, random.Random(3)) == instance(schema, random.Random(3))
    made = {json.dumps(instance({"type": "string"}, random.Random(seed))) for seed in range(9)}
    assert len(made) > 5
