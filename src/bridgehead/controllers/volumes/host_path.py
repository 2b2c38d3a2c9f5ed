"""The provisioner `bridgehead.io/host-path`: volumes that are directories of nodes.

Started by `manager`; watches claims, volumes, StorageClasses, Nodes and Pods. The kubelet makes a directory when a pod
first uses it. A pod on the node deletes it, as only there it is in reach; the directory of a node that does not exist
any more is not deleted. `host_path_plan` decides. Events are those of sig-storage-lib-external-provisioner.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim

from .finalizers import release
from .host_path_plan import (
    CLEANER_NAMESPACE,
    DIRECTORY_FINALIZER,
    HOST_NAME,
    VOLUME_LABEL,
    choose_node,
    cleaner_name,
    cleaner_pod,
    is_to_delete,
    is_to_release,
    new_volume,
    node_of,
    refusal,
    volume_name,
    wants_expansion,
    wants_volume,
)

# Seconds until a claim without a possible node is tried again, and the deletion of a directory that has failed.
_NODE_WAIT = 15.0
_CLEANER_WAIT = 15.0


class _Item(NamedTuple):
    is_claim: bool
    key: ObjectKey


class HostPathProvisioner:
    """`cleaner_wait`: seconds until the deletion of a directory is tried again."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        cleaner_wait: float = _CLEANER_WAIT,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._cleaner_wait = cleaner_wait
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.get(PERSISTENT_VOLUMES)
        self._classes = informers.get(STORAGE_CLASSES)
        self._nodes = informers.get(NODES)
        self._pods = informers.get(PODS)
        self._queue: WorkQueue[_Item] = WorkQueue("host paths")
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._claims.wait_synced()
        await self._volumes.wait_synced()
        await self._classes.wait_synced()
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile, workers=4)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._queue.add(_Item(True, new.key))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if (changed := new or old) is not None:
            self._queue.add(_Item(False, changed.key))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the volume whose directory the pod deletes."""
        pod = new or old
        if pod is None or (name := pod.metadata.labels.get(VOLUME_LABEL)) is None:
            return
        item = _Item(False, ObjectKey("", name))
        if new is None:  # after one that has failed; the reason is seldom gone at once
            self._queue.add_after(item, self._cleaner_wait)
        else:
            self._queue.add(item)

    async def reconcile(self, item: _Item) -> Outcome:
        """Provision or expand the volume of a claim, or delete a released one. Raises ClientError."""
        if item.is_claim:
            return await self._sync_claim(item.key)
        await self._sync_volume(item.key)
        return Done()

    # --- Claims -----------------------------------------------------------------------------------------

    async def _sync_claim(self, key: ObjectKey) -> Outcome:
        claim = self._claims.get(key)
        if claim is None:
            return Done()
        volume = self._volumes.get(ObjectKey("", claim.spec.volume_name))
        if volume is not None and wants_expansion(claim, volume):
            await self._expand(claim, volume)
            return Done()
        storage_class = self._classes.get(ObjectKey("", claim.class_name))
        if storage_class is None or not wants_volume(claim, storage_class):
            return Done()
        if self._volumes.get(ObjectKey("", volume_name(claim))) is not None:
            return Done()
        failed = f'failed to provision volume with StorageClass "{claim.class_name}"'
        if reason := refusal(claim):
            self._record(claim, "Warning", "ProvisioningFailed", f"{failed}: {reason}")
            return Done()
        message = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self._record(claim, "Normal", "Provisioning", message)
        chosen = choose_node(claim, storage_class, self._nodes.items(), self._volumes.items())
        node = self._nodes.get(ObjectKey("", chosen))
        if node is None:
            self._record(claim, "Warning", "ProvisioningFailed", f"{failed}: no node for the volume")
            await self._reschedule(claim)
            return Requeue(_NODE_WAIT)
        body = new_volume(claim, storage_class, node.metadata.labels.get(HOST_NAME, node.metadata.name))
        try:
            await self._client.create(PERSISTENT_VOLUMES, body)
        except AlreadyExists:
            return Done()
        except ClientError as error:
            self._record(claim, "Warning", "ProvisioningFailed", f"{failed}: {error}")
            raise
        message = f"Successfully provisioned volume {volume_name(claim)}"
        self._record(claim, "Normal", "ProvisioningSucceeded", message)
        return Done()

    async def _reschedule(self, claim: PersistentVolumeClaim) -> None:
        """Ask the scheduler for another node: the chosen one does not exist any more."""
        if SELECTED_NODE in claim.metadata.annotations:
            patch: dict[str, Any] = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            with contextlib.suppress(NotFound):
                await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim.key.name, claim.key.namespace, patch)

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Write the new size to the volume and to the claim's status: a directory has no size of its own."""
        name, size = volume.metadata.name, {"storage": claim.size}
        self._record(claim, "Normal", "Resizing", f"External resizer is resizing volume {name}")
        await self._client.patch(PERSISTENT_VOLUMES, name, "", {"spec": {"capacity": size}})
        status = {"status": {"capacity": size}}
        meta = claim.metadata
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, meta.name, meta.namespace, status, subresource="status")
        self._record(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    def _record(self, claim: PersistentVolumeClaim, kind: str, reason: str, message: str) -> None:
        self._recorder.record(claim, type=kind, reason=reason, message=message)

    # --- Volumes ----------------------------------------------------------------------------------------

    async def _sync_volume(self, key: ObjectKey) -> None:
        cleaner = self._pods.get(ObjectKey(CLEANER_NAMESPACE, cleaner_name(key.name)))
        volume = self._volumes.get(key)
        if volume is None or not is_to_delete(volume):
            if cleaner is not None:
                await self._delete_cleaner(cleaner)
            if volume is not None and is_to_release(volume):
                await release(self._client, PERSISTENT_VOLUMES, volume, DIRECTORY_FINALIZER)
            return
        node = self._node_with(node_of(volume))
        if node is None or (cleaner is not None and cleaner.status.phase == "Succeeded"):
            await release(self._client, PERSISTENT_VOLUMES, volume, DIRECTORY_FINALIZER)
            if volume.metadata.deletion_timestamp is None:
                with contextlib.suppress(NotFound):
                    await self._client.delete(PERSISTENT_VOLUMES, key.name, uid=volume.metadata.uid)
        elif cleaner is None:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(PODS, cleaner_pod(volume, node.metadata.name))
        elif cleaner.status.phase == "Failed":
            message = f"failed to delete the directory: {cleaner.status.message or cleaner.status.reason}"
            self._recorder.record(volume, type="Warning", reason="VolumeFailedDelete", message=message)
            await self._delete_cleaner(cleaner)

    def _node_with(self, host_name: str) -> Node | None:
        found = (one for one in self._nodes.items() if one.metadata.labels.get(HOST_NAME) == host_name)
        return next(found, None)

    async def _delete_cleaner(self, pod: Pod) -> None:
        if not pod.is_terminating:
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
