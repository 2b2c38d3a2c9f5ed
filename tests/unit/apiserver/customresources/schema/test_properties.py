"""Properties of pruning, defaulting and validation, for schemas and objects that hypothesis makes."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.customresources.schema.errors import Report
from bridgehead.apiserver.customresources.schema.publishing import definition_2, definition_3
from bridgehead.apiserver.customresources.schema.ratcheting import ABSENT
from bridgehead.apiserver.customresources.schema.values import SchemaCheck
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import conform
from tests.unit.examples import examples

from .objects import META, schema_texts

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.0]) | st.sampled_from(["", "x", "yy"])
)
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "nullable": st.booleans(),
        "enum": st.lists(SCALARS.filter(lambda value: value is not None), min_size=1, max_size=3),
        "maximum": st.integers(-1, 3),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "required": st.lists(NAMES, max_size=2, unique=True),
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(
            LIMITS.map(lambda one: {k: v for k, v in one.items() if k != "nullable"}), min_size=1, max_size=3
        )
        for name in ("anyOf", "oneOf", "allOf")
    },
)


def _leaf(kind: str, limits: JsonObject, choices: JsonObject, default: Any) -> JsonObject:
    schema = {"type": kind, **limits, **choices}
    return schema | ({"default": default} if default is not None else {})


LEAVES = st.builds(_leaf, st.sampled_from(["string", "integer", "number", "boolean"]), LIMITS, CHOICES, SCALARS)


def _nested(below: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    fields = st.dictionaries(NAMES, below, max_size=3)
    return st.one_of(
        st.builds(lambda properties, limits: {"type": "object", "properties": properties, **limits}, fields, LIMITS),
        st.builds(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            fields,
        ),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, below),
        st.builds(lambda items, limits: {"type": "array", "items": items, **limits}, below, LIMITS),
        st.builds(lambda items: {"type": "array", "items": items, "x-kubernetes-list-type": "set"}, LEAVES),
        st.builds(
            lambda items, key: {
                "type": "array",
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": [key],
            },
            st.builds(lambda properties: {"type": "object", "properties": properties}, fields),
            NAMES,
        ),
    )


SCHEMAS = st.recursive(LEAVES, _nested, max_leaves=8)
ROOTS = st.dictionaries(NAMES, SCHEMAS, max_size=4).map(lambda properties: {"type": "object", "properties": properties})


@examples(60, deadline=None)
@given(ROOTS, OBJECTS)
def test_pruning_and_defaulting_are_idempotent_and_change_no_argument(schema: JsonObject, obj: JsonObject) -> None:
    structural = Structural.parse(schema, META)
    before = copy.deepcopy(obj)
    kept, _ = structural.pruned(obj)
    again, unknown = structural.pruned(kept)
    assert again is kept
    assert unknown == []
    full = structural.defaulted(kept)
    assert structural.defaulted(full) is full
    assert conform(obj, structural.shape)[0] == kept
    assert obj == before


@examples(60, deadline=None)
@given(ROOTS, OBJECTS, OBJECTS)
def test_an_update_may_keep_what_is_invalid_and_never_more(
    schema: JsonObject, old: JsonObject, new: JsonObject
) -> None:
    structural = Structural.parse(schema)
    errors = structural.validate(new)
    assert structural.validate(copy.deepcopy(new), new) == []
    # An update forgives errors; it finds no other ones. (Errors that depend on the best alternative may differ.)
    if "Of" not in str(schema):
        assert {(error.field, error.message) for error in structural.validate(new, old)} <= {
            (error.field, error.message) for error in errors
        }
    if not errors:
        assert structural.validate(new, old) == []


@examples(60, deadline=None)
@given(ROOTS, OBJECTS)
def test_any_schema_that_is_accepted_works(schema: JsonObject, obj: JsonObject) -> None:
    before = copy.deepcopy(schema)
    accepted = schema_texts(schema, has_status=True) == []
    if accepted:
        structural = Structural.parse(schema)
        structural.prune(obj)
        structural.default(obj)
        structural.validate(obj)
    definition_2(schema, "g.io", "v1", "K")
    definition_3(schema, "g.io", "v1", "K")
    assert schema == before


WITHOUT_NULLS = st.recursive(
    SCALARS.filter(lambda value: value is not None and value != 2.0),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=8,
)


@examples(150, deadline=None)
@given(SCHEMAS, WITHOUT_NULLS)
def test_values_are_valid_where_another_validator_finds_them_valid(schema: JsonObject, value: Any) -> None:
    """Nulls are left out, which JSON Schema and OpenAPI 3.0 treat in different ways, and whole floats."""
    errors = Report()
    SchemaCheck(schema, None)(value, ABSENT, None, errors)
    assert (not errors) == jsonschema.Draft4Validator(schema).is_valid(value)
