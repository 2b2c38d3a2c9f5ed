"""Writes what a controller has to say into the status of a pod. Called by the scheduler and the nodes' controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS
from bridgehead.objects.times import format_time


async def patch_pod_status(client: ApiClient, pod: Pod, status: Mapping[str, Any]) -> None:
    """Merge `status` into the pod's, its conditions by their types.

    Raises ClientError: NotFound when the pod is gone, Conflict when another one of its name is there.
    """
    metadata = pod.metadata
    patch = {"metadata": {"uid": metadata.uid}, "status": status}
    await client.patch(PODS, metadata.name, metadata.namespace, patch, type="strategic", subresource="status")


def disruption(reason: str, message: str, now: float) -> dict[str, str]:
    """The condition that says why the control plane ends a pod."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
