"""Kinds and versions of bodies: errors of those that do not fit the resource.

Kubernetes decodes a body into the Go type that its kind and version name, and converts that to the resource's internal
type. A custom resource has no Go type; its kind is validated as a field.
Source: apimachinery/pkg/runtime/scheme.go, pkg/conversion/converter.go, serializer/json/json.go;
apiextensions-apiserver/pkg/registry/customresource/validator.go (ValidateTypeMeta).
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import StructShape

from .definitions import LazyDefinitions, definitions_by_kind

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"  # as Kubernetes names it in errors


def conversion_problem(kind: str, api_version: str, wanted: StructShape) -> str:
    """Return why an object of a kind cannot become one of the wanted Go type, "" if it can.

    An object of another version of the same kind can.
    """
    group, _, version = api_version.rpartition("/")
    name = definitions_by_kind(LazyDefinitions()).get((group, version, kind))
    if name is None:
        return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
    package, _, short = name.split(".")[-3:]
    wanted_package, _, wanted_short = wanted.definition.split(".")[-3:]
    if (package, short) == (wanted_package, wanted_short):
        return ""
    return f"converting ({version}.{short}) to ({wanted_package}.{wanted_short}): unknown conversion"


def missing_kind(text: str) -> str:
    """Return the error of an object without a kind; `text` is its JSON."""
    return f"Object 'Kind' is missing in '{text}'"


def custom_kind_errors(obj: JsonObject, kind: str, api_version: str) -> list[FieldError]:
    """Return the errors of a custom resource's kind and version."""
    wanted = {"kind": kind, "apiVersion": api_version}
    return [
        Field(str(obj.get(name, "")), name).invalid(f"must be {value}")
        for name, value in wanted.items()
        if obj.get(name, "") != value
    ]
