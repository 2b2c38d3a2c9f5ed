"""Volumes and nodes: which nodes the claims of a pod allow, and the volumes that its claims get there.

Called by `claim_binder`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/scheduler/framework/plugins/volumebinding` (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bridgehead.controllers.volumes.matching import find_volume, is_reachable
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.quantities import milli_value
from bridgehead.objects.storage import (
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    describe_foreign_claim,
)

from .filters import Refusal

_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True)
class Binding:
    """A claim that is bound when its pod has a node: to `volume`, or to one to be provisioned there (None)."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


@dataclass
class PodClaims:
    """The claims of a pod. `blocked`: why no node can have the pod, "" if one can. `volumes`: those of bound claims.

    `delayed`: claims that wait for the pod, with their classes. `exclusive`: names of claims for one pod at a time.
    """

    blocked: str = ""
    volumes: list[PersistentVolume | None] = field(default_factory=list)
    delayed: list[tuple[PersistentVolumeClaim, StorageClass]] = field(default_factory=list)
    exclusive: set[str] = field(default_factory=set)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume for good."""
    return bool(claim.spec.volume_name) and claim.status.phase == "Bound"


def sort_claims(
    pod: Pod,
    claim_of: Callable[[ObjectKey], PersistentVolumeClaim | None],
    volumes: Mapping[str, PersistentVolume],
    class_of: Callable[[str], StorageClass | None],
) -> PodClaims:
    """Sort the claims of the pod's volumes."""
    found = PodClaims()
    unbound = False
    for volume in pod.spec.volumes:
        name = volume.claim_name(pod.metadata.name)
        if not name:
            continue
        claim = claim_of(ObjectKey(pod.metadata.namespace, name))
        if claim is None and volume.ephemeral is not None:
            waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return PodClaims(blocked=waiting)
        if claim is None:
            return PodClaims(blocked=f'persistentvolumeclaim "{name}" not found')
        if claim.status.phase == "Lost":
            lost = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
            return PodClaims(blocked=lost)
        if claim.metadata.deletion_timestamp is not None:
            return PodClaims(blocked=f'persistentvolumeclaim "{name}" is being deleted')
        if volume.ephemeral is not None and (foreign := describe_foreign_claim(claim, pod)):
            return PodClaims(blocked=foreign)
        if READ_WRITE_ONCE_POD in claim.spec.access_modes:
            found.exclusive.add(name)
        storage_class = class_of(claim.class_name)
        if is_bound(claim):
            found.volumes.append(volumes.get(claim.spec.volume_name))
        elif storage_class is not None and storage_class.is_delayed and not claim.spec.volume_name:
            found.delayed.append((claim, storage_class))
        else:
            unbound = True
    if unbound:
        return PodClaims(blocked="pod has unbound immediate PersistentVolumeClaims")
    return found


def refuse_node(
    claims: PodClaims, node: Node, volumes: Mapping[str, PersistentVolume], taken: Collection[str]
) -> Refusal | None:
    """Return why the claims do not allow a node. `taken`: volumes that are promised to other claims."""
    if None in claims.volumes:
        return Refusal.LOST_VOLUME
    if not all(volume is None or is_reachable(volume, node) for volume in claims.volumes):
        return Refusal.VOLUME_NODE
    return Refusal.NO_VOLUME if plan_bindings(claims, node, volumes, taken) is None else None


def plan_bindings(
    claims: PodClaims, node: Node, volumes: Mapping[str, PersistentVolume], taken: Collection[str]
) -> Sequence[Binding] | None:
    """Return the volumes that the delayed claims get on a node; None if one gets none there.

    Small claims choose first, so that they leave large volumes to large claims.
    """
    free = {name: volume for name, volume in volumes.items() if name not in taken}
    bindings = []
    for claim, storage_class in sorted(claims.delayed, key=lambda pair: (milli_value(pair[0].size), pair[0].key)):
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        volume = None if selected else find_volume(free.values(), claim, node)
        if volume is not None:
            del free[volume.metadata.name]
        elif selected not in (None, node.metadata.name) or not _can_provision(storage_class, node):
            return None
        bindings.append(Binding(claim, volume))
    return bindings


def _can_provision(storage_class: StorageClass, node: Node) -> bool:
    has_provisioner = storage_class.provisioner not in ("", _NO_PROVISIONER)
    return has_provisioner and storage_class.allows(node.metadata.labels)
