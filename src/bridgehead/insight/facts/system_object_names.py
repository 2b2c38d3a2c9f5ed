"""Names of the objects in kube-system that every cluster has, as kubeadm, the lab and deploy/chart name them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

SYSTEM: Final = "kube-system"
DNS_SERVICE: Final = ObjectKey(SYSTEM, "kube-dns")
APP_LABEL: Final = "k8s-app"
PROXY_APPS: Final = (
    "kube-proxy",
    "bridgehead-proxy",
)  # values of the label of pods of kubeadm's DaemonSet, of the chart's
DNS_APPS: Final = ("kube-dns",)


def is_proxy_pod(pod: Pod) -> bool:
    """Return whether a pod is a node's service proxy."""
    return pod.metadata.namespace == SYSTEM and pod.metadata.labels.get(APP_LABEL) in PROXY_APPS
