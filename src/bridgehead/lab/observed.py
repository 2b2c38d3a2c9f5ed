"""The objects of a cluster by which `system` judges how far a lab's start is. Watches keep them up to date."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import LEASES, NODES, PODS


class ObservedCluster:
    """Nodes, their Leases and the system pods, while `run` runs."""

    def __init__(self, client: ApiClient) -> None:
        self.nodes = Informer(client, NODES)
        self.node_leases = Informer(client, LEASES, "kube-node-lease")
        self.pods = Informer(client, PODS, "kube-system")
        self.is_synced = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        informers: tuple[Informer[Any], ...] = (self.nodes, self.node_leases, self.pods)
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.wait_synced()
                informer.on_change(lambda _old, _new: self._changed.set())
            self.is_synced = True
            self._changed.set()

    def pods_of(self, app: str) -> list[Pod]:
        """Return the system pods with this label `k8s-app`."""
        return [pod for pod in self.pods.items() if pod.metadata.labels.get("k8s-app") == app]

    async def wait_changed(self, seconds: float) -> None:
        """Wait until an object has changed since the last call, for `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
