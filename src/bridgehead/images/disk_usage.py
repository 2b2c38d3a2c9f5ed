"""Usage of a disk, and how much a collection of images has to free.

Pure: no I/O, no clock, no randomness. Source: the kubelet's image garbage collection, and KubeletConfiguration's
`imageGCHighThresholdPercent` and `imageGCLowThresholdPercent`.
"""

from __future__ import annotations

from typing import NamedTuple


class DiskUsage(NamedTuple):
    """A file system's size and what ordinary users can still write, in bytes."""

    capacity: int
    available: int

    @property
    def percent(self) -> int:
        return 100 - self.available * 100 // self.capacity if self.capacity else 0

    def bytes_to_free(self, high: int, low: int) -> int:
        """Return what a collection has to free to come down to `low` percent; 0 below `high` percent."""
        if self.percent < high:
            return 0
        return max(self.capacity * (100 - low) // 100 - self.available, 0)


def format_size(size: int) -> str:
    """Format bytes as kubelets do: `512 B`, `26.4 GiB`."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 5)
    return f"{size / (1 << 10 * power):.1f} {' KMGTP'[power]}iB"
