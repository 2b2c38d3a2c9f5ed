"""Registration of the Node and its CSINode, its heartbeats (Lease), and correction of its status.

The kubelet owns the reporter. Source: Kubernetes "Nodes: Node registration, Heartbeats"; docs/decisions/0017-stalls.md
for what happens when other clients change or delete the Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bridgehead.client import ApiClient, EventRecorder, Informer, renew_lease
from bridgehead.client.errors import AlreadyExists, ClientError
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import CSI_NODES, NODES
from bridgehead.objects.meta import ObjectKey, ObjectReference, OwnerReference, version_number

from .machine import machine_info
from .node_status import HEALTHY_CONDITIONS, csi_node_object, is_reported, node_images, node_object, node_status
from .settings import NodeSettings

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
LEASE_PERIOD_SECONDS = 10.0
STATUS_PERIOD_SECONDS = 300.0  # how often an unchanged status is written, for its lastHeartbeatTimes
COMPARE_PERIOD_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.5  # between two corrections: another client may keep changing the Node


class NodeReporter:
    """Call `register` once, then `run`."""

    def __init__(
        self,
        settings: NodeSettings,
        client: ApiClient,
        recorder: EventRecorder,
        capacity: Mapping[str, str],
        list_images: Callable[[], Sequence[ImageRecord]],
        *,
        has_user_namespaces: bool = False,
    ) -> None:
        self._settings = settings
        self._client = client
        self._recorder = recorder
        self._capacity = capacity
        self._list_images = list_images
        self._has_user_namespaces = has_user_namespaces
        self._images: list[dict[str, Any]] = []  # as last written
        self._info = machine_info()
        self._registered_node: Node | None = None
        self._is_new = False  # this kubelet has created the Node, and not the Lease yet
        self._written = Node()  # the Node as the API server returned it after our last write
        self._written_at = float("-inf")  # on the event loop's clock
        self._changed = asyncio.Event()
        self._registered = asyncio.Event()
        self._nodes = Informer(client, NODES, field_selector=f"metadata.name={settings.name}", few=True)
        self._nodes.on_change(lambda _old, _new: self._changed.set())

    def find_node(self) -> Node | None:
        """Return the Node as last observed, None before the registration."""
        return self._nodes.get(ObjectKey("", self._settings.name)) or self._registered_node

    async def register(self) -> None:
        """Create the Node, or take over the existing one. Retries until it succeeds."""
        await self._retry(self._register_once)
        self.record("Starting", "Starting kubelet.")

    def warn_of_limits(self, reason: str) -> None:
        """Record one Event for the node (not one for each pod): limits of containers are not enforced."""
        self.record("LimitsNotEnforced", f"Limits of containers are not enforced on this node: {reason}", "Warning")

    def warn_of_copies(self, reason: str) -> None:
        """Record one Event for the node: root file systems are copies, which take longer and more of the disk."""
        message = f"Root file systems of containers are copies of their images on this node: {reason}"
        self.record("OverlayRefused", message, "Warning")

    async def run(self) -> None:
        """Renew the Lease and correct the Node and its status until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._keep_lease())
            tasks.create_task(self._keep_node())

    async def _keep_lease(self) -> None:
        while True:
            self._registered.clear()
            await self._retry(self._renew_lease)
            # A new Node needs a new Lease at once: the old one is deleted with the old Node.
            await _wait(self._registered, LEASE_PERIOD_SECONDS)

    async def _keep_node(self) -> None:
        # Unconditionally, before the watch begins. The Node as it was registered is as good as another one.
        await self._retry(partial(self._write_status, self._registered_node))
        await self._nodes.wait_synced()
        while True:
            self._changed.clear()
            await self._retry(self._correct)
            await asyncio.sleep(_PAUSE_SECONDS)
            await _wait(self._changed, COMPARE_PERIOD_SECONDS - _PAUSE_SECONDS)

    async def _correct(self) -> None:
        """Register again if the Node is gone; write the status again if it differs or its heartbeat is due."""
        node = self._nodes.get(ObjectKey("", self._settings.name))
        if node is None:
            await self._register_once()
            log.warning("node %s was deleted; registered it again", self._settings.name)
        elif (
            node_images(self._list_images()) == self._images
            and self._written_at + STATUS_PERIOD_SECONDS > _now()
            and (_version(node) < _version(self._written) or is_reported(node.status, self._written.status))
        ):
            return
        await self._write_status()

    async def _register_once(self) -> None:
        name = self._settings.name
        wanted = node_object(self._settings)
        try:
            node = await self._client.create(NODES, wanted)
            self._is_new = True
            log.info("registered node %s", name)
        except AlreadyExists:
            node = await self._client.get(NODES, name)
            changes = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            if not node.spec.pod_cidr:
                changes["spec"] = wanted["spec"]
            node = await self._client.patch(NODES, name, "", changes, type="merge")
        before = self._registered_node
        is_new = before is None or before.metadata.uid != node.metadata.uid
        if is_new:
            await self._register_csi_node(node.metadata.uid)
        self._registered_node = node
        if is_new:
            self._registered.set()

    async def _register_csi_node(self, node_uid: str) -> None:
        """Create the CSINode of the Node with this UID. A CSINode of an earlier Node gets the new owner."""
        wanted = csi_node_object(self._settings.name, node_uid)
        try:
            await self._client.create(CSI_NODES, wanted)
        except AlreadyExists:
            csi_node = await self._client.get(CSI_NODES, self._settings.name)
            if all(owner.uid != node_uid for owner in csi_node.metadata.owner_references):
                await self._client.patch(CSI_NODES, self._settings.name, "", {"metadata": wanted["metadata"]})

    async def _write_status(self, node: Node | None = None) -> None:
        """Write the status. `node`: as it was read just now."""
        name = self._settings.name
        node = node or await self._client.get(NODES, name)
        healthy = {(kind, status) for kind, status, _, _ in HEALTHY_CONDITIONS}
        since = {
            c.type: c.last_transition_time
            for c in node.status.conditions
            if (c.type, c.status) in healthy and c.last_transition_time is not None
        }
        images = node_images(self._list_images())
        status = node_status(
            self._settings,
            self._capacity,
            self._info,
            since,
            time.time(),
            images,
            node.status,
            has_user_namespaces=self._has_user_namespaces,
        )
        # A strategic merge patch merges addresses by type, so two of one type would become one (kubernetes #79391).
        patch = {"status": {**status, "addresses": [*status["addresses"], {"$patch": "replace"}]}}
        self._written = await self._client.patch(NODES, name, "", patch, type="strategic", subresource="status")
        self._written_at = _now()
        self._images = images
        if "Ready" not in since:
            self.record("NodeReady", f"Node {name} status is now: NodeReady")

    async def _renew_lease(self) -> None:
        name = self._settings.name
        uid = self._registered_node.metadata.uid if self._registered_node is not None else ""
        owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
        await renew_lease(
            self._client,
            ObjectKey(LEASE_NAMESPACE, name),
            holder=name,
            duration_seconds=LEASE_SECONDS,
            owner=owner,
            is_new=self._is_new,
        )
        self._is_new = False

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        last = ""
        while True:
            try:
                await work()
                return
            except ClientError as error:
                if str(error) != last:
                    last = str(error)
                    log.warning("node %s: %s; retrying", self._settings.name, last)
            await asyncio.sleep(_RETRY_SECONDS)

    def record(self, reason: str, message: str, type: str = "Normal") -> None:
        """Record an Event about the node."""
        reference = ObjectReference(kind="Node", name=self._settings.name, uid=self._settings.name, api_version="v1")
        self._recorder.record(reference, type=type, reason=reason, message=message)


def _version(node: Node) -> int:
    return version_number(node.metadata.resource_version)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, for `seconds` at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
