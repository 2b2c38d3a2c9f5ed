"""Types of values: how a JSON value of each type is stored and patched, and how its parts are owned.

There is one description of each type, for decoding, protobuf, patches and field management. `bodies.schema` compiles
those of Kubernetes' own kinds; the nodes of a custom resource's schema (`customresources.schema.node`) are shapes, too.

`conform` drops nulls, drops and reports unknown fields, and refuses values of a wrong type with the error texts of Go's
decoder, which clients know. Source: Kubernetes API concepts "Field validation", "Server-Side Apply", sigs.k8s.io/json.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from sys import float_info
from types import MappingProxyType
from typing import Any

from bridgehead.objects.quantities import MILLI, NANO, canonical_quantity

from .errors import SchemaMismatch
from .go_times import canonical_time
from .go_values import json_kind
from .resource import JsonObject

_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
EXPONENT_FROM = 1e21  # encoding/json writes floats from here on with an exponent

# The path of a value in its document, as a linked list from the inside out: (outer path, step, kind of step).
JsonPath = tuple[Any, Any, str] | None
_FIELD, _INDEX, _MAP_KEY = "field", "index", "key"

# Kinds of ownership of values: as one, by field or key, by element key, by element value, or as the JSON type suggests.
LEAF, MAP, KEYED, SET, DEDUCED = range(5)
# Forms of values in an applied configuration: those of a JSON type, any scalar, or anything.
NUMERIC, STRING, BOOLEAN, SCALAR, OBJECT, LIST, ANY = "numeric", "string", "boolean", "scalar", "object", "list", "any"

NO_FIELDS: frozenset[str] = frozenset()


def conform(value: JsonObject, shape: Shape) -> tuple[JsonObject, list[str]]:
    """Return `value` without nulls and unknown fields, and the paths of the unknown ones. Raises `SchemaMismatch`."""
    unknown: list[str] = []
    try:
        return shape.conform(value, None, unknown), unknown
    except _Mismatch as mismatch:
        types = (mismatch.got, mismatch.wanted) if mismatch.wanted else None
        raise SchemaMismatch(str(mismatch), types) from None


class _Mismatch(Exception):
    """A value of a wrong type. The innermost struct sets `struct` and `path` when the exception passes."""

    def __init__(self, got: str, wanted: str = "", text: str = "") -> None:
        self.got = got
        self.wanted = wanted
        self.text = text
        self.path: JsonPath = None
        self.struct = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        where = f"Go struct field {self.struct}.{_go_path(self.path)}" if self.struct else "Go value"
        return f"json: cannot unmarshal {self.got} into {where} of type {self.wanted}"


def _steps(path: JsonPath) -> list[tuple[Any, str]]:
    steps = []
    while path is not None:
        path, step, kind = path
        steps.append((step, kind))
    return steps[::-1]


def _go_path(path: JsonPath) -> str:
    return ".".join(str(step) for step, kind in _steps(path) if kind == _FIELD)


def _field_path(path: JsonPath, field: str) -> str:
    """Render the path of a field, such as `spec.ports[0].foo`."""
    text = ""
    for step, kind in _steps((path, field, _FIELD)):
        text += f"[{step}]" if kind == _INDEX else f".{step}" if text else str(step)
    return text


class Shape:
    """The type of a value. `go` is the type's name in Go; `zero` replaces a null in a list or a map.

    Values of the Python type `accepts` conform as they are; None: `conform` decides. The other attributes are for field
    management.
    """

    __slots__ = ("go",)
    zero: Any = None
    accepts: type | None = None

    # Form of the values, and how they are owned: LEAF for scalars and for everything atomic.
    form: str = ANY
    relation: int = LEAF
    # The fields of an object. All others are `values`, None if it has no others.
    fields: Mapping[str, Shape] = MappingProxyType({})
    values: Shape | None = None
    # Fields that Go's zero value of an object contains: a writer that fills one owns only what is in it.
    zeroed: frozenset[str] = NO_FIELDS
    # Fields that are null when they have no value: a writer of the object owns them, too.
    nulls: frozenset[str] = NO_FIELDS
    # Fields that nobody owns.
    untracked: frozenset[str] = NO_FIELDS
    # The shape of a list's items, the names of their key fields, sorted, and the step of an item in a path: None for
    # one that lacks all keys or, in a set, is no scalar.
    items: Any
    keys: tuple[str, ...] = ()
    step_of: Callable[[Any], str | None]

    def __init__(self, go: str) -> None:
        self.go = go

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        """Return `value` as it is stored. Raises `_Mismatch`; appends paths of unknown fields to `unknown`."""
        return value

    def child(self, key: str) -> Shape:
        """Return the shape of a field or of a map's value; `ANYTHING` when the shape has none."""
        return ANYTHING


ANYTHING = Shape("interface {}")


class _DeducedShape(Shape):
    """Any value; its maps are owned by key, its lists as one."""

    __slots__ = ()
    relation = DEDUCED


ANY_DEDUCED = _DeducedShape("interface {}")


class JsonShape(Shape):
    """Any JSON, which protobuf has as text: sets of fields in managedFields, parameters of drivers."""

    __slots__ = ()


class StringShape(Shape):
    __slots__ = ()
    zero = ""
    accepts: type | None = str
    form = STRING

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is str:
            return value
        raise _Mismatch(json_kind(value), self.go)


class BoolShape(Shape):
    __slots__ = ()
    zero = False
    accepts = bool
    form = BOOLEAN

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is bool:
            return value
        raise _Mismatch(json_kind(value), self.go)


class IntShape(Shape):
    __slots__ = ("range",)
    zero = 0
    form = NUMERIC

    def __init__(self, go: str) -> None:
        super().__init__(go)
        self.range = _INT_RANGES[go]

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is int:
            if self.range[0] <= value <= self.range[1]:
                return value
            raise _Mismatch(f"number {value}", self.go)
        raise _Mismatch(f"number {value}" if type(value) is float else json_kind(value), self.go)


class NumberShape(Shape):
    """A float64. Whole numbers are stored as Go writes them in JSON: without a fraction, below 1e21."""

    __slots__ = ()
    zero = 0
    form = NUMERIC

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is float and value.is_integer() and abs(value) < EXPONENT_FROM:
            return int(value)
        if type(value) is float or (type(value) is int and abs(value) <= float_info.max):
            return value
        raise _Mismatch(f"number {value}" if type(value) is int else json_kind(value), self.go)


class TimeShape(StringShape):
    """A time in seconds, or in microseconds (`is_micro`)."""

    __slots__ = ("is_micro",)
    accepts = None
    form = SCALAR

    def __init__(self, go: str, *, is_micro: bool = False) -> None:
        super().__init__(go)
        self.is_micro = is_micro

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        super().conform(value, path, unknown)
        try:
            return canonical_time(value, micro=self.is_micro)
        except ValueError as error:
            raise _Mismatch("", text=str(error)) from None


class BytesShape(StringShape):
    """Base64 text; Go also reads a list of bytes."""

    __slots__ = ()
    accepts = None

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is list and all(type(one) is int and 0 <= one <= 255 for one in value):
            return base64.b64encode(bytes(value)).decode()
        super().conform(value, path, unknown)
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            wrong = re.search(r"[^A-Za-z0-9+/]", value)
            position = wrong.start() if wrong else len(value)
            raise _Mismatch("", text=f"illegal base64 data at input byte {position}") from None
        return value


class IntOrStringShape(Shape):
    __slots__ = ()
    zero = 0
    form = SCALAR

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        raise _Mismatch(f"number {value}" if type(value) in (int, float) else json_kind(value), "int32")


class QuantityShape(Shape):
    __slots__ = ()
    zero = "0"
    form = SCALAR
    least = NANO

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        try:
            if type(value) in (str, int, float):
                return canonical_quantity(str(value), self.least)
        except (ValueError, ArithmeticError):
            pass
        raise _Mismatch(
            "",
            text="quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )


class AmountShape(QuantityShape):
    """A quantity in a core/v1 ResourceList, which is rounded up to thousandths."""

    __slots__ = ()
    least = MILLI


class ListShape(Shape):
    """A list. If `merges`, a strategic merge patch merges it: by `merge_key`, or as a set when `merge_key` is "".

    Server-side apply does not always merge the same lists by the same keys.
    """

    __slots__ = ("items", "keys", "merge_key", "merges", "relation", "step_of")
    form = LIST

    def __init__(self, items: Shape, merges: bool = False, merge_key: str = "") -> None:
        super().__init__(f"[]{items.go}")
        self.items = items
        self.merges = merges
        self.merge_key = merge_key
        self.relation = LEAF
        self.keys = ()

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _Mismatch(json_kind(value), self.go)
        items = self.items
        if items.accepts is not None and set(map(type, value)) == {items.accepts}:
            return value
        return [
            _zero(items) if item is None else items.conform(item, (path, index, _INDEX), unknown)
            for index, item in enumerate(value)
        ]


class MapShape(Shape):
    __slots__ = ("relation", "values")
    form = OBJECT
    values: Shape

    def __init__(self, values: Shape, relation: int = MAP) -> None:
        super().__init__(f"map[string]{values.go}")
        self.values = values
        self.relation = relation

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(json_kind(value), self.go)
        values = self.values
        if values.accepts is not None and set(map(type, value.values())) == {values.accepts}:
            return value
        return {
            key: _zero(values) if item is None else values.conform(item, (path, key, _MAP_KEY), unknown)
            for key, item in value.items()
        }

    def child(self, key: str) -> Shape:
        return self.values


DEDUCED_MAP = MapShape(ANY_DEDUCED)


def deduced(value: Any) -> Shape:
    """Return the type of a value of type `ANY_DEDUCED`."""
    return DEDUCED_MAP if type(value) is dict else ANYTHING


class StructShape(Shape):
    """An object with named fields. `definition` is its definition's name; zero values of `omitted` are not stored.

    `exact`, `decoder` and `uses` belong to `conforming`.
    """

    __slots__ = ("decoder", "definition", "exact", "fields", "name", "nulls", "omitted", "relation", "uses", "zeroed")
    form = OBJECT

    def __init__(self, definition: str, relation: int = MAP) -> None:
        version, short = definition.split(".")[-2:]
        super().__init__(f"{version}.{short}")
        self.definition = definition
        self.name = short
        self.omitted = self.zeroed = self.nulls = NO_FIELDS
        self.relation = relation
        self.fields: dict[str, Shape] = {}
        self.exact: Any = None
        self.decoder: Any = None
        self.uses = 0

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(json_kind(value), self.go)
        kept: JsonObject = {}
        fields = self.fields
        key = ""
        try:
            for key, item in value.items():
                shape = fields.get(key)
                if shape is None:
                    unknown.append(_field_path(path, key))
                elif item is not None:
                    is_accepted = type(item) is shape.accepts
                    kept_item = item if is_accepted else shape.conform(item, (path, key, _FIELD), unknown)
                    if kept_item or key not in self.omitted:
                        kept[key] = kept_item
        except _Mismatch as mismatch:
            if not mismatch.struct:
                mismatch.struct, mismatch.path = self.name, (path, key, _FIELD)
            raise
        return kept

    def child(self, key: str) -> Shape:
        return self.fields.get(key, ANYTHING)


class EmptyShape(StructShape):
    """A struct without fields, which field management takes for any value."""

    __slots__ = ()
    form = ANY

    def __init__(self, definition: str) -> None:
        super().__init__(definition, LEAF)


class SubschemaShape(Shape):
    """A schema of a custom resource (`schema`), or in its place a boolean or a list (`other`)."""

    __slots__ = ("other", "schema")

    def __init__(self, go: str, schema: Shape, other: Shape) -> None:
        super().__init__(go)
        self.schema = schema
        self.other = other

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        wanted, name = (bool, "boolean") if isinstance(self.other, BoolShape) else (list, "list")
        if type(value) is wanted:
            return self.other.conform(value, path, unknown)
        if type(value) is not dict:
            raise _Mismatch("", text=f"{name} or JSON schema expected")
        return self.schema.conform(value, path, unknown)

    def child(self, key: str) -> Shape:
        return self.schema.child(key)


def _zero(shape: Shape) -> Any:
    return {} if isinstance(shape, StructShape | MapShape) else [] if isinstance(shape, ListShape) else shape.zero
