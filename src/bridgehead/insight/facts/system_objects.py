"""Names of the objects in kube-system that every cluster has, as kubeadm and the lab name them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

SYSTEM: Final = "kube-system"
DNS_SERVICE: Final = ObjectKey(SYSTEM, "kube-dns")
PROXY_LABEL: Final = ("k8s-app", "kube-proxy")  # of the DaemonSet's pods
DNS_LABEL: Final = ("k8s-app", "kube-dns")  # of the Deployment's pods


def is_proxy_pod(pod: Pod) -> bool:
    """Return whether a pod is a node's service proxy."""
    name, value = PROXY_LABEL
    return pod.metadata.namespace == SYSTEM and pod.metadata.labels.get(name) == value
