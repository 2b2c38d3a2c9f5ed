"""Admission by the namespace: it must exist and must not be terminating; the system's namespaces stay.

Source: apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.errors import forbidden, not_found_named
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key, Store

from .attributes import CREATE, DELETE, Attributes, shown_name
from .chain import Plugin

UNDELETABLE_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    """The plug-in NamespaceLifecycle."""

    is_static = True
    changes = False

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation == CREATE:
            return attributes.resource.namespaced
        return attributes.operation == DELETE and attributes.resource.id == "namespaces"

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        if attributes.operation == DELETE:
            if attributes.name in UNDELETABLE_NAMESPACES:
                raise forbidden(attributes.resource, attributes.name, "this namespace may not be deleted")
        else:
            check_namespace(self._store, attributes, obj)
        return obj


def check_namespace(store: Store, attributes: Attributes, obj: JsonObject) -> None:
    """Raise a 404 for a namespace that does not exist, a 403 for one that is being deleted."""
    namespace = attributes.namespace
    record = store.get(Key("namespaces", "", namespace))
    if record is None:
        raise not_found_named("namespaces", "", namespace)
    # `status.phase` is among the facts, but only the deletion timestamp is authoritative.
    if b'"deletionTimestamp"' in record.value and "deletionTimestamp" in msgspec.json.decode(record.value)["metadata"]:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(attributes.resource, attributes.name or shown_name(obj), why, [cause])
