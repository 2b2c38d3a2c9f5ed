"""Volumes that are directories of nodes: the objects to create for a claim, and to clean up after it.

Called by `host_path`. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from bridgehead.objects.core import Node
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS
from bridgehead.objects.quantities import milli_value
from bridgehead.objects.storage import (
    HOST_PATH_PROVISIONER,
    HOST_PATH_ROOT,
    PROVISIONED_BY,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

HOST_NAME: Final = "kubernetes.io/hostname"
VOLUME_LABEL: Final = "bridgehead.io/deletes-volume"
DIRECTORY_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"  # of external provisioners
CLEANER_NAMESPACE: Final = "kube-system"
_MOUNTED: Final = "/volumes"


def volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def wants_volume(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    """Whether this provisioner has to make a volume for the claim now."""
    if storage_class is None or storage_class.provisioner != HOST_PATH_PROVISIONER or claim.spec.volume_name:
        return False
    if claim.metadata.deletion_timestamp is not None or claim.status.phase not in ("", "Pending"):
        return False
    return not storage_class.is_delayed or SELECTED_NODE in claim.metadata.annotations


def refusal(claim: PersistentVolumeClaim) -> str:
    """Return why no directory can be made for the claim, "" if one can."""
    if claim.spec.volume_mode == "Block":
        return f"{HOST_PATH_PROVISIONER} does not provision block volumes"
    if claim.spec.selector is not None:
        return "claim Selector is not supported"
    if claim.spec.data_source is not None or claim.spec.data_source_ref is not None:
        return f"{HOST_PATH_PROVISIONER} does not fill volumes from a data source"
    return ""


def choose_node(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    nodes: Iterable[Node],
    volumes: Iterable[PersistentVolume],
) -> str:
    """Return the node that the scheduler chose, else the ready one with the fewest volumes, of those that the class
    allows; "" without any."""
    if selected := claim.metadata.annotations.get(SELECTED_NODE):
        return selected
    counts = Counter(filter(None, map(node_of, volumes)))
    names = [
        node.metadata.name
        for node in nodes
        if node.is_ready and not node.spec.unschedulable and storage_class.allows(node.metadata.labels)
    ]
    return min(names, key=lambda name: (counts[name], name), default="")


def node_of(volume: PersistentVolume) -> str:
    """Return the host name of the node that has the volume's directory; "" for other volumes."""
    affinity = volume.spec.node_affinity
    if not _is_ours(volume) or affinity is None:
        return ""
    for term in (affinity.required or {}).get("nodeSelectorTerms", ()):
        for expression in term.get("matchExpressions", ()):
            if expression.get("key") == HOST_NAME and expression.get("values"):
                return str(expression["values"][0])
    return ""


def new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass, host_name: str) -> dict[str, Any]:
    """Return the PersistentVolume for a claim, reserved to it, with a finalizer that lets the directory go first."""
    name, meta = volume_name(claim), claim.metadata
    expression = {"key": HOST_NAME, "operator": "In", "values": [host_name]}
    return {
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: HOST_PATH_PROVISIONER},
            "finalizers": [DIRECTORY_FINALIZER],
        },
        "spec": {
            "capacity": {"storage": claim.size},
            "accessModes": list(claim.spec.access_modes),
            "claimRef": {
                "kind": PERSISTENT_VOLUME_CLAIMS.name,
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "hostPath": {"path": f"{HOST_PATH_ROOT}/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "storageClassName": storage_class.metadata.name,
            "volumeMode": "Filesystem",
        },
    }


def is_to_delete(volume: PersistentVolume) -> bool:
    """Whether this provisioner has to delete the volume with its directory."""
    return (
        _is_ours(volume)
        and volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
    )


def is_to_release(volume: PersistentVolume) -> bool:
    """Whether somebody deleted the volume, and its directory, if there is one, is to stay."""
    is_deleted = volume.metadata.deletion_timestamp is not None
    return _is_ours(volume) and is_deleted and volume.status.phase != "Bound" and not is_to_delete(volume)


def _is_ours(volume: PersistentVolume) -> bool:
    return volume.metadata.annotations.get(PROVISIONED_BY) == HOST_PATH_PROVISIONER


def cleaner_name(volume: str) -> str:
    return f"delete-{volume}"


def cleaner_pod(volume: PersistentVolume, node_name: str) -> dict[str, Any]:
    """Return the pod that deletes the volume's directory on its node.

    The command reaches no more than its container's root, so a link in the volume leads nowhere else.
    """
    name = volume.metadata.name
    container = {
        "name": "rm",
        "image": "busybox",
        # The node's stand-in will do. A pull would make the deletion depend on a registry's limits.
        "imagePullPolicy": "Never",
        "command": ["rm", "-rf", f"{_MOUNTED}/{name}"],
        "volumeMounts": [{"name": "volumes", "mountPath": _MOUNTED}],
    }
    return {
        "metadata": {"name": cleaner_name(name), "namespace": CLEANER_NAMESPACE, "labels": {VOLUME_LABEL: name}},
        "spec": {
            "nodeName": node_name,
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "volumes", "hostPath": {"path": HOST_PATH_ROOT, "type": "DirectoryOrCreate"}}],
        },
    }


def wants_expansion(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> bool:
    """Whether a bound claim of this provisioner has grown."""
    return (
        volume is not None
        and claim.status.phase == "Bound"
        and _is_ours(volume)
        and milli_value(claim.size) > milli_value(claim.status.capacity.get("storage", 0))
    )
