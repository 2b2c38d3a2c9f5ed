"""The controller that binds PersistentVolumeClaims to PersistentVolumes. `binding_plan` decides.

Started by `manager`; watches claims, volumes, StorageClasses and Pods. A binding is written in Kubernetes' order: the
volume's reference, its phase, the claim's volume, its phase. One worker does all, so that no volume is given twice.
Source: Kubernetes `pkg/controller/volume/persistentvolume/pv_controller.go` (v1.36).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import NotFound
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import PODS_BY_CLAIM, Informers, claims_of_pod
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from bridgehead.objects.meta import ObjectKey, ObjectReference
from bridgehead.objects.storage import PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim, StorageClass
from bridgehead.objects.times import format_time

from .binding_plan import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    choose_default_class,
    plan_claim,
    plan_volume,
    refuse_deletion,
)
from .matching import refers_to

_PROVISIONER_ANNOTATIONS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)


class _Item(NamedTuple):
    """A claim, or a volume (namespace "")."""

    is_claim: bool
    key: ObjectKey


class PersistentVolumeBinder:
    """Binds claims. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.get(PERSISTENT_VOLUMES)
        self._classes = informers.get(STORAGE_CLASSES)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_CLAIM, claims_of_pod)
        self._latest_claims = Latest(self._claims)
        self._latest_volumes = Latest(self._volumes)
        self._queue: WorkQueue[_Item] = WorkQueue("persistent volumes")
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(self._class_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        for informer in (self._claims, self._volumes, self._classes, self._pods):
            await informer.wait_synced()
        await self._queue.run(self.reconcile, workers=1)

    # --- Handlers --------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._queue.add(_Item(True, new.key))
        if (changed := new or old) is not None and changed.spec.volume_name:
            self._queue.add(_Item(False, ObjectKey("", changed.spec.volume_name)))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None:
            self._queue.add(_Item(False, new.key))
        if (changed := new or old) is not None and (reference := changed.spec.claim_ref) is not None:
            self._queue.add(_Item(True, ObjectKey(reference.namespace, reference.name)))
        else:
            self._queue_unbound()

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._queue_unbound()

    def _queue_unbound(self) -> None:
        for claim in self._claims.items():
            if claim.status.phase != "Bound":
                self._queue.add(_Item(True, claim.key))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a new pod: their Event names it."""
        if old is None and new is not None and not new.spec.node_name:
            for name in claims_of_pod(new):
                self._queue.add(_Item(True, ObjectKey(*name.split("/", 1))))

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, item: _Item) -> Outcome:
        """Take the next step of a claim or a volume. Raises ClientError."""
        try:
            if item.is_claim:
                await self._sync_claim(item.key)
            else:
                await self._sync_volume(item.key)
        except NotFound:
            pass  # deleted meanwhile, which the informer will show
        return Done()

    async def _sync_claim(self, key: ObjectKey) -> None:
        claim = self._latest_claims.get(key)
        if claim is None:
            return
        volumes = {one.metadata.name: self._latest_volumes.of(one) for one in self._volumes.items()}
        default = choose_default_class(self._classes.items())
        storage_class = self._classes.get(ObjectKey("", claim.class_name))
        step = plan_claim(claim, volumes, storage_class, self._waiting_pods(key), default)
        if step.storage_class:  # the informer's answer brings the claim back
            await self._patch_claim(claim, {"spec": {"storageClassName": step.storage_class}})
            return
        if step.bind_to is not None:
            await self._bind(step.bind_to, claim)
            return
        if step.event is not None:
            event = step.event
            self._recorder.record(claim, type=event.type, reason=event.reason, message=event.message)
        wanted = dict.fromkeys(_PROVISIONER_ANNOTATIONS, step.provisioner)
        if step.provisioner and not wanted.items() <= claim.metadata.annotations.items():
            claim = await self._patch_claim(claim, {"metadata": {"annotations": wanted}})
        if step.phase and claim.status.phase != step.phase:
            lost = {"capacity": None, "accessModes": None} if step.phase == "Lost" else {}
            patch = {"status": {"phase": step.phase, **lost}}
            await self._latest_claims.patch_status(self._client, claim, patch)

    def _waiting_pods(self, claim: ObjectKey) -> list[str]:
        pods = self._pods.by_index(PODS_BY_CLAIM, str(claim))
        return sorted(pod.metadata.name for pod in pods if not pod.spec.node_name and not pod.is_finished)

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Write each part of a binding that is not there yet."""
        meta = claim.metadata
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            reference = ObjectReference(
                kind=PERSISTENT_VOLUME_CLAIMS.name, api_version=PERSISTENT_VOLUME_CLAIMS.api_version,
                namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=meta.resource_version,
            )  # fmt: skip
            patch: dict[str, Any] = {"spec": {"claimRef": msgspec.to_builtins(reference)}}
            if not refers_to(volume, claim):
                patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
            volume = await self._patch_volume(volume, patch)
        await self._set_volume_phase(volume, "Bound")
        annotations = {BIND_COMPLETED: "yes"}
        if not claim.spec.volume_name:
            annotations[BOUND_BY_CONTROLLER] = "yes"
        if claim.spec.volume_name != volume.metadata.name or BIND_COMPLETED not in meta.annotations:
            spec = {"volumeName": volume.metadata.name}
            claim = await self._patch_claim(claim, {"metadata": {"annotations": annotations}, "spec": spec})
        status: dict[str, Any] = {"phase": "Bound", "accessModes": list(volume.spec.access_modes)}
        if not claim.status.capacity:
            # Later changes of the capacity are the resizer's.
            status["capacity"] = dict(volume.spec.capacity)
        now = {"phase": claim.status.phase, "accessModes": list(claim.status.access_modes)}
        if any(now.get(name) != value for name, value in status.items()):
            await self._latest_claims.patch_status(self._client, claim, {"status": status})

    async def _sync_volume(self, key: ObjectKey) -> None:
        volume = self._latest_volumes.get(key)
        if volume is None:
            return
        reference = volume.spec.claim_ref
        claim = None
        if reference is not None:
            claim = self._latest_claims.get(ObjectKey(reference.namespace, reference.name))
            if reference.uid and (claim is None or claim.metadata.uid != reference.uid):
                claim = await self._read_claim(reference)
        step = plan_volume(volume, claim)
        if step.unbind:
            annotations = volume.metadata.annotations
            # A reservation by an administrator stays, without the uid of the claim that did not want the volume.
            kept: dict[str, Any] | None = None if BOUND_BY_CONTROLLER in annotations else {"uid": None}
            patch = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": kept}}
            volume = await self._patch_volume(volume, patch)
            step = plan_volume(volume, None)
        if step.phase:
            volume = await self._set_volume_phase(volume, step.phase)
        if step.reclaim:
            await self._reclaim(volume)

    async def _read_claim(self, reference: ObjectReference) -> PersistentVolumeClaim | None:
        """Read a claim from the API: the informer may not have seen it yet, or only an earlier one of its name.

        Its volume must not be deleted for that.
        """
        try:
            return await self._client.get(PERSISTENT_VOLUME_CLAIMS, reference.name, reference.namespace)
        except NotFound:
            return None

    async def _reclaim(self, volume: PersistentVolume) -> None:
        """Apply the policy of a released volume that has no provisioner. A policy that cannot be applied is a failure.

        The directory of a volume that is deleted stays on its node: the controllers run on no node.
        """
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy == "Retain" or PROVISIONED_BY in volume.metadata.annotations:
            return
        if policy == "Recycle":
            await self._fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
            return
        if refusal := refuse_deletion(volume):
            await self._fail(volume, "VolumeFailedDelete", refusal)
            return
        with contextlib.suppress(NotFound):
            await self._client.delete(PERSISTENT_VOLUMES, volume.metadata.name, uid=volume.metadata.uid)

    async def _fail(self, volume: PersistentVolume, reason: str, message: str) -> None:
        self._recorder.record(volume, type="Warning", reason=reason, message=message)
        await self._set_volume_phase(volume, "Failed", message)

    async def _set_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        moment = format_time(self._clock())
        patch = {"status": {"phase": phase, "message": message or None, "lastPhaseTransitionTime": moment}}
        return await self._latest_volumes.patch_status(self._client, volume, patch)

    async def _patch_volume(self, volume: PersistentVolume, patch: Mapping[str, Any]) -> PersistentVolume:
        """Change a volume if it is still as it was. Raises ClientError: Conflict when it is not."""
        return self._latest_volumes.remember(
            await self._client.patch(PERSISTENT_VOLUMES, volume.metadata.name, "", _guarded(volume, patch))
        )

    async def _patch_claim(self, claim: PersistentVolumeClaim, patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        """Change a claim if it is still as it was. Raises ClientError: Conflict when it is not."""
        meta = claim.metadata
        return self._latest_claims.remember(
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, meta.name, meta.namespace, _guarded(claim, patch))
        )


def _guarded(obj: PersistentVolume | PersistentVolumeClaim, patch: Mapping[str, Any]) -> dict[str, Any]:
    return {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": obj.metadata.resource_version}}
