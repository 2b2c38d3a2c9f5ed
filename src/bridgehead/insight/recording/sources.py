"""The kinds that a recording has. Secrets are not among them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.objects import progress


class Source(NamedTuple):
    """A kind, and the part of its objects that is recorded.

    `namespace`: the only one whose objects are recorded; "": all, or the one that the user chose. `names`: the only
    names; (): all. `is_optional`: a cluster need not have the kind.
    """

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True
    namespace: str = ""
    label_selector: str = ""
    names: tuple[str, ...] = ()
    is_optional: bool = False

    def path(self, namespace: str = "") -> str:
        """Return the URL path of the collection; "": of all namespaces."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


SOURCES = (
    Source("v1", "Namespace", "namespaces", is_namespaced=False),
    Source("v1", "Node", "nodes", is_namespaced=False),
    Source("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", is_namespaced=False, is_optional=True),
    Source("v1", "Service", "services"),
    Source("v1", "Pod", "pods"),
    Source("v1", "Endpoints", "endpoints"),
    Source("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    Source("apps/v1", "Deployment", "deployments"),
    Source("apps/v1", "ReplicaSet", "replicasets"),
    Source("apps/v1", "StatefulSet", "statefulsets"),
    Source("apps/v1", "DaemonSet", "daemonsets"),
    Source("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", is_optional=True),
    Source("networking.k8s.io/v1", "Ingress", "ingresses", is_optional=True),
    Source("v1", "Event", "events"),
    Source("v1", "ConfigMap", "configmaps", namespace=SYSTEM, names=("coredns", "kube-proxy", "bridgehead-proxy")),
    Source("coordination.k8s.io/v1", "Lease", "leases", namespace=progress.NAMESPACE, label_selector=progress.SELECTOR),
    Source("metallb.io/v1beta1", "IPAddressPool", "ipaddresspools", is_optional=True),
    Source("network.kubesphere.io/v1alpha2", "Eip", "eips", is_namespaced=False, is_optional=True),
)

BY_KIND = {(source.api_version, source.kind): source for source in SOURCES}
