"""The fields of `metadata` that the server sets: uid, timestamps, generation.

Source: apiserver/pkg/registry/rest/create.go, update.go and meta.go; API conventions "Metadata".
"""

from __future__ import annotations

import random

from bridgehead.apiserver.resource import JsonObject, Resource

# The first digits of the fourth part of a UUID: two of their bits are random, the others are variant 2.
_UUID_VARIANT_2 = "89ab"

_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NEVER_KEPT = ("selfLink", "managedFields")


def forget_server_fields(obj: JsonObject) -> None:
    """Drop what the client wrote into the server's fields of a new object, so that nobody owns them."""
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        obj["metadata"].pop(field, None)


def initialize(obj: JsonObject, resource: Resource, namespace: str, now: str) -> None:
    """Set the server's fields in a new object and drop what the client wrote there."""
    metadata = obj["metadata"]
    for field in (*_SERVER_OWNED, *_NEVER_KEPT, "resourceVersion"):
        if field != "generation":  # a kind that does not count generations keeps the client's
            metadata.pop(field, None)
    if resource.namespaced:
        metadata["namespace"] = namespace
    identify(obj, now)
    if resource.has_generation:
        metadata["generation"] = 1


def identify(obj: JsonObject, now: str) -> None:
    """Set uid and creation time."""
    obj["metadata"]["uid"] = random_uuid()
    obj["metadata"]["creationTimestamp"] = now


def random_uuid() -> str:
    """Return a UUID of version 4 (RFC 9562), without the system call and the object of `uuid.uuid4`."""
    digits = random.randbytes(16).hex()
    variant = _UUID_VARIANT_2[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def carry_over(new: JsonObject, old: JsonObject) -> None:
    """Copy the server's fields from `old`: an update can't change them.

    A uid, a deletion time and a grace period that the client invents stay, for validation to reject.
    """
    metadata, before = new["metadata"], old["metadata"]
    for field in ("creationTimestamp", "generation", "name", "namespace", "resourceVersion"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    for field in ("uid", "deletionGracePeriodSeconds"):
        if field in before and metadata.get(field) in (None, ""):
            metadata[field] = before[field]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    for field in _NEVER_KEPT:
        metadata.pop(field, None)


def count_generation(new: JsonObject, old: JsonObject, resource: Resource) -> None:
    # The status of a custom resource without a subresource for it is a field as any other.
    is_status_apart = resource.definition is None or "status" in resource.subresources
    apart = ("metadata", "status") if is_status_apart else ("metadata",)
    if not resource.has_generation:
        return
    meta, before = new["metadata"], old["metadata"]
    if _desired_state(new, apart) != _desired_state(old, apart) or any(
        meta.get(name) != before.get(name) for name in resource.counted_metadata
    ):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _desired_state(obj: JsonObject, apart: tuple[str, ...]) -> JsonObject:
    return {key: value for key, value in obj.items() if key not in apart}
