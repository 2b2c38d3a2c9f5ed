"""Duplicate owner references: the API server stores each once, and warns.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/endpoints/handlers/rest.go (dedupOwnerReferencesAndAddWarning).
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.resource import JsonObject

_FIELD = "ownerReferences"
_BEFORE = ""
_AFTER = " after mutating admission happens"
_WARNING = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


def with_unique_owners(obj: JsonObject, warnings: list[str], *, is_admitted: bool = False) -> JsonObject:
    """Return the object without duplicate owner references; add a warning about them.

    `is_admitted`: admission may have changed the object.
    """
    owners = (obj.get("metadata") or {}).get(_FIELD) or ()
    if len(owners) < 2:
        return obj
    # Owners are compared by their encoding: to compare each with all others would take minutes for as many as fit into
    # a request.
    unique: dict[bytes, JsonObject] = {}
    duplicates: list[str] = []
    for owner in owners:
        key = msgspec.json.encode(owner, order="sorted")
        if key in unique:
            duplicates.append(owner.get("uid", ""))
        else:
            unique[key] = owner
    if not duplicates:
        return obj
    warning = _WARNING.format(when=_AFTER if is_admitted else _BEFORE, uids=", ".join(duplicates))
    if warning not in warnings:
        warnings.append(warning)
    return {**obj, "metadata": {**obj["metadata"], _FIELD: [*unique.values()]}}
