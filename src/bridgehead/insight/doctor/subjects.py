"""The facts in which causes are searched, and one Service with the objects that belong to it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from bridgehead.controllers.endpoints.endpoint_pods import is_headless, pod_ips
from bridgehead.insight.facts.cluster_state import ClusterState, Json
from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.insight.facts.system_object_names import DNS_SERVICE, SYSTEM
from bridgehead.insight.findings import Finding, Severity, Unseen, printable
from bridgehead.objects.address_holders import cluster_addresses, published_addresses
from bridgehead.objects.core import Event, Node, Pod, Service
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import parse_time

from .kernels import NodeKernel, read_kernels
from .networkpolicy_rules import PolicyIndex

_MOST_EVIDENCE = 8  # lines of one finding
_LONGEST_FIX = 1000  # characters
_MOST_LABEL_SETS = 1000  # of one namespace
_GENERATED_LABELS = frozenset(("pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name"))


class Target(NamedTuple):
    """A Service that somebody asked about. `port`: 0 for all of its ports."""

    key: ObjectKey
    port: int = 0


class CertificateEnd(NamedTuple):
    """The end of a certificate's validity, in epoch seconds. `name`: whose, `the API server` for example."""

    name: str
    not_after: float


class DnsAnswer(NamedTuple):
    """The answer to one query for the address of `name`. `client`: `node node1`, `pod default/web-1`.

    `result`: NOERROR, NXDOMAIN, SERVFAIL, ...; "": none came within `seconds`.
    """

    client: str
    server: str
    name: str
    result: str
    seconds: float


class Resolver(NamedTuple):
    """The name servers in the resolv.conf of a pod."""

    pod: ObjectKey
    servers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that is known of a cluster. Without `targets`, all Services are examined.

    `networks`: states of nodes' network namespaces, by node. `pod_listeners`: the section LISTENERS of pods. A node or
    pod that is missing in these was not looked at; the reason is in `unseen`, if somebody wanted it.
    """

    cluster: ClusterState
    targets: tuple[Target, ...] = ()
    networks: Mapping[str, NetworkState] = field(default_factory=dict)
    pod_listeners: Mapping[ObjectKey, NetworkState] = field(default_factory=dict)
    certificates: Sequence[CertificateEnd] = ()
    dns_answers: Sequence[DnsAnswer] = ()
    resolvers: Sequence[Resolver] = ()
    hairpin_off: Mapping[str, Sequence[str]] = field(default_factory=dict)  # ports of bridges, by node
    unseen: tuple[Unseen, ...] = ()

    @cached_property
    def kernels(self) -> Mapping[str, NodeKernel]:
        """The nodes in `networks`, with the rules that they should have."""
        return read_kernels(self.cluster, self.networks)

    @property
    def is_whole(self) -> bool:
        """Whether the objects of all namespaces were read."""
        return not self.cluster.namespace

    def has_seen_all(self, *plurals: str, namespace: str = "") -> bool:
        """Return whether kinds were read, also those of `namespace`, as `ClusterState.has_seen`."""
        return all(self.cluster.has_seen(plural, namespace) for plural in plurals)

    @cached_property
    def views(self) -> Mapping[ObjectKey, ServiceView]:
        """The Services to examine: those that were asked for, and always the DNS; or all whose objects were read."""
        services = self.cluster.services
        if self.targets:
            keys = [target.key for target in self.targets] + [DNS_SERVICE]
        else:
            namespace = self.cluster.namespace
            keys = [key for key in services if not namespace or key.namespace == namespace or key == DNS_SERVICE]
        return {key: ServiceView(services[key], self) for key in keys if key in services}

    @cached_property
    def _events(self) -> Mapping[tuple[str, ObjectKey], Sequence[Event]]:
        found: dict[tuple[str, ObjectKey], list[Event]] = {}
        for event in self.cluster.events:
            about = event.involved_object
            found.setdefault((about.kind, ObjectKey(about.namespace, about.name)), []).append(event)
        for events in found.values():
            events.sort(key=_event_time, reverse=True)
        return found

    def events_of(self, kind: str, key: ObjectKey, *reasons: str, uid: str = "") -> Sequence[Event]:
        """Return the Warnings about an object, the latest first. `uid`: leaves out those of an earlier namesake."""
        return [
            event
            for event in self._events.get((kind, key), ())
            if (not reasons or event.reason in reasons)
            and (not uid or not event.involved_object.uid or event.involved_object.uid == uid)
        ]

    @cached_property
    def dns_addresses(self) -> set[str]:
        """The cluster IPs of the cluster's DNS."""
        service = self.cluster.services.get(DNS_SERVICE)
        return set(cluster_addresses(service)) if service is not None else set()

    @cached_property
    def services_by_cluster_ip(self) -> Mapping[str, Sequence[Service]]:
        return _by_address(self.cluster.services.values(), cluster_addresses)

    @cached_property
    def services_by_published_address(self) -> Mapping[str, Sequence[Service]]:
        """Services by their externalIPs and load-balancer addresses."""
        return _by_address(self.cluster.services.values(), published_addresses)

    @cached_property
    def policies(self) -> PolicyIndex:
        plugins = [pod.metadata.name for pod in self.cluster.pods_in(SYSTEM)]
        plugins += [
            workload.key.name
            for workloads in self.selectable_workloads.values()
            for workload in workloads
            if workload.kind == "DaemonSet"
        ]
        return PolicyIndex(self.cluster.network_policies, plugins)

    @cached_property
    def ready_nodes(self) -> Sequence[Node]:
        return [node for node in self.cluster.nodes.values() if node.is_ready]

    @cached_property
    def selectable_workloads(self) -> Mapping[str, Sequence[Workload]]:
        """Deployments, StatefulSets and DaemonSets by namespace."""
        found: dict[str, list[Workload]] = {}
        for item in self.cluster.workloads:
            workload = read_workload(item)
            if workload is not None:
                found.setdefault(workload.key.namespace, []).append(workload)
        return found

    def label_sets_in(self, namespace: str) -> Sequence[tuple[Mapping[str, str], str]]:
        """Return the different labels of a namespace's pods and pod templates, at most 1000, and who has them."""
        found = self._label_sets.get(namespace)
        if found is None:
            sets: dict[frozenset[tuple[str, str]], str] = {}
            for workload in self.selectable_workloads.get(namespace, ())[:_MOST_LABEL_SETS]:
                sets.setdefault(frozenset(workload.labels.items()), str(workload))
            for pod in self.cluster.pods_in(namespace):
                if len(sets) >= _MOST_LABEL_SETS:
                    break
                if not pod.is_finished:
                    labels = frozenset(each for each in pod.metadata.labels.items() if each[0] not in _GENERATED_LABELS)
                    sets.setdefault(labels, f"pod/{pod.metadata.name}")
            found = self._label_sets[namespace] = [(dict(labels), what) for labels, what in sets.items()]
        return found

    @cached_property
    def _label_sets(self) -> dict[str, Sequence[tuple[Mapping[str, str], str]]]:
        return {}

    @cached_property
    def clashing_addresses(self) -> Mapping[str, Sequence[Pod]]:
        """Addresses that several running pods have, with these pods."""
        found: dict[str, list[Pod]] = {}
        for pod in self.cluster.pods.values():
            if not pod.is_finished and not pod.is_terminating and not pod.spec.host_network and pod.is_ready:
                for ip in pod.status.pod_ips:
                    found.setdefault(ip.ip, []).append(pod)
        return {address: pods for address, pods in found.items() if len(pods) > 1}

    def age_of(self, time: str | None) -> float:
        """Return the seconds since a timestamp; 0 for none or an invalid one."""
        try:
            return max(0.0, self.cluster.now - parse_time(time)) if time else 0.0
        except ValueError:
            return 0.0


class ServiceView:
    """A Service, its pods and endpoints."""

    def __init__(self, service: Service, facts: Facts) -> None:
        self.service = service
        self.facts = facts
        self.key = service.key
        self.spec = service.spec
        self.subject = f"service/{service.key}"

    @cached_property
    def is_headless(self) -> bool:
        return is_headless(self.service)

    @property
    def is_external_name(self) -> bool:
        return self.spec.type == "ExternalName"

    @property
    def is_placeholder(self) -> bool:
        """Whether the Service has neither ports nor a selector: operators keep state in the Endpoints of its name."""
        return self.is_headless and not self.spec.ports and not self.spec.selector

    @cached_property
    def pods(self) -> Sequence[Pod]:
        """The pods that the selector matches."""
        return self.facts.cluster.selected_pods(self.service)

    @cached_property
    def live_pods(self) -> Sequence[Pod]:
        """The selected pods that run or will run: neither finished nor terminating."""
        return [pod for pod in self.pods if not pod.is_finished and not pod.is_terminating]

    @cached_property
    def ready_pods(self) -> Sequence[Pod]:
        """The pods that get connections; with publishNotReadyAddresses all that have an address."""
        if self.spec.publish_not_ready_addresses:
            return [pod for pod in self.pods if not pod.is_finished and any(pod_ips(pod))]
        return [pod for pod in self.live_pods if pod.is_ready]

    @cached_property
    def slices(self) -> Sequence[EndpointSlice]:
        return self.facts.cluster.slices_of(self.key)

    @cached_property
    def endpoints(self) -> Sequence[Endpoint]:
        return [endpoint for slice_ in self.slices for endpoint in slice_.endpoints]

    @cached_property
    def ready_endpoints(self) -> Sequence[Endpoint]:
        return [endpoint for endpoint in self.endpoints if endpoint.conditions.is_ready]

    @property
    def sees_pods(self) -> bool:
        """Whether the pods of the Service's namespace were read."""
        return self.facts.cluster.has_seen("pods", self.key.namespace) and self._is_read

    @property
    def sees_slices(self) -> bool:
        return self.facts.cluster.has_seen("endpointslices", self.key.namespace) and self._is_read

    @property
    def _is_read(self) -> bool:
        return self.facts.is_whole or self.key.namespace in (self.facts.cluster.namespace, SYSTEM)

    def patch(self, changes: str) -> str:
        """Return the command that changes the Service by a merge patch in JSON."""
        return self.kubectl("patch", "service", self.key.name, "--type", "merge", "-p", changes)

    def kubectl(self, *arguments: str) -> str:
        return kubectl(self.key.namespace, *arguments)

    def finding(
        self,
        cause: str,
        text: str,
        *,
        fix: str = "",
        evidence: Iterable[str] = (),
        severity: Severity = Severity.BROKEN,
    ) -> Finding:
        return make_finding(cause, self.subject, text, fix=fix, evidence=evidence, severity=severity)


class Workload(NamedTuple):
    """A Deployment, StatefulSet or DaemonSet. `labels`: of its pod template. `replicas` None: one for each node."""

    kind: str
    key: ObjectKey
    labels: Mapping[str, str]
    own_labels: Mapping[str, str]
    replicas: int | None
    service_name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.key.name}"


def read_workload(item: Json) -> Workload | None:
    """Return a workload as the API sent it; None if it is malformed."""
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        return None
    template = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
    replicas = spec.get("replicas", 1)
    return Workload(
        kind=str(item.get("kind", "")),
        key=ObjectKey(str(metadata.get("namespace", "")), name),
        labels=_texts(template),
        own_labels=_texts(mapping(metadata.get("labels"))),
        replicas=replicas if item.get("kind") != "DaemonSet" and isinstance(replicas, int) else None,
        service_name=str(spec.get("serviceName") or ""),
        uid=str(metadata.get("uid", "")),
    )


def workload_of(pod: Pod, facts: Facts) -> str:
    """Return the workload that made the pod, `deployment/web`, or the pod itself."""
    owner = pod.metadata.controller
    if owner is None:
        return f"pod/{pod.metadata.name}"
    if owner.kind == "ReplicaSet":
        name = owner.name.rpartition("-")[0]
        for workload in facts.selectable_workloads.get(pod.metadata.namespace, ()):
            if workload.kind == "Deployment" and workload.key.name == name:
                return str(workload)
    return f"{owner.kind.lower()}/{owner.name}"


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; {} for anything else."""
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list; [] for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(labels: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def kubectl(namespace: str, *arguments: str) -> str:
    """Return a command to copy. Every argument is quoted for the shell."""
    return shlex.join(("kubectl", *(("-n", namespace) if namespace else ()), *arguments))


def make_finding(
    cause: str,
    subject: str,
    text: str,
    *,
    fix: str = "",
    evidence: Iterable[str] = (),
    severity: Severity = Severity.BROKEN,
) -> Finding:
    """Return a finding whose texts are bounded and printable. A fix that is too long is left out, not cut."""
    return Finding(
        cause=cause,
        subject=printable(subject),
        text=printable(text),
        fix=printable(fix, _LONGEST_FIX) if len(fix) <= _LONGEST_FIX else "",
        evidence=tuple(shortened([printable(line) for line in evidence], _MOST_EVIDENCE)),
        severity=severity,
    )


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines and the number of the others."""
    return list(lines) if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} more"]


def names_of(texts: Iterable[str], most: int = 5) -> str:
    """Render `a, b and 3 more`, each text bounded."""
    found = [printable(text, 100) for text in dict.fromkeys(texts)]
    return ", ".join(found) if len(found) <= most else f"{', '.join(found[:most])} and {len(found) - most} more"


def _by_address(services: Iterable[Service], addresses_of: Any) -> Mapping[str, Sequence[Service]]:
    found: dict[str, list[Service]] = {}
    for service in services:
        for address in addresses_of(service):
            found.setdefault(address, []).append(service)
    return found


def _event_time(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.first_timestamp or ""
