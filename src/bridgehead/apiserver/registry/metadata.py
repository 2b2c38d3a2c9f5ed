"""The part of an object's metadata that the server owns (no I/O).

Source: apiserver/pkg/registry/rest/create.go, update.go and meta.go; API conventions "Metadata".
"""

from __future__ import annotations

import random
import uuid

from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.times import format_time

# Lower-case letters and digits without vowels and look-alikes (apimachinery/pkg/util/rand).
_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_LENGTH = 5
_MAX_GENERATED_BASE = 63 - _GENERATED_LENGTH

_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NEVER_KEPT = ("selfLink", "managedFields")

# Kinds whose `metadata.generation` counts changes of what their owner wishes.
_WITH_GENERATION = frozenset(
    {"pods", "deployments.apps", "replicasets.apps", "daemonsets.apps", "endpointslices.discovery.k8s.io"}
)


def random_suffix() -> str:
    return "".join(random.choices(_NAME_ALPHABET, k=_GENERATED_LENGTH))


def generate_name(base: str) -> str:
    return base[:_MAX_GENERATED_BASE] + random_suffix()


def initialize(obj: JsonObject, resource: Resource, namespace: str, now: float) -> None:
    """What a new object gets, whatever its creator wrote."""
    metadata = obj["metadata"]
    for field in (*_SERVER_OWNED, *_NEVER_KEPT, "resourceVersion"):
        metadata.pop(field, None)
    if resource.namespaced:
        metadata["namespace"] = namespace
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = format_time(now)
    if resource.id in _WITH_GENERATION:
        metadata["generation"] = 1


def carry_over(new: JsonObject, old: JsonObject) -> None:
    """An update can't change what the server owns."""
    metadata, before = new["metadata"], old["metadata"]
    for field in (*_SERVER_OWNED, "name", "namespace", "generateName", "resourceVersion"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    for field in _NEVER_KEPT:
        metadata.pop(field, None)


def count_generation(new: JsonObject, old: JsonObject, resource: Resource) -> None:
    if resource.id in _WITH_GENERATION and _wish(new) != _wish(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _wish(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
