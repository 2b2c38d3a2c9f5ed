"""Conditions of a status, and patches with only the changed fields. Called by most controllers.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.objects.meta import Condition, Part, find_condition

# Condition of a ReplicaSet that cannot create or delete its pods, and of its Deployment.
REPLICA_FAILURE: Final = "ReplicaFailure"


def without_condition(conditions: Sequence[Condition], type: str) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type != type)


def with_condition(conditions: Sequence[Condition], wanted: Condition) -> tuple[Condition, ...]:
    """Return `conditions` with `wanted` in place of the one of its type.

    As in Kubernetes' controllers, a condition with the wanted status and reason keeps its message and times, and
    `lastTransitionTime` changes only with the status.
    """
    current = find_condition(conditions, wanted.type)
    if current is not None and current.status == wanted.status:
        if current.reason == wanted.reason:
            return tuple(conditions)
        wanted = msgspec.structs.replace(wanted, last_transition_time=current.last_transition_time)
    return (*without_condition(conditions, wanted.type), wanted)


def status_patch(current: Part, wanted: Part, always: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the merge patch of `status` from `current` to `wanted`; None when they are equal.

    Fields that became empty are removed. `always` names numeric fields that the API shows even when zero.
    """
    if current == wanted:
        return None
    before: dict[str, Any] = msgspec.to_builtins(current)
    after: dict[str, Any] = msgspec.to_builtins(wanted)
    patch = _merge_patch(before, after)
    for key in always:
        patch[key] = after.get(key, 0)
    return patch


def _merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch between two objects. Objects in them are merged, too, so a patch of one is a patch."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if changes := _merge_patch(old, value):
                patch[key] = changes
        elif key not in before or old != value:
            patch[key] = value
    return patch
