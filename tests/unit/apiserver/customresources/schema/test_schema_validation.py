"""Validation of declared schemas, with the texts of a Kubernetes API server."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.customresources.schema import (
    BadFieldPath,
    Structural,
    format_warnings,
    resolve,
)
from bridgehead.apiserver.customresources.schema.structural_validation import MAX_DEPTH
from bridgehead.apiserver.resource import JsonObject

from .objects import INTEGER, PRESERVED, STRING, keyed, listing, mapping, schema_texts, struct

EMBEDDED = {"x-kubernetes-embedded-resource": True}
EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
SET = {"x-kubernetes-list-type": "set"}


# The schema of the field x, and the errors of the whole schema; `@` stands for the field's path.
FIELDS: dict[str, tuple[JsonObject, list[str]]] = {
    "string": (STRING, []),
    "no type": ({}, ["@.type: Required value: must not be empty for specified object fields"]),
    "no type of items": (listing({}), ["@.items.type: Required value: must not be empty for specified array items"]),
    "unknown type": (
        {"type": "text"},
        [
            '@.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", '
            '"string"'
        ],
    ),
    "null": (
        {"type": "null"},
        [
            '@.type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", '
            '"string"',
            "@.type: Forbidden: type cannot be set to null, use nullable as an alternative",
        ],
    ),
    "no items": ({"type": "array"}, ["@.items: Required value: must be specified"]),
    "list of items": (
        {"type": "array", "items": [STRING]},
        ["@.items: Forbidden: items must be a schema object and not an array"],
    ),
    "properties and values": (
        struct(a=STRING) | {"additionalProperties": STRING},
        ["@.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    "properties and any values": (struct(a=STRING) | {"additionalProperties": True}, []),
    "unsupported fields": (
        {**STRING, "id": "a", "patternProperties": {"a": STRING}, "definitions": {"a": STRING}, "$ref": "#/a"},
        [
            "@.id: Forbidden: id is not supported",
            "@.patternProperties: Forbidden: patternProperties is not supported",
            "@.definitions: Forbidden: definitions is not supported",
            "@.$ref: Forbidden: $ref is not supported",
        ],
    ),
    "another dialect": (
        {**STRING, "$schema": "http://json-schema.org/draft-07/schema"},
        ["s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"],
    ),
    "uniqueItems": (
        listing(STRING, uniqueItems=True),
        ["@.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
    ),
    "pattern": (
        STRING | {"pattern": "a(?!b)"},
        [
            '@.pattern: Invalid value: "a(?!b)": must be a valid regular expression, but isn\'t: error parsing regexp: '
            "invalid or unsupported Perl syntax: `(?!`"
        ],
    ),
    "preserved": (PRESERVED, []),
    "preserved without a type": ({"x-kubernetes-preserve-unknown-fields": True}, []),
    "not preserved": (
        struct() | {"x-kubernetes-preserve-unknown-fields": False},
        ["@.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    "integer or string": ({"x-kubernetes-int-or-string": True}, []),
    "integer or string, in words": ({"x-kubernetes-int-or-string": True, **EITHER}, []),
    "integer or string, with more": (
        {"x-kubernetes-int-or-string": True, "allOf": [EITHER, {"pattern": "x"}]},
        [],
    ),
    "integer or string in the wrong place": (
        {"x-kubernetes-int-or-string": True, "oneOf": EITHER["anyOf"]},
        [
            "@.oneOf[0].type: Forbidden: must be empty to be structural",
            "@.oneOf[1].type: Forbidden: must be empty to be structural",
        ],
    ),
    "integer or string and more": (
        {**PRESERVED, **EMBEDDED, "x-kubernetes-int-or-string": True},
        [
            "@.x-kubernetes-embedded-resource: Invalid value: true: must be false if x-kubernetes-int-or-string is "
            "true",
            "@.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string "
            "is true",
        ],
    ),
    "embedded": (PRESERVED | EMBEDDED, []),
    "embedded with fields": (struct(spec=struct()) | EMBEDDED, []),
    "embedded without fields": (
        {"type": "object", **EMBEDDED},
        [
            "@.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        ],
    ),
    "embedded of no type": (
        {"x-kubernetes-preserve-unknown-fields": True, **EMBEDDED},
        ["@.type: Required value: must be object if x-kubernetes-embedded-resource is true"],
    ),
    "embedded string": (
        {"type": "string", "x-kubernetes-preserve-unknown-fields": True, **EMBEDDED},
        ['@.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true'],
    ),
    "embedded map": (
        mapping(STRING) | EMBEDDED | {"x-kubernetes-preserve-unknown-fields": True},
        ["@.additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set"],
    ),
    "embedded with another kind": (
        struct(kind=INTEGER, metadata=STRING) | EMBEDDED,
        [
            '@.properties[kind].type: Invalid value: "integer": must be string',
            '@.properties[metadata].type: Invalid value: "string": must be object',
        ],
    ),
    "embedded in metadata": (
        struct(metadata=struct(a=PRESERVED | EMBEDDED)) | EMBEDDED,
        [
            "@.properties[metadata].properties[a].x-kubernetes-embedded-resource: Forbidden: must not be used inside "
            "of "
            "resource meta"
        ],
    ),
    "structure in an alternative": (
        STRING | {"anyOf": [{"type": "string", "description": "d", "default": "x", "nullable": True}]},
        [
            "@.anyOf[0].default: Forbidden: must be undefined to be structural",
            "@.anyOf[0].description: Forbidden: must be empty to be structural",
            "@.anyOf[0].nullable: Forbidden: must be false to be structural",
            "@.anyOf[0].type: Forbidden: must be empty to be structural",
        ],
    ),
    "extensions in an alternative": (
        listing(STRING) | {"not": {"x-kubernetes-list-type": "set", "x-kubernetes-validations": [{"rule": "true"}]}},
        [
            "@.not.x-kubernetes-list-type: Forbidden: must be undefined to be structural",
            "@.not.x-kubernetes-validations: Forbidden: must be empty to be structural",
            "@.not.type: Required value: must be array if x-kubernetes-list-type is specified",
        ],
    ),
    "values in an alternative": (
        mapping(STRING) | {"allOf": [{"additionalProperties": {"pattern": "x"}}]},
        ["@.allOf[0].additionalProperties: Forbidden: must be undefined to be structural"],
    ),
    "metadata in an alternative": (
        struct(metadata=struct()) | {"not": {"properties": {"metadata": {}}}},
        ["@.not.properties[metadata]: Forbidden: must not be specified in a nested context"],
    ),
    "a set": (listing(STRING, **SET), []),
    "a set that is no list": (
        STRING | SET,
        ['@.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'],
    ),
    "a set of objects": (
        listing(struct(), **SET),
        [
            "@.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
            "x-kubernetes-list-type=set"
        ],
    ),
    "a set of atomic objects": (listing(struct() | {"x-kubernetes-map-type": "atomic"}, **SET), []),
    "a set of sets": (
        listing(listing(STRING, **SET), **SET),
        [
            '@.items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with '
            "x-kubernetes-list-type=set"
        ],
    ),
    "a set of nulls": (
        listing(STRING | {"nullable": True}, **SET),
        ["@.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"],
    ),
    "unknown list type": (
        listing(STRING, **{"x-kubernetes-list-type": "bag"}),
        ['@.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
    ),
    "unknown map type": (
        struct() | {"x-kubernetes-map-type": "bag"},
        ['@.x-kubernetes-map-type: Unsupported value: "bag": supported values: "atomic", "granular"'],
    ),
    "map type of a list": (
        listing(STRING, **{"x-kubernetes-map-type": "atomic"}),
        ['@.type: Invalid value: "array": must be object if x-kubernetes-map-type is specified'],
    ),
    "keys": (keyed(struct(("a",), a=STRING), "a"), []),
    "keys with a default": (keyed(struct(a=STRING | {"default": "x"}), "a"), []),
    "keys that may be absent": (
        keyed(struct(a=STRING), "a"),
        [
            "@.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must "
            "have a default or be a required property"
        ],
    ),
    "keys that may be null": (
        keyed(struct(("a",), a=STRING | {"nullable": True}), "a"),
        [
            "@.items.properties[a].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot "
            "be "
            "nullable"
        ],
    ),
    "no keys": (
        keyed(struct(("a",), a=STRING)),
        ["@.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
    ),
    "keys of a set": (
        listing(STRING, **SET, **{"x-kubernetes-list-map-keys": ["a"]}),
        [
            '@.x-kubernetes-list-type: Invalid value: "set": must be map if x-kubernetes-list-map-keys is non-empty',
        ],
    ),
    "keys of any list": (
        listing(STRING, **{"x-kubernetes-list-map-keys": ["a"]}),
        ["@.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
    ),
    "keys of strings": (
        keyed(STRING, "a"),
        [
            '@.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
        ],
    ),
    "keys of several kinds of items": (
        {"type": "array", "items": [STRING], "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        [
            "@.items: Forbidden: items must be a schema object and not an array",
            '@.items: Invalid value: [{"type":"string"}]: must only have a single schema if x-kubernetes-list-type '
            "is map",
        ],
    ),
    "keys without items": (
        {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        [
            "@.items: Required value: must be specified",
            "@.items: Required value: must have a schema if x-kubernetes-list-type is map",
        ],
    ),
    "keys of other fields": (
        keyed(struct(("a", "b"), a=STRING, b=struct()), "a", "a", "b", "c"),
        [
            '@.x-kubernetes-list-map-keys: Invalid value: ["a","a","b","c"]: must not contain duplicate entries',
            '@.items.properties[b].type: Invalid value: "object": must be a scalar type if parent array\'s '
            "x-kubernetes-list-type is map",
            '@.x-kubernetes-list-map-keys: Invalid value: ["a","a","b","c"]: entries must all be names of item '
            "properties",
        ],
    ),
    "default": (STRING | {"default": "x"}, []),
    "default of another type": (
        STRING | {"default": 5},
        ['@.default: Invalid value: "integer": @.default in body must be of type string: "integer"'],
    ),
    "default with unknown fields": (
        struct(a=STRING) | {"default": {"b": 1}},
        ['@.default: Invalid value: {"b":1}: must not have unknown fields'],
    ),
    "default of a field": (
        struct(a=struct(b=INTEGER)) | {"default": {"a": {"b": "x"}}},
        ['@.default.a.b: Invalid value: "string": a.b in body must be of type integer: "string"'],
    ),
    "default of items": (
        listing(STRING | {"default": 1}),
        ['@.items.default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    "default embedded object": (
        PRESERVED | EMBEDDED | {"default": {"kind": "Pod"}},
        ["@.default.apiVersion: Required value"],
    ),
    "default embedded object with wrong metadata": (
        PRESERVED | EMBEDDED | {"default": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 5}}},
        [
            '@.default: Invalid value: {"kind":"Pod","apiVersion":"v1","metadata":{"name":5}}: metadata: Invalid '
            "value: "
            '{"name":5}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string'
        ],
    ),
    "defaults in embedded metadata": (
        PRESERVED | EMBEDDED | {"properties": {"metadata": struct(name=STRING | {"default": "a"})}},
        [],
    ),
    "wrong defaults in embedded metadata": (
        PRESERVED | EMBEDDED | {"properties": {"metadata": struct(finalizers=listing(STRING | {"default": "a b/c"}))}},
        [
            '@.properties[metadata].properties[finalizers].items.default: Invalid value: "a b/c": must result in valid '
            'metadata: metadata.finalizers: Invalid value: "a b/c": prefix part a lowercase RFC 1123 subdomain must '
            "consist "
            "of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ],
    ),
    "defaults of another type in embedded metadata": (
        PRESERVED | EMBEDDED | {"properties": {"metadata": struct(name=INTEGER | {"default": 5})}},
        [
            "@.properties[metadata].properties[name].default: Invalid value: 5: must result in valid metadata: "
            'embedded.metadata: Invalid value: {"name":5}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.name of type string"
        ],
    ),
    "defaults of values in embedded metadata": (
        PRESERVED | EMBEDDED | {"properties": {"metadata": struct(labels=mapping(STRING | {"default": "a"}))}},
        [
            "@.properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside "
            "additionalProperties applying to object metadata"
        ],
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_fields(case: str) -> None:
    schema, wanted = FIELDS[case]
    at = "s.properties[x]"
    found = schema_texts(struct(x=schema))
    expected = [text.replace("@.default in", " in").replace("@", at) for text in wanted]
    assert found == expected
    if not wanted:
        Structural.parse(struct(x=schema)).validate({})


ROOTS: dict[str, tuple[JsonObject, list[str]]] = {
    "object": (struct(spec=struct()), []),
    "no type": ({}, ["s.type: Required value: must not be empty at the root"]),
    "string": (STRING, ['s.type: Invalid value: "string": must be object at the root']),
    "nullable": (struct() | {"nullable": True}, ["s.nullable: Forbidden: nullable cannot be true at the root"]),
    "map": (mapping(STRING), ["s.additionalProperties: Forbidden: must not be used at the root"]),
    "restricted names": (struct(metadata=struct(name=STRING | {"maxLength": 5}, generateName=STRING)), []),
    "restricted name": (struct(metadata={"type": "object", "properties": {"name": STRING}}), []),
    "restricted labels": (
        struct(metadata=struct(labels=mapping(STRING))),
        [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ],
    ),
    "required metadata": (
        struct(metadata=struct(("name",), name=STRING)),
        [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ],
    ),
    "a field only in an alternative": (
        struct(a=struct()) | {"oneOf": [{"properties": {"a": {"properties": {"b": {}}}, "c": {"pattern": "x"}}}]},
        [
            "s.properties[a].properties[b]: Required value: because it is defined in "
            "s.oneOf[0].properties[a].properties[b]",
            "s.properties[c]: Required value: because it is defined in s.oneOf[0].properties[c]",
        ],
    ),
    "items only in an alternative": (
        struct(a=PRESERVED) | {"not": {"allOf": [{"properties": {"a": {"items": {"pattern": "x"}}}}]}},
        ["s.properties[a].items: Required value: because it is defined in s.not.allOf[0].properties[a].items"],
    ),
    "defaults of the kind": (
        struct(kind=STRING | {"default": "K"}),
        ["s.properties[kind].default: Forbidden: must not be set in top-level kind"],
    ),
}


@pytest.mark.parametrize("case", ROOTS)
def test_roots(case: str) -> None:
    schema, wanted = ROOTS[case]
    assert schema_texts(schema) == wanted


def test_the_root_may_not_restrict_the_status_otherwise() -> None:
    assert schema_texts(struct(spec=STRING) | {"description": "d", "required": ["spec"]}, has_status=True) == []
    (error,) = schema_texts(struct(spec=STRING) | {"not": {"required": ["status"]}}, has_status=True)
    assert error.startswith('s: Invalid value: {"type":"object"')
    assert "only [Description Type Format Title " in error
    allowed = "fields are allowed at the root of the schema if the status subresource is enabled"
    assert error.endswith(f"XPreserveUnknownFields XValidations] {allowed}")
    errors = schema_texts({"type": "array", "items": STRING}, has_status=True)
    assert errors[0] == (
        's.type: Invalid value: "array": only "object" is allowed as the type at the root of the schema if the status '
        "subresource is enabled"
    )


def test_formats_that_are_not_checked() -> None:
    schema = struct(
        a=STRING | {"format": "planet"},
        b=listing(STRING | {"format": "planet"}),
        c=INTEGER | {"format": "int32"},
        d=INTEGER | {"format": "date"},
        e=STRING | {"not": {"format": "ipv4"}, "anyOf": [{"format": "moon"}]},
    )
    assert sorted(format_warnings(schema)) == [
        'unrecognized format "date"',
        'unrecognized format "moon"',
        'unrecognized format "planet"',
    ]


def nested(levels: int, wrap: Any) -> JsonObject:
    schema: JsonObject = STRING
    for _ in range(levels):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    "wrap",
    [
        lambda below: struct(a=below),
        listing,
        mapping,
        lambda below: {"type": "object", "not": {"allOf": [below]}},
        lambda below: {"type": "object", "anyOf": [below]},
    ],
)
def test_depth_is_bounded(wrap: Any) -> None:
    assert schema_texts(struct(a=nested(10_000, wrap))) == ['s: Invalid value: "": must not have more than 100 levels']


def test_what_is_accepted_fits_the_stack() -> None:
    def wrap(below: JsonObject) -> JsonObject:
        return {"type": "object", "properties": {"a": below}, "default": {}}

    schema = struct(a=nested(MAX_DEPTH - 2, wrap))
    assert schema_texts(schema) == []
    structural = Structural.parse(schema)
    obj: JsonObject = {}
    structural.default(obj)
    structural.validate(obj)
    assert structural.prune(obj) == []
    choices = nested(MAX_DEPTH // 2 - 1, lambda below: struct(a=below) | {"anyOf": [{}]})
    assert schema_texts(choices) == []
    Structural.parse(choices).validate({"a": {"a": {}}})


def test_a_wide_schema() -> None:
    schema = struct(**{f"field{number}": STRING | {"default": "x"} for number in range(5_000)})
    assert schema_texts(schema) == []
    obj: JsonObject = {}
    structural = Structural.parse(schema)
    structural.default(obj)
    assert len(obj) == 5_000
    assert structural.validate(obj) == []


SCHEMA = Structural.parse(
    struct(spec=struct(name=STRING, labels=mapping(STRING), maps=mapping(struct(a=INTEGER))), **{"a.b": STRING})
).root


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.name", "spec.name"),
        (".spec.labels.x", "spec.labels[x]"),
        (".spec.labels['x.y']", "spec.labels[x.y]"),
        (".spec.maps['k'].a", "spec.maps[k].a"),
        ("['a.b']", "a.b"),
        (r".spec.labels['it\'s\n']", "spec.labels[it's\n]"),
    ],
)
def test_field_paths(path: str, found: str) -> None:
    assert resolve(path, SCHEMA)[0] == found


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".", "unexpected end of JSON path"),
        (".spec.unknown", "does not refer to a valid field"),
        (".spec.name.x", "does not refer to a valid field"),
        (".spec[name]", "expected single quoted string but got name"),
        (".spec['name'", "unexpected end of JSON path"),
        (".spec['name'.", "expected ] but got ."),
        (r".spec.labels['\q']", r"invalid string literal: invalid escape char \q"),
    ],
)
def test_bad_field_paths(path: str, error: str) -> None:
    with pytest.raises(BadFieldPath) as caught:
        resolve(path, SCHEMA)
    assert str(caught.value) == error


def test_selectable_fields_have_no_brackets() -> None:
    assert resolve(".spec.name", SCHEMA, allows_brackets=False)[1].schema == STRING
    with pytest.raises(BadFieldPath, match="array notation is not allowed"):
        resolve(".spec['name']", SCHEMA, allows_brackets=False)
