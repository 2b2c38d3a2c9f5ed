"""Effects of a delete request on an object: removal, or a deletion timestamp.

Most objects are removed at once. An object with finalizers gets a deletion timestamp and stays until the finalizers are
removed; a pod on a node stays until its kubelet has stopped it; a namespace until its controller has emptied it.
Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/registry/rest/delete.go, registry/generic/registry/store.go, core/pod/strategy.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.times import format_time, parse_time

ORPHAN, FOREGROUND, BACKGROUND = "Orphan", "Foreground", "Background"
_POLICY_FINALIZERS = {ORPHAN: "orphan", FOREGROUND: "foregroundDeletion"}
_POLICIES = frozenset(_POLICY_FINALIZERS.values())
_DEFAULT_GRACE_SECONDS = 30
_LATEST = parse_time("9999-12-31T23:59:59Z")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a delete. `policy` is the propagation policy; "": the client leaves it to the server.

    `is_accepted`: the answer is 202, Accepted, if the object is not removed at once.
    """

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    policy: str = ""
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the object from the store."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the object and store it as `obj`; None: nothing changes."""

    obj: JsonObject | None


def plan_delete(resource: Resource, obj: JsonObject, options: DeleteOptions, now: float) -> Remove | Keep:
    """Decide about a delete at `now` (seconds since the epoch). Does not change `obj`."""
    metadata = dict(obj["metadata"])
    marked = {**obj, "metadata": metadata}
    _set_policy_finalizer(metadata, options.policy or _default_policy(resource, metadata))
    # The last second that a time of the API can have: a longer grace period ends with it.
    grace = min(_grace_seconds(resource, obj, options), int(_LATEST - now))
    deleting_since = metadata.get("deletionTimestamp")
    if deleting_since is None:
        resource.strategy.prepare_delete(marked, format_time(now))
        if grace == 0 and not _has_finalizers(marked):
            return Remove()
        metadata["deletionTimestamp"] = format_time(now + grace)
        if resource.id != "namespaces":  # which are not deleted as other objects are
            metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if resource.id == "namespaces":
            marked["status"] = {**obj.get("status", {}), "phase": "Terminating"}
        return Keep(marked)
    return _plan_second_delete(obj, marked, grace, options)


def _plan_second_delete(obj: JsonObject, marked: JsonObject, grace: int, options: DeleteOptions) -> Remove | Keep:
    """Decide about a delete of an object that is already being deleted: it can only shorten the grace period."""
    metadata = marked["metadata"]
    granted = metadata.get("deletionGracePeriodSeconds") or 0
    if granted == 0 or (options.grace_seconds is not None and grace == 0):
        if not _has_finalizers(marked):
            return Remove()
        metadata["deletionGracePeriodSeconds"] = 0
    elif options.grace_seconds is not None and grace < granted:
        begun = parse_time(metadata["deletionTimestamp"]) - granted
        metadata["deletionTimestamp"] = format_time(begun + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    return Keep(marked if marked != obj else None)


def is_finished(obj: JsonObject) -> bool:
    """Whether an object that is being deleted waits for nothing more, so that this update removes it."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or _has_finalizers(obj):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _has_finalizers(obj: JsonObject) -> bool:
    if obj["metadata"].get("finalizers"):
        return True
    return obj.get("kind") == "Namespace" and bool(obj.get("spec", {}).get("finalizers"))


def _default_policy(resource: Resource, metadata: JsonObject) -> str:
    """Return the policy of a delete that has none; "": that of the object's finalizers."""
    has_policy = not _POLICIES.isdisjoint(metadata.get("finalizers") or ())
    return ORPHAN if resource.orphans_dependents and not has_policy else ""


def _set_policy_finalizer(metadata: JsonObject, policy: str) -> None:
    if not policy:
        return
    wanted = _POLICY_FINALIZERS.get(policy)
    finalizers = [f for f in metadata.get("finalizers", ()) if f not in _POLICIES or f == wanted]
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]


def _grace_seconds(resource: Resource, obj: JsonObject, options: DeleteOptions) -> int:
    if resource.id != "pods":
        return 0
    spec = obj.get("spec", {})
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    return 1 if grace < 0 else int(grace)
