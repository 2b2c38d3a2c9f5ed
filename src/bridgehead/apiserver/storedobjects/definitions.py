"""CustomResourceDefinitions in the form in which Kubernetes stores them: apiextensions.k8s.io/v1beta1.

That version has fields for all versions at once beside those of each version. Kubernetes moves what all versions have
alike to the former. The functions take and return whole objects without nulls, which may share parts.
Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go, v1beta1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.customresources.definitions import storage_version
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.apiserver.shapes import ListShape, Shape, StructShape

from .older_shapes import changed_shape, item_shape

V1, V1BETA1 = "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"

# Fields of a version in v1, and what v1beta1 calls them when they are those of all versions.
_OF_ALL = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_WEBHOOK_PORT = 443


def to_v1beta1(crd: JsonObject) -> JsonObject:
    """Return a definition of v1 in v1beta1."""
    spec = dict(crd.get("spec") or {})
    versions = [_with_columns(version, _older_column) for version in spec.get("versions") or ()]
    if versions:
        spec["version"] = versions[0].get("name", "")
        _move_to_spec(spec, versions)
        spec["versions"] = versions
    if "conversion" in spec:
        spec["conversion"] = _older_conversion(spec["conversion"])
    # v1 does not keep unknown fields unless a definition asks for it; the default of v1beta1 is to keep them.
    spec["preserveUnknownFields"] = spec.get("preserveUnknownFields", False)
    return {**crd, "apiVersion": V1BETA1, "spec": spec}


def from_v1beta1(crd: JsonObject) -> JsonObject:
    """Return a definition of v1beta1 in v1, with the default values of v1beta1."""
    spec = dict(crd.get("spec") or {})
    name = spec.pop("version", "")
    versions = [dict(version) for version in spec.get("versions") or ()]
    if not versions and name:
        versions = [{"name": name, "served": True, "storage": True}]
    for field, of_all in _OF_ALL.items():
        if of_all in spec:
            value = spec.pop(of_all)
            for version in versions:
                version[field] = copied(value)
    if versions:
        spec["versions"] = [_with_columns(version, _newer_column) for version in versions]
    spec.setdefault("scope", "Namespaced")
    spec["conversion"] = _newer_conversion(spec.get("conversion") or {"strategy": "None"})
    if not spec.setdefault("preserveUnknownFields", True):
        del spec["preserveUnknownFields"]
    newer = {**crd, "apiVersion": V1, "spec": spec}
    status = dict(crd.get("status") or {})
    if not status.get("storedVersions") and (stored := storage_version(newer)):
        newer["status"] = {**status, "storedVersions": [stored]}
    return newer


def _move_to_spec(spec: JsonObject, versions: list[JsonObject]) -> None:
    """Move what all versions have alike."""
    has_one_schema = False
    for field, of_all in _OF_ALL.items():
        first = versions[0].get(field)
        is_alike = all(version.get(field) == first for version in versions)
        if field == "schema":
            has_one_schema = is_alike
        elif field == "selectableFields":
            is_alike = is_alike and has_one_schema
        if is_alike:
            for version in versions:
                version.pop(field, None)
            if first is not None:
                spec[of_all] = first


def _with_columns(version: JsonObject, column: Callable[[JsonObject], JsonObject]) -> JsonObject:
    columns = version.get("additionalPrinterColumns")
    return dict(version) if columns is None else {**version, "additionalPrinterColumns": [*map(column, columns)]}


def _older_column(column: JsonObject) -> JsonObject:
    return {("JSONPath" if name == "jsonPath" else name): value for name, value in column.items()}


def _newer_column(column: JsonObject) -> JsonObject:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _older_conversion(conversion: JsonObject) -> JsonObject:
    older = {name: value for name, value in conversion.items() if name != "webhook"}
    webhook = conversion.get("webhook") or {}
    if "clientConfig" in webhook:
        older["webhookClientConfig"] = webhook["clientConfig"]
    if "conversionReviewVersions" in webhook:
        older["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return older


def _newer_conversion(conversion: JsonObject) -> JsonObject:
    newer: dict[str, Any] = dict(conversion)
    config, reviewed = newer.pop("webhookClientConfig", None), newer.pop("conversionReviewVersions", None)
    if newer.get("strategy") == "Webhook" and not reviewed:
        reviewed = ["v1beta1"]
    webhook: JsonObject = {}
    if config is not None:
        if config.get("service") is not None:
            config = {**config, "service": {**config["service"], "port": config["service"].get("port", _WEBHOOK_PORT)}}
        webhook["clientConfig"] = config
    if reviewed is not None:
        webhook["conversionReviewVersions"] = reviewed
    if webhook:
        newer["webhook"] = webhook
    return newer


def v1beta1_shape(v1: StructShape) -> StructShape:
    """Return the shape of a definition of v1beta1."""
    spec = v1.fields["spec"]
    if not isinstance(spec, StructShape):
        raise TypeError("a definition without a spec")
    version, conversion = item_shape(spec, "versions"), spec.fields["conversion"]
    column = item_shape(version, "additionalPrinterColumns")
    webhook = conversion.fields["webhook"]
    older_column = changed_shape(column, {"JSONPath": column.fields["jsonPath"]}, drop=("jsonPath",))
    older_version = changed_shape(version, {"additionalPrinterColumns": ListShape(older_column)})
    older_conversion = changed_shape(
        conversion,
        {
            "webhookClientConfig": webhook.fields["clientConfig"],
            "conversionReviewVersions": webhook.fields["conversionReviewVersions"],
        },
        drop=("webhook",),
    )
    fields: dict[str, Shape] = {of_all: older_version.fields[field] for field, of_all in _OF_ALL.items()}
    fields |= {
        "version": version.fields["name"],
        "versions": ListShape(older_version),
        "conversion": older_conversion,
    }
    older_spec = changed_shape(spec, fields)
    # False is not the same as none here.
    older_spec.omitted -= {"preserveUnknownFields"}
    return changed_shape(v1, {"spec": older_spec})
