"""Evicts pods that use more local storage than their limits allow. Run by the agent; `local_storage` decides.

Only pods with such limits are measured, every ten seconds, as kubelets do. No more than a million entries of a volume
are read, so that a pod with very many files costs a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.runtimes.runtime import Runtime, RuntimeFailure
from bridgehead.network import syscalls
from bridgehead.objects.core import Pod

from .local_storage import StorageUse, describe_excess, is_limited, sized_volumes
from .pod_worker import PodWorker

log = logging.getLogger(__name__)

_MOST_ENTRIES: Final = 1_000_000
_NO_LINKS: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS


class StorageEvictions:
    """`workers` returns the workers of the node's pods."""

    def __init__(
        self,
        settings: NodeSettings,
        runtime: Runtime,
        workers: Callable[[], Iterable[PodWorker]],
        volume_directory: Callable[[str, str], Path],
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._workers = workers
        self._volume_directory = volume_directory

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
        logs = self._settings.log_directory(pod)
        return StorageUse(
            volumes={
                name: measure_directory(self._volume_directory(pod.metadata.uid, name)) for name in sized_volumes(pod)
            },
            containers={name: size + measure_directory(logs / name) for name, size in layers.items()},
        )


def measure_directory(directory: Path, most_entries: int = _MOST_ENTRIES) -> int:
    """Return the bytes that the files below a directory occupy, 0 if there is none. Links are not followed."""
    total = 0
    seen: set[tuple[int, int]] = set()  # files with several names
    for status in itertools.islice(_walk(str(directory)), most_entries):
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        total += status.st_blocks * 512
    return total


def _walk(directory: str) -> Iterator[os.stat_result]:
    """Yield the status of everything below a directory."""
    with contextlib.suppress(OSError):
        top = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            pending = [(".", ".")]  # the path of a parent, which its directories share, and a name in it
            while pending:
                path = "/".join(pending.pop())
                for name, status in _list(top, path):
                    if stat.S_ISDIR(status.st_mode):
                        pending.append((path, name))
                    yield status
        finally:
            os.close(top)


def _list(top: int, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of everything in a directory, nothing for one that is gone. A container may replace a
    directory by a link at any time."""
    with contextlib.suppress(OSError):
        descriptor = syscalls.open_beneath(top, path, os.O_RDONLY | os.O_DIRECTORY, _NO_LINKS)
        try:
            with os.scandir(descriptor) as found:
                for entry in found:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat(follow_symlinks=False)
        finally:
            os.close(descriptor)
