"""The schema of the API: types of fields, and merge keys of lists.

The definitions are those of the package kubernetes-validate, compiled once into `Shape`s for the kinds that are served.
`conform` drops nulls, drops and reports unknown fields, and refuses values of a wrong type with the error texts of Go's
decoder, which clients know. Source: Kubernetes API concepts "Field validation", sigs.k8s.io/json.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.quantities import canonical_quantity

VERSION = "v1.37.0-local"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

# The path of a value in its document, as a linked list from the inside out: (outer path, step, kind of step).
JsonPath = tuple[Any, Any, str] | None
_FIELD, _INDEX, _MAP_KEY = "field", "index", "key"


# Fields of alpha features, which a server without their feature gates does not have.
_ALPHA_FIELDS = {"io.k8s.api.batch.v1.JobSpec": ("scheduling",)}


def definitions_path() -> Path:
    """Return the file of definitions. Does not import the package, which would load a validator."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package kubernetes-validate is not installed")
    return Path(spec.origin).parent / "kubernetes-json-schema" / VERSION / "_definitions.json"


def load_definitions() -> dict[str, JsonObject]:
    """Return definitions by name (`io.k8s.api.core.v1.Service`), with references as `#/$defs/<name>`."""
    definitions: dict[str, JsonObject] = msgspec.json.decode(definitions_path().read_bytes())["$defs"]
    for name, fields in _ALPHA_FIELDS.items():
        _drop_fields(definitions[name], fields)
    return definitions


def _drop_fields(definition: JsonObject, fields: Iterable[str]) -> None:
    for field in fields:
        definition["properties"].pop(field, None)


_KINDS = "x-kubernetes-group-version-kind"


class _DefinitionsFile(msgspec.Struct):
    definitions: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


@cache
def _mapped_definitions() -> mmap.mmap:
    with definitions_path().open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@cache
def _encoded_definitions() -> dict[str, msgspec.Raw]:
    """Return the definitions' text, which stays in the file: as bytes of this process it would need 1.7 MiB."""
    mapped = _mapped_definitions()
    definitions = msgspec.json.decode(mapped, type=_DefinitionsFile).definitions
    mapped.madvise(mmap.MADV_DONTNEED)  # pages that are read again come from the system's cache
    return definitions


class _Kinds(msgspec.Struct):
    """A definition's kinds; decoding skips all else."""

    kinds: list[dict[str, str]] = msgspec.field(name=_KINDS, default_factory=list)


class LazyDefinitions(Mapping[str, JsonObject]):
    """The definitions of `load_definitions`, each decoded when it is read: most are never used, and all need 10 MiB."""

    def __init__(self) -> None:
        self._encoded = _encoded_definitions()

    def __getitem__(self, name: str) -> JsonObject:
        definition: JsonObject = msgspec.json.decode(self._encoded[name])
        _drop_fields(definition, _ALPHA_FIELDS.get(name, ()))
        return definition

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)


def definitions_by_kind(definitions: Mapping[str, JsonObject]) -> Mapping[tuple[str, str, str], str]:
    """Return the names of definitions by group, version and kind."""
    if isinstance(definitions, LazyDefinitions):
        return _encoded_by_kind()
    return _by_kind((name, definition.get(_KINDS, [])) for name, definition in definitions.items())


@cache
def _encoded_by_kind() -> Mapping[tuple[str, str, str], str]:
    encoded = _encoded_definitions().items()
    kinds = _by_kind((name, msgspec.json.decode(text, type=_Kinds).kinds) for name, text in encoded)
    _mapped_definitions().madvise(mmap.MADV_DONTNEED)
    return kinds


def _by_kind(kinds: Iterable[tuple[str, list[dict[str, str]]]]) -> Mapping[tuple[str, str, str], str]:
    return {(gvk["group"], gvk["version"], gvk["kind"]): name for name, its in kinds for gvk in its}


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
    """The type of a value. `go` is the type's name in Go; `zero` replaces a null in a list or a map.

    Values of the Python type `accepts` conform as they are; None: `conform` decides.
    """

    __slots__ = ("go",)
    zero: Any = None
    accepts: type | None = None

    def __init__(self, go: str) -> None:
        self.go = go

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        """Return `value` as it is stored. Raises `_Mismatch`; appends paths of unknown fields to `unknown`."""
        return value

    def child(self, key: str) -> Shape:
        """Return the shape of a field or of a map's value; `ANYTHING` when the shape has none."""
        return ANYTHING


ANYTHING = Shape("interface {}")


class JsonShape(Shape):
    """Any JSON, which protobuf has as text: sets of fields in managedFields, parameters of drivers."""

    __slots__ = ()


class StringShape(Shape):
    __slots__ = ()
    zero = ""
    accepts: type | None = str

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is str:
            return value
        raise _Mismatch(_json_type(value), self.go)


class BoolShape(Shape):
    __slots__ = ()
    zero = False
    accepts = bool

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is bool:
            return value
        raise _Mismatch(_json_type(value), self.go)


class IntShape(Shape):
    __slots__ = ("_range",)
    zero = 0

    def __init__(self, go: str) -> None:
        super().__init__(go)
        self._range = _INT_RANGES[go]

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is int:
            if self._range[0] <= value <= self._range[1]:
                return value
            raise _Mismatch(f"number {value}", self.go)
        raise _Mismatch(f"number {value}" if type(value) is float else _json_type(value), self.go)


class NumberShape(Shape):
    __slots__ = ()
    zero = 0

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) in (int, float):
            return value
        raise _Mismatch(_json_type(value), self.go)


class TimeShape(StringShape):
    __slots__ = ()
    accepts = None

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        super().conform(value, path, unknown)
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
    accepts = None

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
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

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        raise _Mismatch(f"number {value}" if type(value) in (int, float) else _json_type(value), "int32")


class QuantityShape(Shape):
    __slots__ = ()
    zero = "0"

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
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
    """A list. If `merges`, a strategic merge patch merges it: by `merge_key`, or as a set when `merge_key` is ""."""

    __slots__ = ("items", "merge_key", "merges")

    def __init__(self, items: Shape, merges: bool, merge_key: str) -> None:
        super().__init__(f"[]{items.go}")
        self.items = items
        self.merges = merges
        self.merge_key = merge_key

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _Mismatch(_json_type(value), self.go)
        items = self.items
        if items.accepts is not None and set(map(type, value)) == {items.accepts}:
            return value
        return [
            _zero(items) if item is None else items.conform(item, (path, index, _INDEX), unknown)
            for index, item in enumerate(value)
        ]


class MapShape(Shape):
    __slots__ = ("values",)

    def __init__(self, values: Shape) -> None:
        super().__init__(f"map[string]{values.go}")
        self.values = values

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(_json_type(value), self.go)
        values = self.values
        if values.accepts is not None and set(map(type, value.values())) == {values.accepts}:
            return value
        return {
            key: _zero(values) if item is None else values.conform(item, (path, key, _MAP_KEY), unknown)
            for key, item in value.items()
        }

    def child(self, key: str) -> Shape:
        return self.values


class StructShape(Shape):
    """An object with named fields. `definition` is its definition's name; zero values of `omitted` are not stored."""

    __slots__ = ("definition", "fields", "name", "omitted", "required")

    def __init__(self, definition: str) -> None:
        version, short = definition.split(".")[-2:]
        super().__init__(f"{version}.{short}")
        self.definition = definition
        self.name = short
        self.omitted: frozenset[str] = frozenset()
        self.fields: dict[str, Shape] = {}
        self.required: frozenset[str] = frozenset()

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _Mismatch(_json_type(value), self.go)
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


_SPECIAL: dict[str, Shape] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": IntOrStringShape("intstr.IntOrString"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QuantityShape("resource.Quantity"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": TimeShape("v1.Time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": TimeShape("v1.MicroTime"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": JsonShape("v1.FieldsV1"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": JsonShape("runtime.RawExtension"),
}
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL |= {
    f"{_APIEXTENSIONS}JSON": JsonShape("v1.JSON"),
    f"{_APIEXTENSIONS}CustomResourceSubresourceStatus": StructShape(f"{_APIEXTENSIONS}CustomResourceSubresourceStatus"),
}
_STRING, _BOOL, _FLOAT, _BYTES = StringShape("string"), BoolShape("bool"), NumberShape("float64"), BytesShape("[]uint8")
_STRINGS = ListShape(_STRING, False, "")
_INT32, _INT64 = IntShape("int32"), IntShape("int64")


class Schema:
    """Shapes by kind, compiled on first use."""

    def __init__(
        self, definitions: Mapping[str, JsonObject], plain: Callable[[str], frozenset[str]] = lambda _: frozenset()
    ) -> None:
        """Take definitions; `plain` returns the fields of a definition that Go omits from JSON when they are zero."""
        self._definitions = definitions
        self._plain = lru_cache(maxsize=None)(plain)
        self._shapes: dict[str, Shape] = dict(_SPECIAL)
        self._kinds = definitions_by_kind(definitions)

    @property
    def definitions(self) -> Mapping[str, JsonObject]:
        """The definitions by name, with references as `#/$defs/<name>`."""
        return self._definitions

    def name_of_kind(self, group: str, version: str, kind: str) -> str:
        """Return the name of a kind's definition. Raises KeyError for a kind without one."""
        return self._kinds[group, version, kind]

    def of_kind(self, group: str, version: str, kind: str) -> Shape:
        """Return the shape of a kind. Raises KeyError for a kind without a definition."""
        return self._named(self._kinds[group, version, kind])

    def of_definition(self, name: str) -> Shape:
        """Return the shape of a definition such as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`."""
        return self._named(name)

    def check_kind(self, group: str, version: str, kind: str) -> None:
        """Raise KeyError for a kind without a definition, without compiling its shape."""
        self._kinds[group, version, kind]

    def _named(self, name: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            definition = self._definitions[name]
            if name.startswith(f"{_APIEXTENSIONS}JSONSchemaPropsOr"):
                schema = self._named(f"{_APIEXTENSIONS}JSONSchemaProps")
                others = {"Bool": _BOOL, "Array": ListShape(schema, False, ""), "StringArray": _STRINGS}
                other = others[name.removeprefix(f"{_APIEXTENSIONS}JSONSchemaPropsOr")]
                shape = self._shapes[name] = SubschemaShape(".".join(name.split(".")[-2:]), schema, other)
            elif "properties" not in definition:
                shape = self._shapes[name] = self._inline(definition)
            else:
                struct = shape = self._shapes[name] = StructShape(name)
                struct.fields = {key: self._inline(field) for key, field in definition["properties"].items()}
                struct.required = frozenset(definition.get("required", ()))
                struct.omitted = frozenset(
                    key
                    for key, field in struct.fields.items()
                    if key not in struct.required
                    and key != "managedFields"  # an empty list is a request to reset them
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
    """Return `value` without nulls and unknown fields, and the paths of the unknown ones. Raises `SchemaMismatch`."""
    unknown: list[str] = []
    try:
        return shape.conform(value, None, unknown), unknown
    except _Mismatch as mismatch:
        raise SchemaMismatch(str(mismatch), (mismatch.got, mismatch.wanted) if mismatch.wanted else None) from None
