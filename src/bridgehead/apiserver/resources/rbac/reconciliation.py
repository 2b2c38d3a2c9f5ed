"""Changes that make an existing role or binding include a default one. Permissions and subjects that a user added stay.

An object with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` is left as it is.
Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/registry/rbac/reconciliation.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.resource import JsonObject

from .covering import find_missing
from .defaults.notation import AUTO_UPDATE
from .rules import Rule


def is_protected(existing: JsonObject) -> bool:
    return bool((existing["metadata"].get("annotations") or {}).get(AUTO_UPDATE) == "false")


def needs_recreation(existing: JsonObject, expected: JsonObject) -> bool:
    """Whether a binding refers to another role: it cannot be changed."""
    return bool(existing.get("roleRef") != expected.get("roleRef"))


def reconciled(existing: JsonObject, expected: JsonObject) -> JsonObject:
    """Return `existing` with what it lacks of `expected`; equal to `existing` if it lacks nothing."""
    metadata = dict(existing["metadata"])
    for key in ("annotations", "labels"):
        # Values that a user has set stay.
        metadata[key] = {**expected["metadata"].get(key, {}), **metadata.get(key, {})}
    new = {**existing, "metadata": metadata}
    if expected.get("rules") and existing.get("rules") != expected["rules"]:
        held, wanted = (msgspec.convert(one.get("rules", ()), tuple[Rule, ...]) for one in (existing, expected))
        missing = msgspec.json.decode(msgspec.json.encode(find_missing(held, wanted)))
        new["rules"] = [*existing.get("rules", ()), *missing]
    subjects = existing.get("subjects", [])
    lacking = [subject for subject in expected.get("subjects", ()) if subject not in subjects]
    if lacking:
        new["subjects"] = [*subjects, *lacking]
    return new
