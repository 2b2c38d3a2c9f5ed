"""Rendering of objects as `Table`, for `kubectl get`, and as `PartialObjectMetadata`.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes API concepts "Receiving resources as Tables"; meta.k8s.io/v1 Table.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.apiserver.bodies.collection import json_document
from bridgehead.apiserver.bodies.nulls import decode_stored
from bridgehead.apiserver.errors import bad_request
from bridgehead.apiserver.http.request_info import Query
from bridgehead.apiserver.resource import JsonObject, Resource

from .stored_forms import served_value

INCLUDE = ("Metadata", "Object", "None")


def parse_include(query: Query) -> str:
    """Return which part of each object a row contains. Raises a 400."""
    value = query.get("includeObject") or "Metadata"
    if value not in INCLUDE:
        raise bad_request(f'unrecognized includeObject value: "{value}"')
    return value


def column_definitions(resource: Resource) -> list[JsonObject]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.columns
    ]


def render_table(
    resource: Resource,
    values: Iterable[bytes],
    meta: JsonObject,
    *,
    version: str,
    include: str,
    now: float,
    with_columns: bool = True,
) -> bytes:
    """Render stored objects as a table. `meta` is the list's metadata. Only a watch's first event has the columns."""
    table = table_head(resource, meta, version=version, with_columns=with_columns)
    rows = (render_row(resource, value, version=version, include=include, now=now) for value in values)
    return b"".join(json_document(table, "rows", rows))


def table_head(resource: Resource, meta: JsonObject, *, version: str, with_columns: bool = True) -> JsonObject:
    """Return a table without rows."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": column_definitions(resource) if with_columns else None,
    }


def render_row(resource: Resource, value: bytes, *, version: str, include: str, now: float) -> bytes:
    obj = decode_stored(resource, value)
    row: JsonObject = {"cells": [column.cell(obj, now) for column in resource.columns], "object": None}
    if include == "Object":
        row["object"] = msgspec.Raw(served_value(resource, value))
    elif include == "Metadata":
        row["object"] = partial(obj, version)
    return msgspec.json.encode(row)


def partial(obj: JsonObject, version: str) -> JsonObject:
    """Return the PartialObjectMetadata of an object; it shares the metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def render_partial(value: bytes, version: str) -> bytes:
    return msgspec.json.encode(partial(msgspec.json.decode(value), version))


def partial_list_head(meta: JsonObject, version: str) -> JsonObject:
    """Return a PartialObjectMetadataList without items."""
    return {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}", "metadata": meta}
