"""The labels that a kubelet may set on its own Node.

Labels of a node decide which pods are scheduled to it. Therefore a kubelet may set labels of Kubernetes' own domains
only where they describe the machine, and none below `node-restriction.kubernetes.io`.
Source: `k8s.io/kubelet/pkg/apis/well_known_labels.go`, `plugin/pkg/admission/noderestriction`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

RESTRICTED_DOMAIN: Final = "node-restriction.kubernetes.io"
KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")


def find_restricted(labels: Iterable[str]) -> list[str]:
    """Return the label keys that a kubelet may not set, sorted."""
    return sorted(key for key in labels if _is_restricted(key))


def _is_restricted(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash or not _is_within(domain, _KUBERNETES_DOMAINS):
        return False
    if _is_within(domain, (RESTRICTED_DOMAIN,)):
        return True
    return key not in KUBELET_LABELS and not _is_within(domain, KUBELET_DOMAINS)


def _is_within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
