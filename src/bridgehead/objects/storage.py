"""The kinds of storage: PersistentVolume, PersistentVolumeClaim (core/v1), StorageClass (storage.k8s.io/v1).

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .core import HostPathVolume, Pod, ResourceRequirements
from .meta import Condition, LabelSelector, Object, ObjectReference, Part

# An access mode: one pod at a time.
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

Quantity = str | int | float

# A `volumeBindingMode` of StorageClasses.
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
# Annotation of a claim without a volume: the node of its first pod, which the scheduler chose.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
# Annotation of a volume: the provisioner that made it.
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
# The older form of `storageClassName`, which goes before the field.
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
# Annotation of a StorageClass, "true": claims that name no class get it. The second is the older form.
DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
# The provisioner of directories on the lab's nodes, and where these are. The kubelet makes them.
HOST_PATH_PROVISIONER: Final = "bridgehead.io/host-path"
HOST_PATH_ROOT: Final = "/var/lib/bridgehead/volumes"


class PersistentVolumeClaimSpec(Part, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    data_source: dict[str, Any] | None = None
    data_source_ref: dict[str, Any] | None = None


class PersistentVolumeClaimStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def class_name(self) -> str:
        """The name of its StorageClass; "" without one."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def has_class(self) -> bool:
        """Whether it names a class, or "" for none."""
        return self.spec.storage_class_name is not None or BETA_CLASS in self.metadata.annotations

    @property
    def size(self) -> Quantity:
        """The storage that it requests."""
        return self.spec.resources.requests.get("storage", 0)


def describe_foreign_claim(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return why the claim is not that of the pod's ephemeral volume, "" if it is. Source: `VolumeIsForPod`."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


class LocalVolume(Part, frozen=True, kw_only=True):
    path: str


class VolumeNodeAffinity(Part, frozen=True, kw_only=True):
    """`required`: a NodeSelector, `{"nodeSelectorTerms": [...]}`."""

    required: dict[str, Any] | None = None


class PersistentVolumeSpec(Part, frozen=True, kw_only=True):
    capacity: dict[str, Quantity] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    mount_options: tuple[str, ...] = ()
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPathVolume | None = None
    local: LocalVolume | None = None


class PersistentVolumeStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    reason: str = ""
    last_phase_transition_time: str | None = None


class PersistentVolume(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def class_name(self) -> str:
        """The name of its StorageClass; "" without one."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        return self.spec.capacity.get("storage", 0)


class TopologyLabelRequirement(Part, frozen=True, kw_only=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Part, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(one.key) in one.values for one in self.match_label_expressions)


class CSINode(Object, frozen=True, kw_only=True):
    """The storage drivers of a node. No CSI driver runs here, so its owner is all that matters."""


class StorageClass(Object, frozen=True, kw_only=True):
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    allow_volume_expansion: bool = False
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def is_default(self) -> bool:
        return any(self.metadata.annotations.get(name) == "true" for name in DEFAULT_CLASS)

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether volumes may be made on a node with these labels."""
        return not self.allowed_topologies or any(term.matches(labels) for term in self.allowed_topologies)

    @property
    def is_delayed(self) -> bool:
        """Whether claims of the class wait for their first pod."""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
