"""Facts about an object that the store keeps beside it: labels, selectable fields, claims.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.storage import Facts


def facts_of(resource: Resource, obj: JsonObject) -> Facts:
    """Return what selectors and other objects can refer to. `obj` is in its stored form, without nulls."""
    meta = obj["metadata"]
    fields = {"metadata.name": meta["name"]}
    if resource.namespaced:
        fields["metadata.namespace"] = meta["namespace"]
    for field, read in resource.stored.selectable.items():
        fields[field] = read(obj)
    return Facts(meta.get("labels") or {}, fields, resource.strategy.claims(obj))
