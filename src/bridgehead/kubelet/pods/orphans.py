"""Removal of what is left of pods that were deleted while no kubelet ran.

Called by the kubelet after its first list of pods. Source: kubelet's `HandlePodCleanups`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Collection, Iterable
from pathlib import Path

from bridgehead.kubelet.containers.context import NodeContext
from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, Runtime, RuntimeFailure, SandboxInfo
from bridgehead.kubelet.volumes.volume_manager import remove_pod_directory

log = logging.getLogger(__name__)

_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.1


async def remove_orphaned_directories(root: Path, live: Collection[str], orphans: Collection[str]) -> None:
    """Remove the directories of pods (uids) that do not live; those of `orphans` are removed with their sandbox."""
    for entry in _entries(root / "pods"):
        if entry.name not in live and entry.name not in orphans:
            await asyncio.to_thread(remove_pod_directory, entry)
    for entry in _entries(root / "logs"):
        if entry.name.rpartition("_")[2] not in live:
            await asyncio.to_thread(remove_tree, entry)


async def remove_orphan(node: NodeContext, sandbox: SandboxInfo, found: Iterable[ContainerInfo]) -> bool:
    """Stop the containers `found` in the sandbox, remove it and what the pod had. False if the runtime fails."""
    log.info("pod %s/%s was deleted while no kubelet ran: removing it", sandbox.namespace, sandbox.name)
    try:
        running = {info.id for info in found if info.state == "running"}
        for container_id in running:
            await node.runtime.signal_container(container_id, signal.SIGTERM)
        if running:
            await _wait_exited(node.runtime, running, _GRACE_SECONDS)
        await node.runtime.remove_sandbox(sandbox.pod_uid)
    except RuntimeFailure as error:
        log.warning("pod %s/%s: not removed: %s", sandbox.namespace, sandbox.name, error)
        return False
    node.addresses.release(sandbox.pod_uid)
    await node.volumes.remove(sandbox.pod_uid)
    return True


async def _wait_exited(runtime: Runtime, ids: set[str], seconds: float) -> None:
    """Wait until none of these containers, which no worker follows, runs any more; for `seconds` at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while ids and loop.time() < until:
        await asyncio.sleep(_POLL_SECONDS)
        ids &= {info.id for info in await runtime.list_containers() if info.state == "running"}


def _entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
