"""The Node object of this node and its status.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Nodes: Node status".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridgehead import architecture
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.objects.core import NodeStatus
from bridgehead.objects.times import format_time

from .settings import NodeSettings

# Volume plug-ins that Kubernetes replaced by drivers of CSI.
_MIGRATED_PLUGINS: Final = ",".join(
    f"kubernetes.io/{name}"
    for name in ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
)
_MAX_IMAGES: Final = 50  # the kubelet's nodeStatusMaxImages
HEALTHY_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def node_labels(settings: NodeSettings) -> dict[str, str]:
    """Return the well-known labels and the configured ones."""
    return {
        "beta.kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/hostname": settings.name,
        "kubernetes.io/os": "linux",
        **settings.labels,
    }


def node_object(settings: NodeSettings) -> dict[str, Any]:
    """Return the Node to create."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": settings.name, "labels": node_labels(settings)},
        "spec": {"podCIDR": settings.pod_cidrs[0], "podCIDRs": list(settings.pod_cidrs)},
    }


def csi_node_object(name: str, node_uid: str) -> dict[str, Any]:
    """Return the CSINode to create, which belongs to the Node with this UID. No driver of CSI runs on the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": _MIGRATED_PLUGINS}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"drivers": []},
    }


def node_images(records: Sequence[ImageRecord]) -> list[dict[str, Any]]:
    """Return the largest images for the Node's status, each with all of its names."""
    names: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for record in records:
        found = names.setdefault(record.config, [])
        found += [name for name in (record.id, record.name) if name not in found]
        sizes[record.config] = record.size
    largest = sorted(names, key=lambda config: (-sizes[config], names[config]))[:_MAX_IMAGES]
    return [{"names": names[config], "sizeBytes": sizes[config]} for config in largest]


def node_status(
    settings: NodeSettings,
    capacity: Mapping[str, str],
    info: Mapping[str, str],
    since: Mapping[str, str],
    now: float,
    images: Sequence[dict[str, Any]] = (),
    observed: NodeStatus | None = None,
    *,
    has_user_namespaces: bool = False,
) -> dict[str, Any]:
    """Return the Node's status at `now` (seconds since the epoch), as a patch of the status that was `observed`.

    `since` is the lastTransitionTime of each condition, by type, and `images` are those of `node_images`.
    `has_user_namespaces`: pods can have `hostUsers: false`.
    """
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": format_time(now),
            "lastTransitionTime": since.get(kind, format_time(now)),
        }
        for kind, status, reason, message in HEALTHY_CONDITIONS
    ]
    return {
        "addresses": [
            *({"type": "InternalIP", "address": ip} for ip in settings.ips),
            {"type": "Hostname", "address": settings.name},
        ],
        "allocatable": allocatable_resources(capacity, observed or NodeStatus()),
        "capacity": dict(capacity),
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "features": {"supplementalGroupsPolicy": True},
        "images": list(images),
        "nodeInfo": dict(info),
        "runtimeHandlers": [
            {"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": has_user_namespaces}}
        ],
    }


def allocatable_resources(capacity: Mapping[str, str], observed: NodeStatus) -> dict[str, object]:
    """Return the resources that pods may request, None for those to be removed.

    Extended resources (example.com/dongle) are advertised by others, who patch the Node's capacity only.
    """
    advertised = _extended(observed.capacity)
    withdrawn = dict.fromkeys(_extended(observed.allocatable).keys() - advertised.keys())
    return {**capacity, **advertised, **withdrawn}


def _extended(resources: Mapping[str, object]) -> dict[str, object]:
    return {name: quantity for name, quantity in resources.items() if "/" in name}


def is_reported(status: NodeStatus, written: NodeStatus) -> bool:
    """Whether `status` equals `written`, except for times and for conditions that other components write.

    The capacity may have changed while `written` was, so the extended resources are compared in `status` itself.
    """
    return _essence(status) == _essence(written) and _extended(status.capacity) == _extended(status.allocatable)


def _essence(status: NodeStatus) -> tuple[object, ...]:
    own = {kind for kind, _, _, _ in HEALTHY_CONDITIONS}
    conditions = {c.type: (c.status, c.reason, c.message) for c in status.conditions if c.type in own}
    return (
        conditions,
        status.addresses,
        status.capacity,
        status.allocatable,
        status.daemon_endpoints,
        status.node_info,
        status.images,
    )
