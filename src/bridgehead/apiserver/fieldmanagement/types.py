"""Types of objects, as far as field management needs them, compiled from OpenAPI definitions on first use.

The extensions `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type` decide which parts of
an object managers own together. A list without them falls back to the merge key of strategic merge patch.

Pure: no I/O, no clock, no randomness.
Source: kube-openapi/pkg/schemaconv/smd.go; Kubernetes' reference "Server-Side Apply", "Merge strategy".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridgehead.apiserver.resource import JsonObject

from .path_steps import field_step, key_step, one_key_step, two_keys_step, value_step

# How values are owned: as one, by field or key, by element key, by element value, or as their JSON type suggests.
LEAF, MAP, KEYED, SET, DEDUCED = range(5)

NUMERIC, STRING, BOOLEAN, UNTYPED = "numeric", "string", "boolean", "untyped"


class Type:
    """The type of a value. `kind` is LEAF for scalars and for everything atomic."""

    __slots__ = ("kind",)

    def __init__(self, kind: int) -> None:
        self.kind = kind


class ScalarType(Type):
    """A scalar. `scalar` is NUMERIC, STRING, BOOLEAN or UNTYPED."""

    __slots__ = ("scalar",)

    def __init__(self, scalar: str) -> None:
        super().__init__(LEAF)
        self.scalar = scalar


class MapType(Type):
    """A struct, a map, or both: named `fields`, and the type of all other `values`, None if there are none.

    `zeroed`: the fields that Go's zero value of the struct contains. A writer that fills one of these does not
    own the field itself, only what is in it. `nulls`: the fields that are null when they have no value, which a writer
    of the struct owns, too. `untracked`: fields that nobody owns.
    """

    __slots__ = ("fields", "nulls", "untracked", "values", "zeroed")

    def __init__(self, kind: int = MAP) -> None:
        super().__init__(kind)
        self.fields: dict[str, tuple[str, Type]] = {}
        self.values: Type | None = None
        self.zeroed: frozenset[str] = frozenset()
        self.nulls: frozenset[str] = frozenset()
        self.untracked: frozenset[str] = frozenset()

    def child(self, name: str) -> tuple[str, Type] | None:
        """Return the step and the type of a field; None if the type does not have it."""
        known = self.fields.get(name)
        if known is not None:
            return known
        return None if self.values is None else (field_step(name), self.values)

    def as_atomic(self, *, is_atomic: bool) -> MapType:
        """Return this type with another relationship of its fields."""
        copy = MapType(LEAF if is_atomic else MAP)
        copy.fields, copy.values, copy.zeroed, copy.untracked = self.fields, self.values, self.zeroed, self.untracked
        copy.nulls = self.nulls
        return copy


class ListType(Type):
    """A list: atomic (LEAF), with key fields (KEYED), or a set of scalars (SET).

    `keys` are sorted. `defaults` are the values of keys that an element leaves out. `step_of` returns the step of an
    element, with the keys that the element has; None for an element that lacks all keys or is not a scalar.
    """

    __slots__ = ("defaults", "items", "keys", "step_of")

    def __init__(self, kind: int, items: Type, keys: tuple[str, ...], defaults: Mapping[str, Any]) -> None:
        super().__init__(kind)
        self.items = items
        self.keys = keys
        self.defaults = defaults
        self.step_of = _step_by_key(keys, defaults) if kind == KEYED else _step_by_value


# What YAML calls a scalar may be more: dates, bytes, sets.
_SCALAR_TYPES = frozenset({str, int, float, bool})


def _step_by_value(item: Any) -> str | None:
    return value_step(item) if type(item) in _SCALAR_TYPES else None


def _step_by_key(keys: tuple[str, ...], defaults: Mapping[str, Any]) -> Callable[[Any], str | None]:
    def step_of(item: Any) -> str | None:
        if type(item) is not dict:
            return None
        found = {}
        for key in keys:
            value = item.get(key)
            if value is None:
                value = defaults.get(key)
                if value is None:
                    continue
            elif type(value) not in _SCALAR_TYPES:
                return None
            found[key] = value
        if len(found) == 1:
            return one_key_step(*next(iter(found.items())))
        if len(found) == 2:
            (first, value), (second, other) = found.items()
            return two_keys_step(first, value, second, other)
        return key_step(found) if found else None

    return step_of


SCALARS = {name: ScalarType(name) for name in (NUMERIC, STRING, BOOLEAN, UNTYPED)}
# Any value, owned as one.
ANY = Type(LEAF)
# Any value; its maps are owned by key, its lists as one.
ANY_DEDUCED = Type(DEDUCED)
DEDUCED_MAP = MapType()
DEDUCED_MAP.values = ANY_DEDUCED


def deduced(value: Any) -> Type:
    """Return the type of a value of type `ANY_DEDUCED`."""
    return DEDUCED_MAP if type(value) is dict else ANY


_DEFINITION = "#/$defs/"
_API = "io.k8s.api."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."

_LEAVES: dict[str, Type] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": SCALARS[UNTYPED],
    "io.k8s.apimachinery.pkg.api.resource.Quantity": SCALARS[UNTYPED],
    f"{_META}Time": SCALARS[UNTYPED],
    f"{_META}MicroTime": SCALARS[UNTYPED],
}

# Defaults of key fields. The published definitions do not have them.
_KEY_DEFAULTS = {
    f"{_API}core.v1.ContainerPort": {"protocol": "TCP"},
    f"{_API}core.v1.ServicePort": {"protocol": "TCP"},
}

# Fields by value that Go does not omit, beside metadata, spec, status and those that are required.
_BY_VALUE = {
    f"{_API}apps.v1.DaemonSetSpec": ("updateStrategy",),
    f"{_API}apps.v1.DeploymentSpec": ("strategy",),
    f"{_API}apps.v1.ReplicaSetSpec": ("template",),
    f"{_API}apps.v1.StatefulSetSpec": ("serviceName", "updateStrategy"),
    f"{_API}apps.v1.StatefulSetStatus": ("availableReplicas",),
    f"{_API}core.v1.Container": ("resources",),
    f"{_API}core.v1.ContainerStatus": ("lastState", "state"),
    f"{_API}core.v1.EphemeralContainer": ("resources",),
    f"{_API}core.v1.Event": ("reportingComponent", "reportingInstance", "source"),
    f"{_API}core.v1.NodeDaemonEndpoints": ("kubeletEndpoint",),
    f"{_API}core.v1.NodeStatus": ("daemonEndpoints", "nodeInfo"),
    f"{_API}core.v1.PersistentVolumeClaimSpec": ("resources",),
    f"{_API}core.v1.PodTemplate": ("template",),
    f"{_API}core.v1.ServiceStatus": ("loadBalancer",),
    f"{_API}discovery.v1.Endpoint": ("conditions",),
    f"{_API}networking.v1.IngressServiceBackend": ("port",),
    f"{_API}networking.v1.IngressStatus": ("loadBalancer",),
    f"{_API}networking.v1.NetworkPolicySpec": ("podSelector",),
    f"{_API}resource.v1.AllocationResult": ("devices",),
    f"{_API}resource.v1.ResourceClaimSpec": ("devices",),
}
_ALWAYS_BY_VALUE = frozenset({"metadata", "spec", "status"})
# Required fields that are pointers to a struct with fields of its own.
_POINTERS = {f"{_API}networking.v1.IPAddressSpec": ("parentRef",)}

# Fields that identify an object or that the server alone sets (apimachinery/pkg/util/managedfields, stripmeta.go).
_UNTRACKED_META = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)


class Types:
    """Types by definition. `definitions` are OpenAPI definitions by name, with references as `#/$defs/NAME`.

    `nulls` returns the fields of a definition that are null when they have no value.
    """

    def __init__(
        self, definitions: Mapping[str, JsonObject], nulls: Callable[[str], frozenset[str]] = lambda _: frozenset()
    ) -> None:
        self._definitions = definitions
        self._nulls = nulls
        self._types: dict[str, Type] = dict(_LEAVES)
        self._roots: dict[str, MapType] = {}

    def root(self, name: str) -> MapType:
        """Return the type of the objects of a definition. Raises KeyError."""
        root = self._roots.get(name)
        if root is None:
            root = self._roots[name] = as_root(self._named(name))
        return root

    def _named(self, name: str) -> Type:
        known = self._types.get(name)
        if known is not None:
            return known
        definition = self._definitions[name]
        if "properties" not in definition:
            self._types[name] = ANY
            return ANY
        compiled = MapType(_map_kind(definition))
        compiled.nulls = self._nulls(name)
        self._types[name] = compiled  # before its fields: some definitions contain themselves
        self._fill(compiled, name, definition)
        return compiled

    def _fill(self, compiled: MapType, name: str, definition: JsonObject) -> None:
        required = frozenset(definition.get("required", ())) - frozenset(_POINTERS.get(name, ()))
        # Schemas without a name are those of custom resources, which have no Go type.
        by_value = _ALWAYS_BY_VALUE | required | frozenset(_BY_VALUE.get(name, ())) if name else frozenset()
        for field, schema in definition["properties"].items():
            compiled.fields[field] = (field_step(field), self.inline(schema))
        compiled.zeroed = by_value & compiled.fields.keys()
        if "additionalProperties" in definition:
            compiled.values = self.inline(definition["additionalProperties"])

    def inline(self, schema: JsonObject) -> Type:
        """Return the type of a schema that has no name of its own, such as a property's."""
        if "$ref" in schema:
            return _related(self._named(schema["$ref"].removeprefix(_DEFINITION)), schema)
        if schema.get("x-kubernetes-int-or-string"):
            return SCALARS[UNTYPED]
        kind = schema.get("type")
        match kind[0] if isinstance(kind, list) else kind:
            case "string":
                return SCALARS[STRING]
            case "boolean":
                return SCALARS[BOOLEAN]
            case "integer" | "number":
                return SCALARS[NUMERIC]
            case "array":
                return self._list(schema)
            case "object" | None if "properties" in schema or isinstance(schema.get("additionalProperties"), dict):
                compiled = MapType(_map_kind(schema))
                self._fill(compiled, "", {"properties": {}, **schema})
                if compiled.values is None and schema.get("x-kubernetes-preserve-unknown-fields"):
                    compiled.values = ANY_DEDUCED
                return compiled
        return ANY_DEDUCED if schema.get("x-kubernetes-preserve-unknown-fields") else ANY

    def _list(self, schema: JsonObject) -> ListType:
        items = schema.get("items", {})
        kind, keys = _list_kind(schema)
        defaults = self._key_defaults(items, keys)
        return ListType(kind, self.inline(items), tuple(sorted(keys)), defaults)

    def _key_defaults(self, items: JsonObject, keys: Sequence[str]) -> dict[str, Any]:
        """Return the values that key fields have when an element leaves them out."""
        if not keys:
            return {}
        name = items.get("$ref", "").removeprefix(_DEFINITION)
        definition = self._definitions[name] if name else items
        known, required = _KEY_DEFAULTS.get(name, {}), definition.get("required", ())
        defaults: dict[str, Any] = {}
        for key in keys:
            schema = definition.get("properties", {}).get(key, {})
            if "default" in schema or key in known:
                defaults[key] = schema.get("default", known.get(key))
            elif name and key in required:
                # Go does not omit these fields, so that the zero value is their default.
                kind = schema.get("type")
                is_number = (kind[0] if isinstance(kind, list) else kind) in ("integer", "number")
                defaults[key] = 0 if is_number else ""
        return defaults


def as_root(compiled: Type) -> MapType:
    """Return the type of whole objects: with the fields that all objects have, of which some have no owner."""
    if not isinstance(compiled, MapType):
        compiled = DEDUCED_MAP
    root = compiled.as_atomic(is_atomic=False)
    root.untracked = frozenset({"apiVersion", "kind"})
    meta = root.fields.get("metadata", (field_step("metadata"), ANY))[1]
    tracked = (meta if isinstance(meta, MapType) else DEDUCED_MAP).as_atomic(is_atomic=False)
    tracked.untracked = _UNTRACKED_META
    identifying = {name: (field_step(name), SCALARS[STRING]) for name in ("apiVersion", "kind")}
    root.fields = {**root.fields, **identifying, "metadata": (field_step("metadata"), tracked)}
    root.zeroed |= {"metadata"}
    return root


def _map_kind(schema: JsonObject) -> int:
    return LEAF if schema.get("x-kubernetes-map-type") == "atomic" else MAP


def _related(compiled: Type, schema: JsonObject) -> Type:
    """Return a named type with the relationship that a property declares, if it declares one."""
    declared = schema.get("x-kubernetes-map-type")
    if declared is None or not isinstance(compiled, MapType):
        return compiled
    return compiled.as_atomic(is_atomic=declared == "atomic")


def _list_kind(schema: JsonObject) -> tuple[int, tuple[str, ...]]:
    """Return the kind of a list, and its key fields."""
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return KEYED, tuple(schema.get("x-kubernetes-list-map-keys", ()))
        case "set":
            return SET, ()
        case "atomic":
            return LEAF, ()
    if "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        key = schema.get("x-kubernetes-patch-merge-key", "")
        return (KEYED, (key,)) if key else (SET, ())
    return LEAF, ()
