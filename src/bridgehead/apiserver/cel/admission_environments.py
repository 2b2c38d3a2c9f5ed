"""Environments of expressions that check or change the requests of clients: match conditions and admission policies.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `apiserver/pkg/admission/plugin/cel/compile.go`, `apiserver/pkg/cel/mutation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from .environment import Environment
from .library import MUTATING
from .library.authorization import AUTHORIZER, RESOURCE_CHECK
from .schema_types import type_of_schema
from .types import BOOL, DYN, STRING, Field, Type, list_of, map_of, struct

OBJECT_NAME = "Object"


def _struct(type_name: str, /, **fields: Type) -> Type:
    return struct(f"kubernetes.{type_name}", {name: Field(name, found) for name, found in fields.items()})


_TEXTS = list_of(STRING)
_KIND = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER = _struct("UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS))
REQUEST = _struct(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)


def _namespace_type() -> Type:
    text: dict[str, Any] = {"type": "string"}
    texts = {"type": "array", "items": text}
    labels = {"type": "object", "additionalProperties": text}
    time, number = {"type": "string", "format": "date-time"}, {"type": "integer"}
    metadata = {
        "name": text, "generateName": text, "namespace": text, "labels": labels, "annotations": labels, "UID": text,
        "creationTimestamp": time, "deletionGracePeriodSeconds": number, "deletionTimestamp": time,
        "generation": number, "resourceVersion": text, "finalizers": texts,
    }  # fmt: skip
    condition = {"status": text, "type": text, "lastTransitionTime": time, "message": text, "reason": text}
    conditions = {"type": "array", "items": {"type": "object", "properties": condition}}
    schema = {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": metadata},
            "spec": {"type": "object", "properties": {"finalizers": texts}},
            "status": {"type": "object", "properties": {"conditions": conditions, "phase": text}},
        },
    }
    found = type_of_schema(schema, "kubernetes.Namespace")
    if found is None:
        raise TypeError("a Namespace has a type")
    return found


NAMESPACE = _namespace_type()


class _AnyFields(Mapping[str, Field]):
    """Fields of objects without schema: each name is a field of type dyn."""

    def __getitem__(self, name: str) -> Field:
        return Field(name, DYN)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class ObjectValue(dict[str, Any]):
    """The value of `Object{...}`, `Object.spec{...}` or `JSONPatch{...}`; `type_name` is its name in the expression."""

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


JSON_PATCH = struct(
    "JSONPatch", {name: Field(name, DYN if name == "value" else STRING) for name in ("op", "path", "from", "value")}
)
APPLY_CONFIGURATION = struct(OBJECT_NAME, _AnyFields())
JSON_PATCHES = list_of(JSON_PATCH)


@cache
def _patch_type(name: str) -> Type | None:
    if name == JSON_PATCH.name:
        return JSON_PATCH
    if name == OBJECT_NAME:
        return APPLY_CONFIGURATION
    return struct(name, _AnyFields()) if name.startswith(f"{OBJECT_NAME}.") else None


def admission_environment(
    *,
    has_params: bool,
    has_authorizer: bool = True,
    can_patch: bool = False,
    variables: Mapping[str, Type] | None = None,
    object_type: Type = DYN,
    params_type: Type = DYN,
) -> Environment:
    """Return the environment of a policy's or webhook's expressions.

    `variables` are the types of the policy's variables that were compiled before; None: it has none. `can_patch`: the
    expression may make `Object` and `JSONPatch` values.
    """
    known: dict[str, Type] = {
        "object": object_type,
        "oldObject": object_type,
        "namespaceObject": NAMESPACE,
        "request": REQUEST,
    }
    if has_params:
        known["params"] = params_type
    if has_authorizer:
        known |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    if variables is not None:
        known["variables"] = _struct("variables", **variables)
    if can_patch:
        return Environment(known, functions=MUTATING, structs=_patch_type, make_struct=ObjectValue)
    return Environment(known)


def check_type_names(value: Any, path: str = OBJECT_NAME) -> list[str]:
    """Return the contradictions between the names of object types and the fields in which the objects are."""
    if not isinstance(value, ObjectValue):
        return []
    errors = []
    if value.type_name != path:
        problem = f'unexpected type name "{value.type_name}", expected "{path}"'
        errors.append(f"{problem}, which matches field name path from root Object type")
    for name, field in value.items():
        errors += check_type_names(field, f"{path}.{name}")
    return errors
