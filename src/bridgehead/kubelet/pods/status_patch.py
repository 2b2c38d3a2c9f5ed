"""The strategic merge patch from one pod status to another.

Pure: no I/O, no clock, no randomness. The status manager sends this patch to the API server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bridgehead.objects.core import PodStatus
from bridgehead.objects.meta import Condition

RESIZE_PENDING, RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
# Conditions that go when what they are about is over.
RESIZE_CONDITIONS = (RESIZE_PENDING, RESIZE_IN_PROGRESS)
ALL_RESTARTING = "AllContainersRestarting"
OWN_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    ALL_RESTARTING,
    *RESIZE_CONDITIONS,
)

# Others own these, but the kubelet adds them where they are missing: of static pods, of pods that it evicts.
ADDED_CONDITIONS = ("PodScheduled", "DisruptionTarget")


def status_patch(old: PodStatus, new: PodStatus) -> dict[str, object]:
    """Return the patch of `status` from `old` to `new`; empty if they are equal."""
    before, after = _to_builtins(old), _to_builtins(new)
    patch: dict[str, object] = {
        key: _without_nulls(after.get(key))
        for key in sorted(before.keys() | after.keys())
        if key != "conditions" and before.get(key) != after.get(key)
    }
    for field in ("podIPs", "hostIPs"):
        if field in patch:
            patch[field] = _addresses_patch(before.get(field, ()), after.get(field, ()))
    conditions = _conditions_patch(old.conditions, new.conditions)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _to_builtins(status: PodStatus) -> dict[str, Any]:
    """Return the fields of a status. As in Kubernetes, an exit code is there also if it is 0."""
    fields: dict[str, Any] = msgspec.to_builtins(status)
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for one in fields.get(kind, ()):
            for state in (one["state"], one["lastState"]):
                if "terminated" in state:
                    state["terminated"].setdefault("exitCode", 0)
    return fields


def _addresses_patch(old: Iterable[dict[str, str]], new: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Return the patch of a list of addresses. Such lists are merged by address, so a removed one must be named."""
    kept = list(new)
    return [*kept, *({"$patch": "delete", **address} for address in old if address not in kept)]


def _conditions_patch(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> list[dict[str, object]]:
    """Return the changed conditions. Conditions are merged by type, so a removed field must be set to null."""
    before = {c.type: msgspec.to_builtins(c) for c in old}
    changed = []
    for condition in new:
        if condition.type not in OWN_CONDITIONS and (
            condition.type in before or condition.type not in ADDED_CONDITIONS
        ):
            continue  # another client's, such as a readiness gate's, which may have a later value by now
        after = msgspec.to_builtins(condition)
        previous = before.get(condition.type, {})
        if after != previous:
            changed.append({**{key: None for key in previous if key not in after}, **after})
    over = before.keys() & set(RESIZE_CONDITIONS) - {condition.type for condition in new}
    return changed + [{"$patch": "delete", "type": name} for name in sorted(over)]


def _without_nulls(value: object) -> object:
    """Drop nulls from a value that is replaced as a whole, where they have no meaning."""
    return _drop_nulls(value) if b"null" in msgspec.json.encode(value) else value  # few have any


def _drop_nulls(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_drop_nulls(v) for v in value]
    if isinstance(value, dict):
        return {k: _drop_nulls(v) for k, v in value.items() if v is not None}
    return value
