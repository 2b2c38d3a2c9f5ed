"""The size of an emptyDir in memory.

Pure: no I/O, no clock, no randomness. Source: kubelet's emptyDir plugin (`calculateEmptyDirMemorySize`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.objects.core import EmptyDirVolume, Pod
from bridgehead.objects.pod_resources import pod_ceiling
from bridgehead.objects.quantities import whole_value


def memory_size(volume: EmptyDirVolume, pod: Pod, allocatable: Mapping[str, str | int | float]) -> int:
    """Return the least of the node's memory, the pod's limit of memory and the volume's `sizeLimit`, in bytes.

    `allocatable` is the node's, by resource name.
    """
    bounds = (pod_ceiling(pod.spec, "memory"), whole_value(volume.size_limit or 0))
    return min(filter(None, (whole_value(allocatable["memory"]), *bounds)))
