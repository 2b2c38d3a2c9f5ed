"""This node as an object of the API: registered, kept alive by a Lease, its status kept true.

`node_object`, `node_status` and `is_reported` are pure; `NodeReporter` talks to the API server. Belongs to the agent.
Source: Kubernetes "Nodes: Node registration, Heartbeats"; docs/decisions/0017 for what is done when others change or
delete the Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bridgehead import GIT_VERSION, __version__, architecture
from bridgehead.client import ApiClient, EventRecorder, Informer, renew_lease
from bridgehead.client.errors import AlreadyExists, ClientError
from bridgehead.objects.core import Node, NodeStatus
from bridgehead.objects.kinds import NODES
from bridgehead.objects.meta import ObjectKey, ObjectReference, OwnerReference, version_number
from bridgehead.objects.times import format_time

from .parts import NodeSettings

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
LEASE_PERIOD_SECONDS = 10.0
STATUS_PERIOD_SECONDS = 300.0  # how often the status is written if it says what it should, for its heartbeats
COMPARE_PERIOD_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.5  # between two corrections: others may insist

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


def is_reported(status: NodeStatus, written: NodeStatus) -> bool:
    """Whether `status` still says what was `written`, times aside. Conditions of other types are others' business."""
    return _essence(status) == _essence(written)


def _essence(status: NodeStatus) -> tuple[object, ...]:
    own = {kind for kind, _, _, _ in _HEALTHY_CONDITIONS}
    conditions = {c.type: (c.status, c.reason, c.message) for c in status.conditions if c.type in own}
    return (
        conditions,
        status.addresses,
        status.capacity,
        status.allocatable,
        status.daemon_endpoints,
        status.node_info,
    )


class NodeReporter:
    """`register`, then `run`."""

    def __init__(
        self, settings: NodeSettings, client: ApiClient, recorder: EventRecorder, capacity: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._client = client
        self._recorder = recorder
        self._capacity = capacity
        self._info = machine_info()
        self._uid = ""
        self._written = Node()  # what the API server made of our status
        self._written_at = float("-inf")  # on the event loop's clock
        self._changed = asyncio.Event()
        self._registered = asyncio.Event()
        self._nodes = Informer(client, NODES, field_selector=f"metadata.name={settings.name}")
        self._nodes.on_change(lambda _old, _new: self._changed.set())

    async def register(self) -> None:
        """Create the Node, or take over the one that is there. Tries until the API server lets it."""
        await self._until_done(self._register_once)
        self._record("Starting", "Starting kubelet.")

    def warn_of_limits(self, reason: str) -> None:
        """Record once for the node, not for each of its pods, that containers get more than their limits."""
        self._record("LimitsNotEnforced", f"Limits of containers are not enforced on this node: {reason}", "Warning")

    async def run(self) -> None:
        """Keep the Lease, the Node and its status until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._keep_lease())
            tasks.create_task(self._keep_node())

    async def _keep_lease(self) -> None:
        while True:
            self._registered.clear()
            await self._until_done(self._renew_lease)
            await _wait(self._registered, LEASE_PERIOD_SECONDS)  # another Node's Lease goes with it

    async def _keep_node(self) -> None:
        await self._until_done(self._write_status)  # whatever is there, and before it is watched
        await self._nodes.wait_synced()
        while True:
            self._changed.clear()
            await self._until_done(self._correct)
            await asyncio.sleep(_PAUSE_SECONDS)
            await _wait(self._changed, COMPARE_PERIOD_SECONDS - _PAUSE_SECONDS)

    async def _correct(self) -> None:
        """Register and write the status again if the Node is gone or says something else."""
        node = self._nodes.get(ObjectKey("", self._settings.name))
        if node is None:
            await self._register_once()
            log.warning("the Node %s was deleted; registered it again", self._settings.name)
        elif self._written_at + STATUS_PERIOD_SECONDS > _now() and (
            _version(node) < _version(self._written) or is_reported(node.status, self._written.status)
        ):
            return
        await self._write_status()

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
        if self._uid != node.metadata.uid:
            self._uid = node.metadata.uid
            self._registered.set()

    async def _write_status(self) -> None:
        name = self._settings.name
        node = await self._client.get(NODES, name)
        healthy = {(kind, status) for kind, status, _, _ in _HEALTHY_CONDITIONS}
        since = {
            c.type: c.last_transition_time
            for c in node.status.conditions
            if (c.type, c.status) in healthy and c.last_transition_time is not None
        }
        status = node_status(self._settings, self._capacity, self._info, since, time.time())
        # Addresses are merged by their type, by mistake: two of one type would become one (kubernetes #79391).
        patch = {"status": {**status, "addresses": [*status["addresses"], {"$patch": "replace"}]}}
        self._written = await self._client.patch(NODES, name, "", patch, type="strategic", subresource="status")
        self._written_at = _now()
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


def _version(node: Node) -> int:
    return version_number(node.metadata.resource_version)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until it is set, for so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
