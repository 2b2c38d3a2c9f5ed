"""Validation of the status of workloads: numbers of pods.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateDeploymentStatusUpdate`, `ValidateReplicaSetStatusUpdate`, `ValidateDaemonSetStatusUpdate`,
`ValidateStatefulSetStatusUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

_COLLISIONS = "collisionCount"


def validate_counts(
    status: JsonObject, counts: tuple[str, ...], parts: tuple[str, ...], ready: str
) -> list[FieldError]:
    """Return errors unless `counts` are not negative and `parts` not more than the replicas.

    `ready` is how the error names the field `readyReplicas`.
    """
    errors = [error for name in counts for error in field.non_negative(f"status.{name}", status.get(name, 0))]
    errors.extend(
        field.invalid(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas")
        for name in parts
        if status.get(name, 0) > status.get("replicas", 0)
    )
    if (available := status.get("availableReplicas", 0)) > status.get("readyReplicas", 0):
        errors.append(field.invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))
    return errors


def validate_collisions(status: JsonObject, before: JsonObject) -> list[FieldError]:
    """Return an error if the number of collisions of names has become smaller."""
    collisions = status.get(_COLLISIONS, 0)
    if collisions >= before.get(_COLLISIONS, 0):
        return []
    return [field.invalid(f"status.{_COLLISIONS}", collisions, "cannot be decremented")]
