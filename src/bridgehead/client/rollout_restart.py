"""The restart of a workload's pods, as by `kubectl rollout restart`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from bridgehead.objects.kinds import Kind

from .api import ApiClient

_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"


async def restart(client: ApiClient, kind: Kind[Any], name: str, namespace: str) -> None:
    """Have a Deployment, StatefulSet or DaemonSet replace its pods. Raises ClientError."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")  # a second restart in the same second is one, too
    template = {"metadata": {"annotations": {_RESTARTED: now}}}
    await client.patch(kind, name, namespace, {"spec": {"template": template}})
