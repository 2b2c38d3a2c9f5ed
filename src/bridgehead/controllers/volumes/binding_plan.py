"""The next step for a PersistentVolumeClaim or a PersistentVolume. Called by `binder`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/volume/persistentvolume` (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.objects.storage import (
    PROVISIONED_BY,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

from .matching import AVAILABLE, find_volume, mismatch, refers_to

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PENDING, _LOST = "Pending", "Lost"


@dataclass(frozen=True)
class Message:
    """An Event about a claim or a volume. `type`: Normal or Warning."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class ClaimStep:
    """`bind_to`: the volume that the claim gets. `provisioner`: who is asked to make one. `phase`: "" to leave it."""

    bind_to: PersistentVolume | None = None
    phase: str = ""
    event: Message | None = None
    provisioner: str = ""


@dataclass(frozen=True)
class VolumeStep:
    """`phase`: "" to leave it. `unbind`: take the reference to a claim away. `reclaim`: apply the reclaim policy."""

    phase: str = ""
    unbind: bool = False
    reclaim: bool = False


def refuse_deletion(volume: PersistentVolume) -> str:
    """Return why a volume of an administrator's own making cannot be deleted; "" if it can.

    Kubernetes' deleter for hostPath is for tests: it removes directories below /tmp of the controllers' own machine.
    """
    if volume.spec.host_path is None:
        name = volume.metadata.name
        return f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
    path = volume.spec.host_path.path
    if not re.search("/tmp/.+", path):
        return f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return ""


def plan_claim(
    claim: PersistentVolumeClaim,
    volumes: Mapping[str, PersistentVolume],
    storage_class: StorageClass | None,
    waiting_pods: Sequence[str],
) -> ClaimStep:
    """Plan a claim. `volumes` are all, by name. `waiting_pods` are names of unscheduled pods that use the claim."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _plan_bound(claim, volumes)
    if claim.spec.volume_name:
        return _plan_requested(claim, volumes)
    is_delayed = storage_class is not None and storage_class.is_delayed
    volume = find_volume(volumes.values(), claim, only_reserved=is_delayed)
    if volume is not None:
        return ClaimStep(bind_to=volume)
    if is_delayed and SELECTED_NODE not in claim.metadata.annotations:
        return ClaimStep(phase=_PENDING, event=_waiting(waiting_pods))
    if not claim.class_name:
        message = "no persistent volumes available for this claim and no storage class is set"
        return ClaimStep(phase=_PENDING, event=Message("Normal", "FailedBinding", message))
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return ClaimStep(phase=_PENDING, event=Message("Warning", "ProvisioningFailed", message))
    return _plan_provisioning(storage_class.provisioner)


def _waiting(pods: Sequence[str]) -> Message:
    if pods:
        return Message("Normal", "WaitForPodScheduled", f"waiting for pod {','.join(pods)} to be scheduled")
    return Message("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")


def _plan_provisioning(provisioner: str) -> ClaimStep:
    if provisioner.startswith("kubernetes.io/"):
        message = f"no volume plugin matched name: {provisioner}"
        return ClaimStep(phase=_PENDING, event=Message("Warning", "ProvisioningFailed", message))
    message = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    event = Message("Normal", "ExternalProvisioning", message)
    return ClaimStep(phase=_PENDING, event=event, provisioner=provisioner)


def _plan_requested(claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume]) -> ClaimStep:
    """Plan a claim that names its volume."""
    name = claim.spec.volume_name
    volume = volumes.get(name)
    if volume is None:
        return ClaimStep(phase=_PENDING)
    if volume.spec.claim_ref is not None:
        if refers_to(volume, claim):
            return ClaimStep(bind_to=volume)
        message = f'volume "{name}" already bound to a different claim.'
        return ClaimStep(phase=_PENDING, event=Message("Warning", "FailedBinding", message))
    if reason := mismatch(volume, claim):
        message = f'Cannot bind to requested volume "{name}": {reason}'
        return ClaimStep(phase=_PENDING, event=Message("Warning", "VolumeMismatch", message))
    return ClaimStep(bind_to=volume)


def _plan_bound(claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume]) -> ClaimStep:
    volume = volumes.get(claim.spec.volume_name)
    if volume is None:
        lost = "its" if claim.spec.volume_name else "reference to"
        message = f"Bound claim has lost {lost} PersistentVolume. Data on the volume is lost!"
        return _lost(claim, Message("Warning", "ClaimLost", message))
    reference = volume.spec.claim_ref
    if reference is None or reference.uid == claim.metadata.uid:
        return ClaimStep(bind_to=volume)
    message = "Two claims are bound to the same volume, this one is bound incorrectly"
    return _lost(claim, Message("Warning", "ClaimMisbound", message))


def _lost(claim: PersistentVolumeClaim, event: Message) -> ClaimStep:
    return ClaimStep(phase=_LOST, event=None if claim.status.phase == _LOST else event)


def plan_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """Plan a volume. `claim` is the one to which the volume refers, None if it does not exist."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return VolumeStep(phase=AVAILABLE)
    if claim is None or claim.metadata.uid != reference.uid:
        # A volume whose deletion failed keeps that phase until somebody deletes or changes it.
        phase = "" if volume.status.phase in ("Released", "Failed") else "Released"
        return VolumeStep(phase=phase, reclaim=volume.status.phase != "Failed")
    if claim.spec.volume_name == volume.metadata.name:
        return VolumeStep(phase="Bound")
    if not claim.spec.volume_name:
        return VolumeStep()  # the claim's turn
    if PROVISIONED_BY in volume.metadata.annotations and volume.spec.persistent_volume_reclaim_policy == "Delete":
        return VolumeStep(phase="Released", reclaim=True)
    return VolumeStep(unbind=True)
