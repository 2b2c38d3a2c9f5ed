"""Conditions of a status, and patches that carry only what changed. Pure; called by most controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bridgehead.objects.meta import Condition, Part

# What a replica set says when it can't make or delete its pods, and its Deployment says after it.
REPLICA_FAILURE: Final = "ReplicaFailure"


def find_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type), None)


def without_condition(conditions: Sequence[Condition], type: str) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type != type)


def with_condition(conditions: Sequence[Condition], wanted: Condition) -> tuple[Condition, ...]:
    """`conditions` with `wanted` in place of the one of its type.

    One that already has the wanted status and reason stays as it is (its message and times too), and
    `lastTransitionTime` only moves when the status does: both as Kubernetes' controllers do it.
    """
    current = find_condition(conditions, wanted.type)
    if current is not None and current.status == wanted.status:
        if current.reason == wanted.reason:
            return tuple(conditions)
        wanted = msgspec.structs.replace(wanted, last_transition_time=current.last_transition_time)
    return (*without_condition(conditions, wanted.type), wanted)


def status_patch(current: Part, wanted: Part, always: Sequence[str] = ()) -> dict[str, Any] | None:
    """The merge patch of `status` that makes `current` into `wanted`; None when they are equal.

    Fields that became empty are removed. `always` names numeric fields that the API shows even when they are zero.
    """
    if current == wanted:
        return None
    before: dict[str, Any] = msgspec.to_builtins(current)
    after: dict[str, Any] = msgspec.to_builtins(wanted)
    patch = {key: value for key, value in after.items() if before.get(key) != value}
    patch.update({key: None for key in before if key not in after})
    for key in always:
        patch[key] = after.get(key, 0)
    return patch
