"""Creates the claims of pods' generic ephemeral volumes.

A claim has the name POD-VOLUME, and the pod is its owner, so the garbage collector deletes it with the pod. Started by
`manager`; watches Pods and claims. Source: Kubernetes `pkg/controller/volume/ephemeral` (v1.36).
"""

from __future__ import annotations

import contextlib
from typing import Any

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError
from bridgehead.client.workqueue import Done, Outcome, Retry
from bridgehead.controllers.shared_informers import PODS_BY_CLAIM, Informers, claims_of_pod
from bridgehead.objects.core import Pod, Volume
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import PersistentVolumeClaim, describe_foreign_claim


class EphemeralVolumeController:
    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_CLAIM, claims_of_pod)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("ephemeral volumes")
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    async def run(self) -> None:
        await self._pods.wait_synced()
        await self._claims.wait_synced()
        await self._queue.run(self.reconcile, workers=4)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and any(volume.ephemeral is not None for volume in new.spec.volumes):
            self._queue.add(new.key)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """Queue the pods of a deleted claim: those that still need it get a new one."""
        if old is not None and new is None:
            for pod in self._pods.by_index(PODS_BY_CLAIM, str(old.key)):
                self._queue.add(pod.key)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create the missing claims of a pod. Raises ClientError."""
        pod = self._pods.get(key)
        if pod is None or pod.is_terminating:
            return Done()
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and (foreign := await self._ensure_claim(pod, volume)):
                return Retry(foreign)
        return Done()

    async def _ensure_claim(self, pod: Pod, volume: Volume) -> str:
        """Return "", or why the claim that exists is not that of the volume. Raises ClientError."""
        name = volume.claim_name(pod.metadata.name)
        claim = self._claims.get(ObjectKey(pod.metadata.namespace, name))
        if claim is not None:
            return describe_foreign_claim(claim, pod)
        try:
            with contextlib.suppress(AlreadyExists):  # the informer will show it
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(pod, volume), pod.metadata.namespace)
        except ClientError as error:
            message = f"ephemeral volume {volume.name}: create PVC {name}: {error}"
            self._recorder.record(pod, type="Warning", reason="FailedCreate", message=message)
            raise
        return ""


def new_claim(pod: Pod, volume: Volume) -> dict[str, Any]:
    """Return the claim of an ephemeral volume."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else {}
    meta, given = pod.metadata, template.get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": volume.claim_name(meta.name),
            "namespace": meta.namespace,
            **{key: given[key] for key in ("labels", "annotations") if key in given},
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }
