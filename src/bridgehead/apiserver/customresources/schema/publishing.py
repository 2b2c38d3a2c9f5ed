"""OpenAPI definitions of a custom resource, as the API server publishes them for `kubectl explain` and clients.

References are written as in Kubernetes' own definitions here (`#/$defs/NAME`); a renderer rewrites them.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/controller/openapi/builder/builder.go, openapi/v2/conversion.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import JsonObject

from .node import EMBEDDED, INT_OR_STRING, PRESERVE_UNKNOWN, subschema

_REFERENCE = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1."
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    f"schemas to the latest internal value, and may reject unrecognized values. More info: {_CONVENTIONS}#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    f"endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)
_EMBEDDED_API_VERSION = (
    "apiVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    f"schemas to the latest internal value, and may reject unrecognized values. More info: {_CONVENTIONS}#resources"
)
_EMBEDDED_KIND = (
    "kind is a string value representing the type of this object. Servers may infer this from the endpoint the client "
    f"submits requests to. Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)
_OBJECT_META: JsonObject = {"$ref": f"{_REFERENCE}ObjectMeta"}
_METADATA: JsonObject = {
    "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    **_OBJECT_META,
}
_LIST_METADATA: JsonObject = {
    "description": f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds",
    "$ref": f"{_REFERENCE}ListMeta",
}
_GVK = "x-kubernetes-group-version-kind"
# Kubernetes' own definitions have these names; like Kubernetes', a definition that would have one gets another.
_OWN_NAMES = tuple(f"io.k8s.{name}." for name in ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator"))
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_EITHER = [{"type": "integer"}, {"type": "string"}]


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition: `com.example.stable.v1.CronTab` for stable.example.com/v1."""
    name = f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"
    return f"{name}_v2" if name.startswith(_OWN_NAMES) else name


def definition_3(
    schema: JsonObject | None, group: str, version: str, kind: str, *, preserve_unknown: bool = False
) -> JsonObject:
    """Return the definition of OpenAPI 3. `schema`: the version's `openAPIV3Schema`, None without one."""
    if schema is None:
        return _untyped(group, version, kind)
    return with_metadata(_unfolded(schema)) | {_GVK: [_gvk(group, version, kind)]}


def definition_2(
    schema: JsonObject | None, group: str, version: str, kind: str, *, preserve_unknown: bool = False
) -> JsonObject:
    """Return the definition of OpenAPI 2, which has no alternatives and no nulls. See `definition_3`."""
    if schema is None or preserve_unknown or schema.get(PRESERVE_UNKNOWN):
        # kubectl would refuse every field besides the ones that are listed.
        return _untyped(group, version, kind)
    downgraded = _downgraded(_unfolded(schema))
    return with_metadata(downgraded, is_version_2=True) | {_GVK: [_gvk(group, version, kind)]}


def list_definition(group: str, version: str, kind: str, list_kind: str, plural: str) -> JsonObject:
    """Return the definition of a kind's list, for both versions of OpenAPI."""
    reference = f"#/$defs/{definition_name(group, version, kind)}"
    return {
        "description": f"{list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "items": {
                "description": f"List of {plural}. More info: {_CONVENTIONS}",
                "type": "array",
                "items": {"$ref": reference},
            },
            "kind": {"description": _KIND, "type": "string"},
            "metadata": _LIST_METADATA,
        },
        _GVK: [_gvk(group, version, list_kind)],
    }


def with_metadata(schema: JsonObject, *, is_version_2: bool = False) -> JsonObject:
    """Return a schema of whole objects with the fields that all objects have, also those that are embedded in it."""
    result = _with_embedded(schema, is_version_2=is_version_2)
    own = {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
        "metadata": _METADATA,
    }
    return {**result, "properties": {**result.get("properties", {}), **own}}


def _gvk(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def _untyped(group: str, version: str, kind: str) -> JsonObject:
    return {"type": "object", _GVK: [_gvk(group, version, kind)]}


def _mapped(schema: JsonObject, change: Any) -> JsonObject:
    """Return a schema with `change` applied to the schemas of its fields, items and values."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: change(field) for name, field in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        below = subschema(schema.get(key))
        if below is not None:
            result[key] = change(below)
    return result


def _unfolded(schema: JsonObject) -> JsonObject:
    """Return a schema that states with `anyOf` where a value is an integer or a string."""
    result = _mapped(schema, _unfolded)
    if schema.get(INT_OR_STRING):
        choices = schema.get("anyOf")
        first = schema.get("allOf", [{}])[0].get("anyOf")
        if choices is None and first != _EITHER:
            result["anyOf"] = _EITHER
        elif choices != _EITHER and first != _EITHER:
            result["allOf"] = [{"anyOf": _EITHER}, *schema.get("allOf", ())]
    return result


def _with_embedded(schema: JsonObject, *, is_version_2: bool) -> JsonObject:
    result = _mapped(schema, lambda below: _with_embedded(below, is_version_2=is_version_2))
    if not schema.get(EMBEDDED) or (is_version_2 and schema.get(PRESERVE_UNKNOWN)):
        return result
    own = {
        "apiVersion": {"description": _EMBEDDED_API_VERSION, "type": "string"},
        "kind": {"description": _EMBEDDED_KIND, "type": "string"},
        "metadata": _METADATA,
    }
    required = schema.get("required", [])
    result["properties"] = {**result.get("properties", {}), **own}
    result["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return result


def _downgraded(schema: JsonObject) -> JsonObject:
    result = {name: value for name, value in schema.items() if name not in _JUNCTORS}
    is_nullable, preserves = bool(schema.get("nullable")), bool(schema.get(PRESERVE_UNKNOWN))
    if is_nullable or preserves:
        # kubectl cannot validate fields of a value whose type is open.
        for name in ("items", "properties"):
            result.pop(name, None)
    if is_nullable:
        result.pop("nullable")
        result.pop("type", None)
    if result.get("type") == "array" and "items" not in result:
        del result["type"]
    if preserves and result.get("type") == "object":
        del result["type"]
    values = subschema(schema.get("additionalProperties"))
    if values is not None and values.get("nullable"):
        result.pop("required", None)
    elif "required" in result:
        fields = result.get("properties", {})
        required = [name for name in result["required"] if not fields.get(name, {}).get("nullable")]
        result.pop("required")
        if required:
            result["required"] = required
    return _mapped(result, _downgraded)
