"""Controllers that let deleted claims and volumes go when nothing uses them any more.

The API server gives each claim and volume a finalizer when it is created. Started by `manager`; they watch claims, Pods
and volumes. Source: Kubernetes `pkg/controller/volume/pvcprotection`, `pvprotection` (v1.36).
"""

from __future__ import annotations

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.shared_informers import PODS_BY_CLAIM, Informers, claims_of_pod
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import PersistentVolume, PersistentVolumeClaim

from .finalizers import release
from .volumes_in_use import CLAIM_FINALIZER, VOLUME_FINALIZER, is_bound, is_used


class ClaimProtectionController:
    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_CLAIM, claims_of_pod)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("claim protection")
        self._claims.on_change(self._claim_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._claims.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile, workers=1)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self._queue.add(new.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a pod that has ended."""
        if old is not None and (new is None or new.is_finished):
            for name in claims_of_pod(old):
                self._queue.add(ObjectKey(*name.split("/", 1)))

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Remove the finalizer of a deleted claim that no pod uses. Raises ClientError."""
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is None:
            return Done()
        if not is_used(self._pods.by_index(PODS_BY_CLAIM, str(key))):
            await release(self._client, PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_FINALIZER)
        return Done()


class VolumeProtectionController:
    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._volumes = informers.get(PERSISTENT_VOLUMES)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("volume protection")
        self._volumes.on_change(self._volume_changed)

    async def run(self) -> None:
        await self._volumes.wait_synced()
        await self._queue.run(self.reconcile, workers=1)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self._queue.add(new.key)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Remove the finalizer of a deleted volume that is not bound. Raises ClientError."""
        volume = self._volumes.get(key)
        if volume is not None and volume.metadata.deletion_timestamp is not None and not is_bound(volume):
            await release(self._client, PERSISTENT_VOLUMES, volume, VOLUME_FINALIZER)
        return Done()
