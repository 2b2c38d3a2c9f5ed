"""Which labels a kubelet may give its own Node (pure).

Whoever can label a node decides which pods come to it. So the labels of Kubernetes' own domains are the control
plane's, but for the few that describe the machine; those below `node-restriction.kubernetes.io` are never a kubelet's
(source: k8s.io/kubelet/pkg/apis/well_known_labels.go, plugin/pkg/admission/noderestriction).
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
    """Those of these keys that no kubelet may set, sorted."""
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
