"""Limits of the local storage that a pod uses: emptyDirs, writable layers and logs of containers.

Pure: no I/O, no clock, no randomness. Called by `eviction` with the use that it has measured. Source: kubelet's
`localStorageEviction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from bridgehead.objects.core import Container, Pod, Volume
from bridgehead.objects.critical_pods import CRITICAL_PRIORITY
from bridgehead.objects.quantities import canonical_quantity, format_quantity, whole_value

from .static_manifest import is_static

_RESOURCE = "ephemeral-storage"


class StorageUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes in use: by emptyDirs on disk, by name of the volume; by layer and logs of containers, by name.

    Volumes that an image declares do not count, as with containerd.
    """

    volumes: Mapping[str, int] = {}
    containers: Mapping[str, int] = {}


def is_limited(pod: Pod) -> bool:
    """Whether the pod has any limit of local storage, so that its use has to be measured. Static pods and critical ones
    have none, since kubelets evict no such pod."""
    if is_static(pod) or (pod.spec.priority or 0) >= CRITICAL_PRIORITY:
        return False
    return any(_is_sized(volume) for volume in pod.spec.volumes) or any(map(_limit, _containers(pod)))


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
    limits = {container.name: limit for container in _containers(pod) if (limit := _limit(container))}
    total = sum(use.containers.values()) + sum(use.volumes.values())
    allowed = sum(limits.values())
    if limits and len(limits) == len(_containers(pod)) and total > allowed:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {_text(allowed)}. "
    for name, limit in limits.items():
        if use.containers.get(name, 0) > limit:
            return f'Container {name} exceeded its local ephemeral storage limit "{_text(limit)}". '
    return ""


def _containers(pod: Pod) -> tuple[Container, ...]:
    """The containers that run together."""
    return pod.spec.containers + tuple(one for one in pod.spec.init_containers if one.is_sidecar)


def _is_sized(volume: Volume) -> bool:
    empty_dir = volume.empty_dir
    return empty_dir is not None and empty_dir.medium != "Memory" and bool(empty_dir.size_limit)


def _limit(container: Container) -> int:
    return whole_value(container.resources.limits.get(_RESOURCE, 0))


def _text(limit: int) -> str:
    return format_quantity(Decimal(limit), is_binary=True)
