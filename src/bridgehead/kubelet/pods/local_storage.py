"""Limits of the local storage that a pod uses: emptyDirs, writable layers and logs of containers.

Pure: no I/O, no clock, no randomness. Called by `eviction` with the use that it has measured. Source: kubelet's
`localStorageEviction`: a limit of one container limits the pod as a whole, too, and containers without a limit add
nothing to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from bridgehead.objects.core import Pod, Volume
from bridgehead.objects.pod_resources import pod_limits
from bridgehead.objects.quantities import canonical_quantity, format_quantity, whole_value

from .static_manifest import is_critical

_RESOURCE = "ephemeral-storage"


class StorageUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes in use: by emptyDirs on disk, by name of the volume; by layer and logs of containers, by name.

    Volumes that an image declares do not count, as with containerd.
    """

    volumes: Mapping[str, int] = {}
    containers: Mapping[str, int] = {}


def is_limited(pod: Pod) -> bool:
    """Whether the pod has any limit of local storage, so that its use has to be measured.

    Critical pods have none, since kubelets evict no such pod.
    """
    if is_critical(pod):
        return False
    return any(_is_sized(volume) for volume in pod.spec.volumes) or _pod_limit(pod) is not None


def sized_volumes(pod: Pod) -> list[str]:
    """Return the names of the emptyDirs on disk. An emptyDir in memory is as large as its tmpfs."""
    return [one.name for one in pod.spec.volumes if one.empty_dir is not None and one.empty_dir.medium != "Memory"]


def describe_excess(pod: Pod, use: StorageUse) -> str:
    """Return the reason of an eviction, as kubelets write it; "" for a pod within its limits."""
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and _is_sized(volume):
            limit = volume.empty_dir.size_limit or 0
            if use.volumes.get(volume.name, 0) > whole_value(limit):
                text = canonical_quantity(str(limit))
                return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{text}". '
    allowed = _pod_limit(pod)
    if allowed is not None and allowed < sum(use.containers.values()) + sum(use.volumes.values()):
        text = format_quantity(Decimal(allowed), is_binary=_is_binary(pod))
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
    for container in pod.spec.containers:
        own = container.resources.limits.get(_RESOURCE, 0)
        if 0 < whole_value(own) < use.containers.get(container.name, 0):
            text = canonical_quantity(str(own))
            return f'Container {container.name} exceeded its local ephemeral storage limit "{text}". '
    return ""


def _declared_limits(pod: Pod) -> list[str | int | float]:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [one.resources.limits[_RESOURCE] for one in containers if _RESOURCE in one.resources.limits]


def _pod_limit(pod: Pod) -> int | None:
    """The limit of the pod as a whole in bytes, None without any.

    As in Kubernetes, 0 is a limit of the pod, though none of a container or an emptyDir.
    """
    return pod_limits(pod.spec)[_RESOURCE] if _declared_limits(pod) else None


def _is_binary(pod: Pod) -> bool:
    """Whether the sum of the limits has a binary suffix: as in Kubernetes, the first summand decides."""
    return str(next(filter(whole_value, _declared_limits(pod)), "")).endswith("i")


def _is_sized(volume: Volume) -> bool:
    empty_dir = volume.empty_dir
    return empty_dir is not None and empty_dir.medium != "Memory" and whole_value(empty_dir.size_limit or 0) > 0
