"""This node as an object of the API: registered at start, kept alive by a Lease, its status kept true.

`node_object` and `node_status` are pure; `NodeReporter` talks to the API server. Belongs to the agent. Source:
Kubernetes "Nodes: Node registration, Heartbeats".
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bridgehead import GIT_VERSION, __version__, architecture
from bridgehead.client import ApiClient, EventRecorder, renew_lease
from bridgehead.client.errors import AlreadyExists, ClientError
from bridgehead.objects.kinds import NODES
from bridgehead.objects.meta import ObjectKey, ObjectReference, OwnerReference
from bridgehead.objects.times import format_time

from .parts import NodeSettings

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
LEASE_PERIOD_SECONDS = 10.0
STATUS_PERIOD_SECONDS = 300.0
_RETRY_SECONDS = 1.0

_HEALTHY_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def machine_capacity(root: Path, max_pods: int) -> dict[str, str]:
    """What this machine has. Nodes of one machine each show all of it: they share it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{shutil.disk_usage(root).total // 1024}Ki",
        "pods": str(max_pods),
    }


def machine_info() -> dict[str, str]:
    """The Node's `nodeInfo`."""
    return {
        "architecture": architecture(),
        "bootID": _read_line("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"bridgehead://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": GIT_VERSION,
        "machineID": _read_line("/etc/machine-id"),
        "operatingSystem": "linux",
        "osImage": _os_image(),
        "systemUUID": "",
    }


def kernel_has_app_armor() -> bool:
    return _read_line("/sys/module/apparmor/parameters/enabled") == "Y"


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def node_labels(settings: NodeSettings) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/hostname": settings.name,
        "kubernetes.io/os": "linux",
        **settings.labels,
    }


def node_object(settings: NodeSettings) -> dict[str, Any]:
    """The Node to create."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": settings.name, "labels": node_labels(settings)},
        "spec": {"podCIDR": settings.pod_cidrs[0], "podCIDRs": list(settings.pod_cidrs)},
    }


def node_status(
    settings: NodeSettings, capacity: Mapping[str, str], info: Mapping[str, str], since: Mapping[str, str], now: float
) -> dict[str, Any]:
    """The Node's status; `since` is when each condition became what it is, by type."""
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": format_time(now),
            "lastTransitionTime": since.get(kind, format_time(now)),
        }
        for kind, status, reason, message in _HEALTHY_CONDITIONS
    ]
    return {
        "addresses": [
            *({"type": "InternalIP", "address": ip} for ip in settings.ips),
            {"type": "Hostname", "address": settings.name},
        ],
        "allocatable": dict(capacity),
        "capacity": dict(capacity),
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "nodeInfo": dict(info),
    }


class NodeReporter:
    def __init__(
        self, settings: NodeSettings, client: ApiClient, recorder: EventRecorder, capacity: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._client = client
        self._recorder = recorder
        self._capacity = capacity
        self._info = machine_info()
        self._uid = ""

    async def register(self) -> None:
        """Create the Node, or take over the one that is there. Tries until the API server lets it."""
        await self._until_done(self._register_once)

    def warn_of_limits(self, reason: str) -> None:
        """Record once for the node, not for each of its pods, that containers get more than their limits."""
        self._record("LimitsNotEnforced", f"Limits of containers are not enforced on this node: {reason}", "Warning")

    async def run(self) -> None:
        """Renew the Lease and the status until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(LEASE_PERIOD_SECONDS, self._renew_lease))
            tasks.create_task(self._every(STATUS_PERIOD_SECONDS, self._write_status))

    async def _register_once(self) -> None:
        name = self._settings.name
        wanted = node_object(self._settings)
        try:
            node = await self._client.create(NODES, wanted)
            log.info("registered node %s", name)
        except AlreadyExists:
            node = await self._client.get(NODES, name)
            changes = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            if not node.spec.pod_cidr:
                changes["spec"] = wanted["spec"]
            node = await self._client.patch(NODES, name, "", changes, type="merge")
        self._uid = node.metadata.uid
        self._record("Starting", "Starting kubelet.")

    async def _write_status(self) -> None:
        name = self._settings.name
        node = await self._client.get(NODES, name)
        healthy = {(kind, status) for kind, status, _, _ in _HEALTHY_CONDITIONS}
        since = {
            c.type: c.last_transition_time
            for c in node.status.conditions
            if (c.type, c.status) in healthy and c.last_transition_time is not None
        }
        now = time.time()
        status = node_status(self._settings, self._capacity, self._info, since, now)
        # Addresses are merged by their type, by mistake: two of one type would become one (kubernetes #79391).
        patch = {"status": {**status, "addresses": [*status["addresses"], {"$patch": "replace"}]}}
        await self._client.patch(NODES, name, "", patch, type="strategic", subresource="status")
        if "Ready" not in since:
            self._record("NodeReady", f"Node {name} status is now: NodeReady")

    async def _renew_lease(self) -> None:
        name = self._settings.name
        owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=self._uid)
        await renew_lease(
            self._client,
            ObjectKey(LEASE_NAMESPACE, name),
            holder=name,
            duration_seconds=LEASE_SECONDS,
            owner=owner,
        )

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._until_done(work)
            await asyncio.sleep(seconds)

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        last = ""
        while True:
            try:
                await work()
                return
            except ClientError as error:
                if str(error) != last:
                    last = str(error)
                    log.warning("node %s: %s; trying again", self._settings.name, last)
            await asyncio.sleep(_RETRY_SECONDS)

    def _record(self, reason: str, message: str, type: str = "Normal") -> None:
        reference = ObjectReference(kind="Node", name=self._settings.name, uid=self._settings.name, api_version="v1")
        self._recorder.record(reference, type=type, reason=reason, message=message)
