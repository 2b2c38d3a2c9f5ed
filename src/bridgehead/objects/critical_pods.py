"""Pods that the cluster itself needs: the classes of their priorities, and the annotation of mirror pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/scheduling`, "Pod Priority and Preemption", and
"Well-Known Labels, Annotations and Taints".
"""

from __future__ import annotations

from typing import Final

# The lowest priority of a critical pod, that of system-cluster-critical.
CRITICAL_PRIORITY: Final = 2_000_000_000
NODE_CRITICAL: Final = "system-node-critical"
# The priority classes that every cluster has.
SYSTEM_CLASSES: Final = {"system-cluster-critical": CRITICAL_PRIORITY, NODE_CRITICAL: 2_000_001_000}

# The annotation of a pod in the API that shows a static pod of a node. Its value is the uid of the static pod.
MIRROR_POD: Final = "kubernetes.io/config.mirror"
