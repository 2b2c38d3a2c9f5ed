"""The API's own schema: what a decoded body must look like, and how its lists merge.

The definitions are those of the kubernetes-validate package, compiled once into `Shape`s for the kinds that are
served; the texts are dropped. A body is *conformed*: nulls become absent, unknown fields are removed and reported, and
a value of another type is refused with the words of Go's decoder, which clients and people know
(source: Kubernetes API concepts "Field validation", sigs.k8s.io/json).
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.quantities import canonical_quantity

VERSION = "v1.37.0-local"
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

# Where a value stands, as a chain from the inside out: (outer, step, kind of step).
_Place = tuple[Any, Any, str] | None
_FIELD, _INDEX, _MAP_KEY = "field", "index", "key"


def definitions_path() -> Path:
    """The file of definitions, found without importing the package (which loads a validator)."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package kubernetes-validate is not installed")
    return Path(spec.origin).parent / "kubernetes-json-schema" / VERSION / "_definitions.json"


def load_definitions() -> dict[str, JsonObject]:
    """Definitions by name (`io.k8s.api.core.v1.Service`), with references as `#/$defs/<name>`."""
    definitions: dict[str, JsonObject] = msgspec.json.decode(definitions_path().read_bytes())["$defs"]
    return definitions


def definitions_by_kind(definitions: dict[str, JsonObject]) -> dict[tuple[str, str, str], str]:
    """The names of definitions, by the group, version and kind of what they define."""
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, definition in definitions.items()
        for gvk in definition.get("x-kubernetes-group-version-kind", ())
    }


class _Mismatch(Exception):
    """A value of the wrong type; `place` and `struct` are filled in on the way out."""

    def __init__(self, got: str, wanted: str = "", text: str = "") -> None:
        self.got = got
        self.wanted = wanted
        self.text = text
        self.place: _Place = None
        self.struct = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        where = f"Go struct field {self.struct}.{_go_path(self.place)}" if self.struct else "Go value"
        return f"json: cannot unmarshal {self.got} into {where} of type {self.wanted}"


def _steps(place: _Place) -> list[tuple[Any, str]]:
    steps = []
    while place is not None:
        place, step, kind = place
        steps.append((step, kind))
    return steps[::-1]


def _go_path(place: _Place) -> str:
    return ".".join(str(step) for step, kind in _steps(place) if kind == _FIELD)


def _field_path(place: _Place, field: str) -> str:
    """`spec.ports[0].foo`"""
    path = ""
    for step, kind in _steps((place, field, _FIELD)):
        path += f"[{step}]" if kind == _INDEX else f".{step}" if path else str(step)
    return path


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


class Shape:
    """What a value may be. `go` is the type's name in Go; `zero` is what a null in a list or a map becomes."""

    __slots__ = ("go",)
    zero: Any = None

    def __init__(self, go: str) -> None:
        self.go = go

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        """`value` as it is kept. Raises `_Mismatch`; appends paths of unknown fields to `unknown`."""
        return value

    def child(self, key: str) -> Shape:
        """The shape of a field or of a map's value; `ANYTHING` when there is none."""
        return ANYTHING


ANYTHING = Shape("interface {}")


class StringShape(Shape):
    __slots__ = ()
    zero = ""

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is str:
            return value
        raise _Mismatch(_json_type(value), self.go)


class BoolShape(Shape):
    __slots__ = ()
    zero = False

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is bool:
            return value
        raise _Mismatch(_json_type(value), self.go)


class IntShape(Shape):
    __slots__ = ("_range",)
    zero = 0

    def __init__(self, go: str) -> None:
        super().__init__(go)
        self._range = _INT_RANGES[go]

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is int:
            if self._range[0] <= value <= self._range[1]:
                return value
            raise _Mismatch(f"number {value}", self.go)
        raise _Mismatch(f"number {value}" if type(value) is float else _json_type(value), self.go)


class NumberShape(Shape):
    __slots__ = ()
    zero = 0

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) in (int, float):
            return value
        raise _Mismatch(_json_type(value), self.go)


class TimeShape(StringShape):
    __slots__ = ()

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        super().take(value, place, unknown)
        if not _TIME.fullmatch(value):
            raise _Mismatch(
                "",
                text=f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"',
            )
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise _Mismatch("", text=f'parsing time "{value}": out of range') from None
        return value


class BytesShape(StringShape):
    """Base64 text."""

    __slots__ = ()

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        super().take(value, place, unknown)
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

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        raise _Mismatch(f"number {value}" if type(value) in (int, float) else _json_type(value), "int32")


class QuantityShape(Shape):
    __slots__ = ()
    zero = "0"

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        try:
            if type(value) in (str, int, float):
                return canonical_quantity(str(value))
        except (ValueError, ArithmeticError):
            pass
        raise _Mismatch(
            "",
            text="quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )


class ListShape(Shape):
    """`merges` says that a strategic merge patch merges it: by `merge_key`, or as a set when that is ""."""

    __slots__ = ("items", "merge_key", "merges")

    def __init__(self, items: Shape, merges: bool, merge_key: str) -> None:
        super().__init__(f"[]{items.go}")
        self.items = items
        self.merges = merges
        self.merge_key = merge_key

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _Mismatch(_json_type(value), self.go)
        items = self.items
        if type(items) is StringShape and all(type(item) is str for item in value):
            return value
        return [
            _zero(items) if item is None else items.take(item, (place, index, _INDEX), unknown)
            for index, item in enumerate(value)
        ]


class MapShape(Shape):
    __slots__ = ("values",)

    def __init__(self, values: Shape) -> None:
        super().__init__(f"map[string]{values.go}")
        self.values = values

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(_json_type(value), self.go)
        values = self.values
        return {
            key: _zero(values) if item is None else values.take(item, (place, key, _MAP_KEY), unknown)
            for key, item in value.items()
        }

    def child(self, key: str) -> Shape:
        return self.values


class StructShape(Shape):
    """`definition` is its name in the definitions. `omitted` are fields whose zero value is stored as none."""

    __slots__ = ("definition", "fields", "name", "omitted", "required")

    def __init__(self, definition: str) -> None:
        version, short = definition.split(".")[-2:]
        super().__init__(f"{version}.{short}")
        self.definition = definition
        self.name = short
        self.omitted: frozenset[str] = frozenset()
        self.fields: dict[str, Shape] = {}
        self.required: frozenset[str] = frozenset()

    def take(self, value: Any, place: _Place, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(_json_type(value), self.go)
        kept: JsonObject = {}
        fields = self.fields
        key = ""
        try:
            for key, item in value.items():
                shape = fields.get(key)
                if shape is None:
                    unknown.append(_field_path(place, key))
                elif item is not None:
                    taken = shape.take(item, (place, key, _FIELD), unknown)
                    if taken or key not in self.omitted:
                        kept[key] = taken
        except _Mismatch as mismatch:
            if not mismatch.struct:
                mismatch.struct, mismatch.place = self.name, (place, key, _FIELD)
            raise
        return kept

    def child(self, key: str) -> Shape:
        return self.fields.get(key, ANYTHING)


def _zero(shape: Shape) -> Any:
    return {} if isinstance(shape, StructShape | MapShape) else [] if isinstance(shape, ListShape) else shape.zero


_SPECIAL: dict[str, Shape] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": IntOrStringShape("intstr.IntOrString"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QuantityShape("resource.Quantity"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": TimeShape("v1.Time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": TimeShape("v1.MicroTime"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": ANYTHING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
}
_STRING, _BOOL, _FLOAT, _BYTES = StringShape("string"), BoolShape("bool"), NumberShape("float64"), BytesShape("[]uint8")
_INT32, _INT64 = IntShape("int32"), IntShape("int64")


class Schema:
    """Shapes by kind. Compiled when first asked for; keep it and drop the definitions."""

    def __init__(
        self, definitions: dict[str, JsonObject], plain: Callable[[str], frozenset[str]] = lambda _: frozenset()
    ) -> None:
        """`plain` names the fields of a definition that Go leaves out of JSON when they are zero."""
        self._definitions = definitions
        self._plain = lru_cache(maxsize=None)(plain)
        self._shapes: dict[str, Shape] = dict(_SPECIAL)
        self._kinds = definitions_by_kind(definitions)

    def of_kind(self, group: str, version: str, kind: str) -> Shape:
        """Raises KeyError for a kind the definitions do not have."""
        return self._named(self._kinds[group, version, kind])

    def _named(self, name: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            definition = self._definitions[name]
            if "properties" not in definition:
                shape = self._shapes[name] = self._inline(definition)
            else:
                struct = shape = self._shapes[name] = StructShape(name)
                struct.fields = {key: self._inline(field) for key, field in definition["properties"].items()}
                struct.required = frozenset(definition.get("required", ()))
                struct.omitted = frozenset(
                    key
                    for key, field in struct.fields.items()
                    if key not in struct.required
                    and (isinstance(field, ListShape | MapShape) or self._is_plain(name, key, field))
                )
        return shape

    def _is_plain(self, name: str, key: str, field: Shape) -> bool:
        return isinstance(field, StringShape | BoolShape | IntShape) and key in self._plain(name)

    def _inline(self, definition: JsonObject) -> Shape:
        if "$ref" in definition:
            return self._named(definition["$ref"].removeprefix("#/$defs/"))
        kind = definition.get("type")
        match kind[0] if isinstance(kind, list) else kind:
            case "string":
                return _BYTES if definition.get("format") == "byte" else _STRING
            case "boolean":
                return _BOOL
            case "integer":
                return _INT32 if definition.get("format") == "int32" else _INT64
            case "number":
                return _FLOAT
            case "array":
                strategies = definition.get("x-kubernetes-patch-strategy", "").split(",")
                merge_key = definition.get("x-kubernetes-patch-merge-key", "")
                return ListShape(self._inline(definition.get("items", {})), "merge" in strategies, merge_key)
            case "object" if "additionalProperties" in definition:
                return MapShape(self._inline(definition["additionalProperties"]))
        return ANYTHING


def conform(value: JsonObject, shape: Shape) -> tuple[JsonObject, list[str]]:
    """`value` without nulls and unknown fields, and the paths of the latter. Raises `SchemaMismatch`."""
    unknown: list[str] = []
    try:
        return shape.take(value, None, unknown), unknown
    except _Mismatch as mismatch:
        raise SchemaMismatch(str(mismatch)) from None
