"""Evicts pods that use more local storage than their limits allow. Run by the kubelet; `local_storage` decides.

Only pods with such limits are measured, every ten seconds, as kubelets do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from bridgehead.kubelet.directory_use import measure_copies, measure_directory
from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.runtimes.runtime import Runtime, RuntimeFailure
from bridgehead.objects.core import Pod

from .local_storage import StorageUse, describe_excess, is_limited, sized_volumes
from .pod_worker import PodWorker

log = logging.getLogger(__name__)


class StorageEvictions:
    """`workers` returns the workers of the node's pods."""

    def __init__(
        self,
        settings: NodeSettings,
        runtime: Runtime,
        workers: Callable[[], Iterable[PodWorker]],
        volume_directory: Callable[[str, str], Path],
        run_directories: Callable[[str, str], Path],
    ) -> None:
        """`volume_directory` of a pod's uid and a volume's name; `run_directories` of a uid and a container's name."""
        self._settings = settings
        self._runtime = runtime
        self._workers = workers
        self._volume_directory = volume_directory
        self._run_directories = run_directories

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.eviction_period)
            for worker in [each for each in self._workers() if each.sandbox is not None and is_limited(each.pod)]:
                try:
                    excess = describe_excess(worker.pod, await self._measure(worker.pod))
                except RuntimeFailure as error:
                    log.debug("pod %s: storage not measured: %s", worker.pod.key, error)
                    continue
                if excess:
                    worker.evict(excess)

    async def _measure(self, pod: Pod) -> StorageUse:
        """Raises `RuntimeFailure`."""
        uid = pod.metadata.uid
        layers = await self._runtime.measure_layers(uid)
        return await asyncio.to_thread(self._measure_files, pod, layers)

    def _measure_files(self, pod: Pod, layers: dict[str, int]) -> StorageUse:
        logs, uid = self._settings.log_directory(pod), pod.metadata.uid
        return StorageUse(
            volumes={name: measure_directory(self._volume_directory(uid, name)) for name in sized_volumes(pod)},
            containers={
                name: size + measure_directory(logs / name) + measure_copies(self._run_directories(uid, name))
                for name, size in layers.items()
            },
        )
