"""The objects of a cluster's API that decide how its Services work, with the indexes that questions need.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import ConfigMap, Endpoints, Event, Namespace, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import Progress
from bridgehead.objects.selectors import Selector

from .system_object_names import SYSTEM

Json = dict[str, Any]

OTHER_NAMESPACES = "other namespaces"


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """Objects of one moment. `now`: epoch seconds of the reading. `namespace`: "" if all namespaces were read.

    `names`: the Services of `namespace` whose EndpointSlices and Endpoints were read; empty: all. Of one namespace,
    pods, EndpointSlices and other namespaced objects are of it and of kube-system; Services and DaemonSets are of all.
    What could not be read is empty and in `unseen`, under the plural of its kind: ask `has_seen` before concluding that
    something does not exist. Kinds without a type (NetworkPolicies, Ingresses, workloads, pools of load-balancer
    addresses) are as the API sent them.
    """

    now: float
    namespace: str = ""
    names: frozenset[str] = frozenset()
    domain: str = "cluster.local"
    services: Mapping[ObjectKey, Service] = field(default_factory=dict)
    slices: Sequence[EndpointSlice] = ()
    endpoints: Mapping[ObjectKey, Endpoints] = field(default_factory=dict)
    pods: Mapping[ObjectKey, Pod] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    events: Sequence[Event] = ()  # Warnings
    progress: Mapping[str, Progress] = field(default_factory=dict)  # by node, of `bridgehead proxy`
    config_maps: Mapping[ObjectKey, ConfigMap] = field(default_factory=dict)  # those of kube-system
    service_cidrs: tuple[str, ...] = ()
    network_policies: Sequence[Json] = ()
    ingresses: Sequence[Json] = ()
    ingress_classes: Sequence[Json] = ()
    workloads: Sequence[Json] = ()  # Deployments, StatefulSets, DaemonSets, with `kind`
    address_pools: Sequence[Json] = ()  # IPAddressPools of MetalLB and Eips of OpenELB, with `kind`
    unseen: tuple[Unseen, ...] = ()

    def has_seen(self, plural: str, namespace: str = "") -> bool:
        """Return whether the objects of a kind were read; its plural is that of the API (`endpointslices`).

        Where one namespace is read, kube-system's part may be missing alone, or the Services of `OTHER_NAMESPACES`:
        name these as the namespace.
        """
        parts = (plural, f"{plural} of {namespace}")
        return all(unseen.what not in parts for unseen in self.unseen)

    def has_read_slices(self, key: ObjectKey) -> bool:
        """Return whether the EndpointSlices of a Service were read: otherwise its endpoints are not known."""
        if not self.has_seen("endpointslices"):
            return False
        if key.namespace == SYSTEM or not self.namespace:
            return True
        return key.namespace == self.namespace and (not self.names or key.name in self.names)

    @cached_property
    def _slices_by_service(self) -> Mapping[ObjectKey, Sequence[EndpointSlice]]:
        found: dict[ObjectKey, list[EndpointSlice]] = {}
        for slice_ in self.slices:
            key = slice_.service_key
            if key is not None:
                found.setdefault(key, []).append(slice_)
        return found

    def slices_of(self, key: ObjectKey) -> Sequence[EndpointSlice]:
        """Return the EndpointSlices of a Service."""
        return self._slices_by_service.get(key, ())

    @cached_property
    def _pods_by_namespace(self) -> Mapping[str, Sequence[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            found.setdefault(pod.metadata.namespace, []).append(pod)
        return found

    def pods_in(self, namespace: str) -> Sequence[Pod]:
        return self._pods_by_namespace.get(namespace, ())

    def selected_pods(self, service: Service) -> Sequence[Pod]:
        """Return the pods that the Service's selector matches; () without a selector."""
        selector = service.spec.selector
        if not selector:
            return ()
        namespace, wanted = service.metadata.namespace, selector.items()
        candidates = min((self._pods_by_label.get((namespace, *label), ()) for label in wanted), key=len)
        return [pod for pod in candidates if wanted <= pod.metadata.labels.items()]

    @cached_property
    def _pods_by_label(self) -> Mapping[tuple[str, str, str], Sequence[Pod]]:
        """Pods by namespace, key and value of each of their labels: thousands of selectors are evaluated."""
        found: dict[tuple[str, str, str], list[Pod]] = {}
        for pod in self.pods.values():
            for key, value in pod.metadata.labels.items():
                found.setdefault((pod.metadata.namespace, key, value), []).append(pod)
        return found

    def matching_pods(self, namespace: str, selector: Selector) -> Sequence[Pod]:
        return [pod for pod in self.pods_in(namespace) if selector.matches(pod.metadata.labels)]

    @cached_property
    def pods_by_address(self) -> Mapping[str, Pod]:
        """Pods that run, by each of their addresses. Pods on the host network are left out: they have its addresses."""
        return {
            ip.ip: pod
            for pod in self.pods.values()
            if not pod.is_finished and not pod.spec.host_network
            for ip in pod.status.pod_ips
        }

    @cached_property
    def nodes_by_address(self) -> Mapping[str, Node]:
        return {address.address: node for node in self.nodes.values() for address in node.status.addresses}


def by_key(objects: Iterable[Any]) -> dict[ObjectKey, Any]:
    return {each.key: each for each in objects}
