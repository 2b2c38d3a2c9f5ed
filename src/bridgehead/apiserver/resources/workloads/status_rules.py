"""Validation of the status of workloads: numbers of pods.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateDeploymentStatusUpdate`, `ValidateReplicaSetStatusUpdate`, `ValidateDaemonSetStatusUpdate`,
`ValidateStatefulSetStatusUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject


def validate_counts(status: Field, counts: tuple[str, ...], parts: tuple[str, ...], ready: str) -> None:
    """Validate that `counts` are not negative and `parts` not more than the replicas.

    `ready` is how the error names the field `readyReplicas`.
    """
    for name in counts:
        status.at(name).must_not_be_negative()
    for part in (status.at(name, 0) for name in parts):
        if part.value > status.get("replicas", 0):
            part.invalid("cannot be greater than status.replicas")
    available = status.at("availableReplicas", 0)
    if available.value > status.get("readyReplicas", 0):
        available.invalid(f"cannot be greater than {ready}")


def validate_collisions(status: Field, before: JsonObject) -> None:
    """Validate that the number of collisions of names has not become smaller."""
    collisions = status.at("collisionCount", 0)
    if collisions.value < before.get("collisionCount", 0):
        collisions.invalid("cannot be decremented")
