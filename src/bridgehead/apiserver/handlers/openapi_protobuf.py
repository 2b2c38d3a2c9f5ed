"""Encoding of OpenAPI 2 documents in protobuf, for kubectl before 1.27, and later versions for kinds not in version 3.

`kubectl explain` reads texts in it, `apply` the merge keys of lists, `diff` and `--dry-run=server` the features of the
server. Encodes the fields that `openapi` uses and raises KeyError for others.
Pure: no I/O, no clock, no randomness. Source: OpenAPIv2.proto of gnostic, the protobuf encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.protobuf_wire import FIXED64, VARINT, field, tag, varint

# A field of a message: its path of field numbers (several where protobuf has a message that JSON does not have), and
# its type: "string", "bool", "int64", "double", a message, "list of" one of these, or "map of" a message.
_Field = tuple[tuple[int, ...], str]

_MESSAGES: dict[str, dict[str, _Field]] = {
    "Document": {
        "swagger": ((1,), "string"),
        "info": ((2,), "Info"),
        "paths": ((8, 2), "map of PathItem"),
        "definitions": ((9, 1), "map of Schema"),
    },
    "Info": {"title": ((1,), "string"), "version": ((2,), "string")},
    "PathItem": {
        "get": ((2,), "Operation"),
        "put": ((3,), "Operation"),
        "post": ((4,), "Operation"),
        "delete": ((5,), "Operation"),
        "patch": ((8,), "Operation"),
        "parameters": ((9,), "list of Parameter"),
    },
    "Operation": {
        "description": ((3,), "string"),
        "consumes": ((7,), "list of string"),
        "parameters": ((8,), "list of Parameter"),
        "responses": ((9, 1), "map of Response"),
    },
    "body": {
        "description": ((1,), "string"),
        "name": ((2,), "string"),
        "in": ((3,), "string"),
        "required": ((4,), "bool"),
        "schema": ((5,), "Schema"),
    },
    "query": {
        "in": ((2,), "string"),
        "description": ((3,), "string"),
        "name": ((4,), "string"),
        "type": ((6,), "string"),
    },
    "path": {
        "required": ((1,), "bool"),
        "in": ((2,), "string"),
        "name": ((4,), "string"),
        "type": ((5,), "string"),
    },
    "Response": {"description": ((1, 1), "string"), "schema": ((1, 2, 1), "Schema")},
    "Schema": {
        "$ref": ((1,), "string"),
        "format": ((2,), "string"),
        "title": ((3,), "string"),
        "description": ((4,), "string"),
        "default": ((5,), "any"),
        "multipleOf": ((6,), "double"),
        "maximum": ((7,), "double"),
        "exclusiveMaximum": ((8,), "bool"),
        "minimum": ((9,), "double"),
        "exclusiveMinimum": ((10,), "bool"),
        "maxLength": ((11,), "int64"),
        "minLength": ((12,), "int64"),
        "pattern": ((13,), "string"),
        "maxItems": ((14,), "int64"),
        "minItems": ((15,), "int64"),
        "uniqueItems": ((16,), "bool"),
        "maxProperties": ((17,), "int64"),
        "minProperties": ((18,), "int64"),
        "required": ((19,), "list of string"),
        "enum": ((20,), "list of any"),
        "additionalProperties": ((21,), "AdditionalProperties"),
        "type": ((22, 1), "string"),
        "items": ((23, 1), "Schema"),
        "properties": ((25, 1), "map of Schema"),
        "externalDocs": ((29,), "ExternalDocs"),
        "example": ((30,), "any"),
    },
    "ExternalDocs": {"description": ((1,), "string"), "url": ((2,), "string")},
}
# The field numbers of `x-...` extensions.
_EXTENSIONS = {"Operation": 13, "Schema": 31}
# A parameter is one of several messages, by its location.
_PARAMETERS = {"body": (1, 1), "query": (1, 2, 3), "path": (1, 2, 4)}


def encode_document(document: JsonObject) -> bytes:
    """Encode an OpenAPI document as gnostic's `openapi_v2.Document`."""
    return _message(document, "Document")


def _message(value: Mapping[str, Any], name: str) -> bytes:
    fields, parts = _MESSAGES[name], []
    for key, child in value.items():
        if key.startswith("x-"):
            parts.append(_wrapped((_EXTENSIONS[name],), _entry(key, _any(child))))
        else:
            path, kind = fields[key]
            parts.append(_field(path, kind, child))
    return b"".join(parts)


def _field(path: tuple[int, ...], kind: str, value: Any) -> bytes:
    shape, _, of = kind.partition(" of ")
    if shape == "list":
        return b"".join(_field(path, of, item) for item in value)
    if shape == "map":
        *outer, number = path
        entries = (_wrapped((number,), _entry(key, _message(item, of))) for key, item in value.items())
        return _wrapped(tuple(outer), b"".join(entries))
    match kind:
        case "bool":
            return tag(path[0], VARINT) + (b"\x01" if value else b"\x00")
        case "int64":
            return tag(path[0], VARINT) + varint(value)
        case "double":
            return tag(path[0], FIXED64) + struct.pack("<d", value)
        case "string":
            return _wrapped(path, value.encode())
        case "any":
            return _wrapped(path, _any(value))
        case "AdditionalProperties" if isinstance(value, bool):
            return _wrapped(path, tag(2, VARINT) + (b"\x01" if value else b"\x00"))
        case "AdditionalProperties":
            return _wrapped((*path, 1), _message(value, "Schema"))
        case "Parameter":
            return _wrapped((*path, *_PARAMETERS[value["in"]]), _message(value, value["in"]))
    return _wrapped(path, _message(value, kind))


def _entry(key: str, value: bytes) -> bytes:
    return _wrapped((1,), key.encode()) + _wrapped((2,), value)


def _any(value: Any) -> bytes:
    """Encode a value as YAML, of which JSON is a subset."""
    return _wrapped((2,), msgspec.json.encode(value))


def _wrapped(path: tuple[int, ...], payload: bytes) -> bytes:
    for number in reversed(path):
        payload = field(number, payload)
    return payload
