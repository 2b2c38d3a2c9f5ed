"""Types from the schemas of custom resources and built-in kinds.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `apiserver/pkg/cel/common/schemas.go`, `types.go`, `escaping.go`, `limits.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from .lexer import RESERVED
from .library.times import parse_duration, parse_timestamp
from .types import UNSIZED, Field, Type, list_of, map_of, struct
from .values import SECOND, Timestamp

MOST_REQUEST_BYTES = 3 * 1024 * 1024

_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_OBJECT_META: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
_TEXT: Mapping[str, Any] = {"type": "string"}
_BOOL, _INT, _KEY = (Type(kind, most=UNSIZED) for kind in ("bool", "int", "string"))


def escape(name: str) -> str | None:
    """Return the name of a property in expressions: `a-b` is `a__dash__b`; None if it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


def type_of_schema(schema: Mapping[str, Any], name: str = "object", *, is_root: bool = False) -> Type | None:
    """Return the type of a structural OpenAPI v3 schema, or None if expressions can't use its values.

    `name` becomes the name of an object's type. At the root of a resource (`is_root`) and in embedded resources,
    `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` exist without being declared.
    """
    found = _convert(schema, name, is_root)
    return None if found is None else found[0]


def least_bytes(schema: Mapping[str, Any], *, is_root: bool = False) -> int:
    """Return the least number of bytes that a value of a schema has in JSON; 1 if expressions can't use its values."""
    found = _convert(schema, "object", is_root)
    return 1 if found is None else found[1]


def _convert(schema: Mapping[str, Any], name: str, is_root: bool) -> tuple[Type, int] | None:
    """Return the type and the least number of bytes that a value has in JSON; None if expressions can't use it."""
    if schema.get("x-kubernetes-int-or-string"):
        most = schema["maxLength"] * 4 if "maxLength" in schema else MOST_REQUEST_BYTES - 2
        return Type("dyn", most=most), 1
    match schema.get("type"):
        case "array":
            return _array(schema, name)
        case "object":
            return _object(schema, name, is_root)
        case "string":
            return _string(schema)
        case "boolean":
            return _BOOL, 4
        case "number":
            return Type("double", most=UNSIZED, decode=_double), 1
        case "integer":
            return _INT, 1
    return None


def _embedded(schema: Mapping[str, Any], name: str) -> tuple[Type, int] | None:
    return _convert(schema, name, bool(schema.get("x-kubernetes-embedded-resource")))


def _array(schema: Mapping[str, Any], name: str) -> tuple[Type, int] | None:
    items = schema.get("items")
    found = None if items is None else _embedded(items, f"{name}.@idx")
    if found is None:
        return None
    item, least = found
    most = max(schema["maxItems"], 0) if "maxItems" in schema else (MOST_REQUEST_BYTES - 2) // (least + 1)
    return list_of(item, most, _each(item.decode), _list_keys(schema)), 2


def _list_keys(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return ()
        case "map":
            return tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return None


def _object(schema: Mapping[str, Any], name: str, is_root: bool) -> tuple[Type, int] | None:
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        found = _embedded(values, f"{name}.@elem")
        if found is None:
            return None
        value, least = found
        most = max(schema["maxProperties"], 0) if "maxProperties" in schema else (MOST_REQUEST_BYTES - 2) // (least + 6)
        return map_of(_KEY, value, most, _each_value(value.decode)), 2
    properties: dict[str, Any] = dict(schema.get("properties") or {})
    if is_root:
        properties |= {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _with_names(properties.get("metadata"))}
    required = frozenset(schema.get("required") or ())
    fields: dict[str, Field] = {}
    size = 2
    for key, prop in properties.items():
        found = _embedded(prop, f"{name}.{key}")
        if found is None:
            continue
        prop_type, least = found
        if (escaped := escape(key)) is not None:
            fields[escaped] = Field(key, prop_type)
        if key in required and "default" not in prop:
            size += len(key) + least + 4
    return struct(name, fields), size


def _with_names(metadata: Any) -> Mapping[str, Any]:
    """Return the schema of `metadata`: the name and the generateName, and what the schema declares itself."""
    if not isinstance(metadata, Mapping) or not metadata.get("properties"):
        return _OBJECT_META
    return {**metadata, "properties": {**_OBJECT_META["properties"], **metadata["properties"]}}


def _string(schema: Mapping[str, Any]) -> tuple[Type, int]:
    name = schema.get("format")
    if name in _FORMATS:
        kind, decode, least, most = _FORMATS[name]
        if name == "byte" and "maxLength" in schema:
            most = max(schema["maxLength"], 0)
        return Type(kind, most=most, decode=decode), least
    most = MOST_REQUEST_BYTES - 2
    if "maxLength" in schema:
        most = max(schema["maxLength"], 0) * 4
    elif enum := schema.get("enum"):
        most = max(len(one.encode()) if isinstance(one, str) else 0 for one in enum)
    return Type("string", most=most), 2


# --- Decoders: JSON values to CEL values. A value that is decoded already stays as it is. -----------------------------


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"Invalid value for type 'bytes': {error}") from None


def _date(value: Any) -> Any:
    if type(value) is not str:
        return value
    return Timestamp((date.fromisoformat(value) - date(1970, 1, 1)).days * 86400 * SECOND)


def _time(value: Any) -> Any:
    return parse_timestamp(value) if type(value) is str else value


def _duration(value: Any) -> Any:
    return parse_duration(value) if type(value) is str else value


def _each(decode: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if decode is None:
        return None
    return lambda items: [None if item is None else decode(item) for item in items] if type(items) is list else items


def _each_value(decode: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if decode is None:
        return None
    return lambda entries: {key: None if item is None else decode(item) for key, item in entries.items()}


# Kind of type, decoder, least and most characters, by format.
_FORMATS: dict[str, tuple[str, Callable[[Any], Any], int, int]] = {
    "byte": ("bytes", _bytes, 2, MOST_REQUEST_BYTES - 2),
    "duration": ("duration", _duration, 4, 15),
    "date": ("timestamp", _date, 12, 12),
    "date-time": ("timestamp", _time, 22, 35),
}
