"""Keys of the taints that the control plane puts on a node with a problem, and that pods tolerate.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Well-Known Labels, Annotations and Taints".
"""

from __future__ import annotations

from typing import Final

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
# Put on by users: the node is known to be shut down, so nothing of its pods runs any more.
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
