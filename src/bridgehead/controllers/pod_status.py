"""Patches of a pod's status. Called by the scheduler and the node controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS
from bridgehead.objects.times import format_time


async def patch_pod_status(client: ApiClient, pod: Pod, status: Mapping[str, Any]) -> None:
    """Merge `status` into the pod's, conditions by type.

    Raises ClientError: NotFound when the pod is gone, Conflict when another pod has its name.
    """
    metadata = pod.metadata
    patch = {"metadata": {"uid": metadata.uid}, "status": status}
    await client.patch(PODS, metadata.name, metadata.namespace, patch, type="strategic", subresource="status")


def disruption(reason: str, message: str, now: float) -> dict[str, str]:
    """Return the condition DisruptionTarget, with the reason why the control plane ends a pod."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
