"""A definition as entries of the table: one `Resource` for each served version.

Schemas are compiled when the first object of a version is read or written.
Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from bridgehead.apiserver.resource import CLIENT_METADATA, Converter, JsonObject, Resource, ScalePaths
from bridgehead.apiserver.shapes import Shape
from bridgehead.apiserver.table import version_order
from bridgehead.objects.names import check_dns1123_subdomain

from .definitions import (
    TERMINATING,
    is_namespaced,
    is_true,
    preserves_unknown_fields,
    schema_of,
    versions_of,
)
from .jsonpath import field_names
from .printer_columns import printer_columns
from .schema import Structural
from .schema.publishing import definition_2, definition_3, definition_name, list_definition
from .selectable_fields import selectable_fields
from .strategy import CustomResourceStrategy

TERMINATING_REFUSAL = "create not allowed while custom resource definition is terminating"


class VersionSchema:
    """The schema of one version: the `resource.Definition` of its resource. `metadata` is the shape of ObjectMeta."""

    def __init__(self, crd: JsonObject, version: JsonObject, names: JsonObject, metadata: Callable[[], Shape]) -> None:
        self._gvk = (crd["spec"]["group"], version["name"], names["kind"])
        self._plural, self._list_kind = names["plural"], names["listKind"]
        self._schema = schema_of(version)
        self._keeps_unknown = preserves_unknown_fields(crd)
        self._metadata = metadata
        self.name = definition_name(*self._gvk)
        self.list_name = definition_name(*self._gvk[:2], self._list_kind)

    @cached_property
    def digest(self) -> str:
        parts = [self._gvk, self._list_kind, self._schema, self._keeps_unknown]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    @cached_property
    def structural(self) -> Structural:
        preserves = self._keeps_unknown or self._schema is None
        return Structural.parse(self._schema or {}, self._metadata(), preserve_unknown=preserves)

    @property
    def shape(self) -> Shape:
        return self.structural.shape

    def openapi(self, version: int) -> Mapping[str, JsonObject]:
        render = definition_2 if version == 2 else definition_3
        return {
            self.name: render(self._schema, *self._gvk, preserve_unknown=self._keeps_unknown),
            self.list_name: list_definition(*self._gvk, self._list_kind, self._plural),
        }


@dataclass(frozen=True)
class CustomVersion:
    """A version of a custom resource. `converter` of the resource is not set yet."""

    resource: Resource
    schema: VersionSchema
    is_served: bool
    is_stored: bool


def custom_versions(crd: JsonObject, metadata: Callable[[], Shape]) -> list[CustomVersion]:
    """Return all versions of a definition whose names are accepted."""
    names = {**crd["spec"]["names"], **crd["status"]["acceptedNames"]}
    return [_version(crd, version, names, metadata) for version in versions_of(crd)]


def _version(crd: JsonObject, version: JsonObject, names: JsonObject, metadata: Callable[[], Shape]) -> CustomVersion:
    spec, name = crd["spec"], version["name"]
    group, kind = spec["group"], names["kind"]
    subresources = version.get("subresources") or {}
    schema = VersionSchema(crd, version, names, metadata)
    has_status, scale = subresources.get("status") is not None, scale_paths(subresources.get("scale"))
    has_schema = schema_of(version) is not None
    strategy = CustomResourceStrategy(
        (lambda: schema.structural) if has_schema else None, has_status=has_status, scale=scale
    )
    resource = Resource(
        group=group,
        version=name,
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular", ""),
        namespaced=is_namespaced(crd),
        columns=printer_columns(version.get("additionalPrinterColumns") or ()),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=(*(("status",) if has_status else ()), *(("scale",) if scale else ())),
        strategy=strategy,
        selectable=selectable_fields(version),
        warning=_deprecation(crd, version, kind),
        has_generation=True,
        check_name=check_dns1123_subdomain,
        definition=schema,
        scale=scale,
        list_kind=names.get("listKind", ""),
        refuses_create=TERMINATING_REFUSAL if is_true(crd, TERMINATING) else "",
        kept_by_status=CLIENT_METADATA,
        allows_unconditional_update=False,
        has_plain_finalizers=True,
        api_versions=tuple(f"{group}/{one['name']}" for one in versions_of(crd)),
    )
    return CustomVersion(resource, schema, bool(version.get("served")), bool(version.get("storage")))


def with_converter(version: CustomVersion, converter: Converter) -> Resource:
    return replace(version.resource, converter=converter)


def scale_paths(scale: JsonObject | None) -> ScalePaths | None:
    """Return the fields of a version's Scale; None for a version without one."""
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath")
    return ScalePaths(
        field_names(scale["specReplicasPath"]),
        field_names(scale["statusReplicasPath"]),
        field_names(selector) if selector else None,
    )


def _deprecation(crd: JsonObject, version: JsonObject, kind: str) -> str:
    """Return the warning in answers about a version, "" for one that is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, name = crd["spec"]["group"], version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    better = [
        one["name"]
        for one in versions_of(crd)
        if one.get("served") and not one.get("deprecated") and version_order(one["name"]) < version_order(name)
    ]
    return f"{text}; use {group}/{min(better, key=version_order)} {kind}" if better else text
