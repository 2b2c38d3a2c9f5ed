"""Types of CEL values, and their textual notation.

Pure: no I/O, no clock, no randomness.
Source: CEL language definition "Values", cel-go `common/types`, `checker/format.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

# Sizes of values whose schema states no limit are bounded by this: nothing is known about them.
UNBOUNDED = 2**64 - 1
# As in Kubernetes, types that declare no size declare that it is 0, so that comparisons are free in estimates.
UNSIZED = 0
# Kinds of values that have an order, by which lists are sorted.
COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


class Type:
    """A type. Types are equal when `kind`, `name` and `parameters` are.

    `kind` is the name of a simple type (`int`, `dyn`, ...) or one of list, map, optional, type, struct, opaque, param.
    `fields` are those of a struct. `most` is the largest size that a value can have (characters, items or entries), for
    estimates of cost. `decode` makes the CEL value of a JSON value; None: it is the JSON value itself. `list_keys` are
    the keys of a list of type `map`, none for a `set`; None for other values.
    """

    __slots__ = ("_hash", "decode", "fields", "kind", "list_keys", "most", "name", "parameters")

    def __init__(
        self,
        kind: str,
        name: str = "",
        parameters: tuple[Type, ...] = (),
        fields: Mapping[str, Field] = MappingProxyType({}),
        most: int = UNBOUNDED,
        decode: Callable[[Any], Any] | None = None,
        list_keys: tuple[str, ...] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind
        self.parameters = parameters
        self.fields = fields
        self.most = most
        self.decode = decode
        self.list_keys = list_keys
        self._hash = hash((kind, self.name, parameters))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.name == other.name
            and self.parameters == other.parameters
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<Type {self}>"

    def __str__(self) -> str:
        if self.kind == "type" and not self.parameters:
            return "type"
        name = "optional_type" if self.kind == "optional" else self.name
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name

    @property
    def short_name(self) -> str:
        """The full name without parameters."""
        return "optional_type" if self.kind == "optional" else _FULL_NAMES.get(self.kind, self.name)

    @property
    def full_name(self) -> str:
        """The name in errors of other parts than the checker: `google.protobuf.Duration` for `duration`."""
        if not self.parameters:
            return self.short_name
        return f"{self.short_name}({', '.join(one.full_name for one in self.parameters)})"


class Field:
    """A field of a struct: its type, and its name in JSON, which expressions may have to escape."""

    __slots__ = ("json_name", "type")

    def __init__(self, json_name: str, type: Type) -> None:
        self.json_name = json_name
        self.type = type


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
DYN, ERROR, TYPE = Type("dyn"), Type("error", "!error!"), Type("type")
# The type of a variable's part that may be anything. Unlike dyn, it has no elements that macros could visit.
ANY = Type("any")
_SIMPLE = {one.name: one for one in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION, DYN, TYPE)}

_FULL_NAMES = {
    "any": "google.protobuf.Any",
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}

# Names that an expression can use for a type, as in `type(x) == int`.
TYPE_NAMES = {
    **{name: one for name, one in _SIMPLE.items() if name not in ("null", "dyn", "timestamp", "duration")},
    "null_type": NULL,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
}


def list_of(
    item: Type,
    most: int = UNBOUNDED,
    decode: Callable[[Any], Any] | None = None,
    list_keys: tuple[str, ...] | None = None,
) -> Type:
    return Type("list", parameters=(item,), most=most, decode=decode, list_keys=list_keys)


def map_of(key: Type, value: Type, most: int = UNBOUNDED, decode: Callable[[Any], Any] | None = None) -> Type:
    return Type("map", parameters=(key, value), most=most, decode=decode)


def optional_of(value: Type) -> Type:
    return Type("optional", parameters=(value,))


def type_of(instance: Type) -> Type:
    """Return the type of the type `instance`, as a value in an expression."""
    return Type("type", parameters=(instance,))


def opaque(name: str) -> Type:
    """Return a type that only functions of a library make and read, such as `kubernetes.Quantity`."""
    return Type("opaque", name)


def struct(name: str, fields: Mapping[str, Field]) -> Type:
    return Type("struct", name, fields=fields, most=UNSIZED)


def parameter(name: str) -> Type:
    """Return a type parameter of a function's declaration, or a type that is not known yet."""
    return Type("param", name)


LIST_TYPE, MAP_TYPE = list_of(DYN), map_of(DYN, DYN)
TYPE_NAMES |= {"list": LIST_TYPE, "map": MAP_TYPE, "optional_type": optional_of(DYN)}
# Expressions can name these opaque types.
TYPE_NAMES |= {name: opaque(name) for name in ("net.IP", "net.CIDR")}


@cache
def parse_type(text: str) -> Type:
    """Return the type of a declaration: `int`, `list(T)`, `map(K, list(V))`, `optional(T)`, `net.IP`.

    A single capital letter is a type parameter; a name that contains a dot is an opaque type.
    """
    name, _, rest = text.strip().partition("(")
    if rest:
        parameters = tuple(parse_type(part) for part in split_types(rest[:-1]))
        return Type(name, parameters=parameters)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if len(name) == 1 and name.isupper():
        return parameter(name)
    if "." not in name:
        raise ValueError(f"unknown type {text!r}")
    return opaque(name)


def split_types(text: str) -> list[str]:
    """Split a list of types at the commas that are outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [part for part in (*parts, text[start:]) if part.strip()]
