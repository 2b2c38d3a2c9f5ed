"""Clusters that work, as objects: one that is always the same, and any number of random ones.

EndpointSlices are made by the project's own controllers, so that a change of a Service, pod or node changes them as it
would in a cluster. `broken_clusters` changes such clusters.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.controllers.endpoints import mirroring, slice_endpoints
from bridgehead.controllers.endpoints.slice_plan import Template, plan_slices
from bridgehead.insight.doctor.subjects import CertificateEnd, Facts, Target
from bridgehead.insight.facts.cluster_state import ClusterState, Json
from bridgehead.insight.facts.network_state import Listening, NetworkState
from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import (
    ConfigMap,
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Event,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Namespace,
    Node,
    NodeAddress,
    NodeSpec,
    NodeStatus,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, Endpoint, EndpointSlice, SlicePort
from bridgehead.objects.meta import Condition, ObjectKey, ObjectMeta, OwnerReference
from bridgehead.objects.progress import ModeInUse, Progress, Versions
from bridgehead.objects.times import format_time

NOW = 1_800_000_000.0
LONG_AGO = format_time(NOW - 86400)
SYSTEM = "kube-system"
COREFILE = """.:53 {
    errors
    health
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        fallthrough in-addr.arpa ip6.arpa
    }
    forward . 192.0.2.53
    cache 30
    loop
}
"""


@dataclass
class World:
    """The objects of a cluster, to be changed. Slices are computed by `facts`, except those in `written_slices`."""

    nodes: dict[str, Node] = field(default_factory=dict)
    services: dict[ObjectKey, Service] = field(default_factory=dict)
    pods: dict[ObjectKey, Pod] = field(default_factory=dict)
    endpoints: dict[ObjectKey, Endpoints] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    workloads: list[Json] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    progress: dict[str, Progress] = field(default_factory=dict)
    config_maps: dict[ObjectKey, ConfigMap] = field(default_factory=dict)
    service_cidrs: tuple[str, ...] = ("10.96.0.0/12", "fd00:10:96::/112")
    network_policies: list[Json] = field(default_factory=list)
    ingresses: list[Json] = field(default_factory=list)
    ingress_classes: list[Json] = field(default_factory=list)
    address_pools: list[Json] = field(default_factory=list)
    written_slices: dict[ObjectKey, list[EndpointSlice]] = field(default_factory=dict)
    more_slices: list[EndpointSlice] = field(default_factory=list)
    listeners: dict[ObjectKey, tuple[Listening, ...]] = field(default_factory=dict)
    sees_listeners: bool = True
    unseen: list[Unseen] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    certificates: list[CertificateEnd] = field(default_factory=list)

    def facts(self) -> Facts:
        cluster = ClusterState(
            now=NOW,
            services=self.services,
            slices=(*self._slices(), *self.more_slices),
            endpoints=self.endpoints,
            pods=self.pods,
            nodes=self.nodes,
            namespaces=self.namespaces,
            events=self.events,
            progress=self.progress,
            config_maps=self.config_maps,
            service_cidrs=self.service_cidrs,
            network_policies=self.network_policies,
            ingresses=self.ingresses,
            ingress_classes=self.ingress_classes,
            workloads=self.workloads,
            address_pools=self.address_pools,
            unseen=tuple(self.unseen),
        )
        return Facts(
            cluster=cluster,
            targets=tuple(self.targets),
            pod_listeners=self._pod_listeners() if self.sees_listeners else {},
            certificates=self.certificates,
        )

    def _pod_listeners(self) -> dict[ObjectKey, NetworkState]:
        found = {}
        for key, pod in self.pods.items():
            if pod.is_finished or not pod.status.pod_ips or pod.spec.host_network:
                continue
            listeners = self.listeners.get(key)
            if listeners is None:
                listeners = tuple(
                    Listening(protocol=port.protocol.lower(), address="::", port=port.container_port, program="server")
                    for container in pod.spec.containers
                    for port in container.ports
                )
            found[key] = NetworkState(listeners=listeners)
        return found

    def slices_of(self, key: ObjectKey) -> list[EndpointSlice]:
        """Return the slices that the controllers would write for a Service."""
        service = self.services[key]
        if service.spec.type == "ExternalName":
            return []
        if service.spec.selector:
            selector = service.spec.selector.items()
            pods = [
                pod
                for pod in self.pods.values()
                if pod.metadata.namespace == key.namespace and selector <= pod.metadata.labels.items()
            ]
            wanted = slice_endpoints.wanted_endpoints(service, pods, self.nodes.get)
            owner = OwnerReference(api_version="v1", kind="Service", name=key.name, uid=service.metadata.uid)
            labels = slice_endpoints.slice_labels(service)
            plan = plan_slices(Template(key.namespace, owner, labels), wanted, [], 100)
        else:
            endpoints = self.endpoints.get(key)
            if endpoints is None or not mirroring.is_mirrored(endpoints, service):
                return []
            mirror = mirroring.mirror_subsets(endpoints)
            plan = plan_slices(mirroring.mirror_template(endpoints), mirror.wanted, [], 1000)
        return [
            msgspec.structs.replace(
                item,
                metadata=msgspec.structs.replace(item.metadata, name=f"{key.name}-{index}", resource_version="60"),
            )
            for index, item in enumerate(plan.create)
        ]

    def _slices(self) -> Iterable[EndpointSlice]:
        for key in self.services:
            yield from self.written_slices[key] if key in self.written_slices else self.slices_of(key)

    # --- Changes ---------------------------------------------------------------------------------------------

    def change_service(self, name: str, namespace: str = "default", **spec: Any) -> None:
        key = ObjectKey(namespace, name)
        service = self.services[key]
        self.services[key] = msgspec.structs.replace(service, spec=msgspec.structs.replace(service.spec, **spec))

    def change_metadata(self, objects: dict[Any, Any], key: Any, **fields: Any) -> None:
        found = objects[key]
        objects[key] = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **fields))

    def change_port(self, name: str, index: int = 0, namespace: str = "default", **fields: Any) -> None:
        ports = list(self.services[ObjectKey(namespace, name)].spec.ports)
        ports[index] = msgspec.structs.replace(ports[index], **fields)
        self.change_service(name, namespace, ports=tuple(ports))

    def pods_of(self, app: str, namespace: str = "default") -> list[ObjectKey]:
        """Return the pods with a label `app`, or kube-dns and kube-proxy by `k8s-app`."""
        return [
            key
            for key, pod in self.pods.items()
            if key.namespace == namespace
            and app in (pod.metadata.labels.get("app"), pod.metadata.labels.get("k8s-app"))
        ]

    def change_pods(self, app: str, namespace: str = "default", **changes: Any) -> None:
        """Change `spec` and `status` fields of pods, given as `spec_dns_policy=` and `status_phase=`."""
        for key in self.pods_of(app, namespace):
            pod = self.pods[key]
            spec = {name[5:]: value for name, value in changes.items() if name.startswith("spec_")}
            status = {name[7:]: value for name, value in changes.items() if name.startswith("status_")}
            self.pods[key] = msgspec.structs.replace(
                pod,
                spec=msgspec.structs.replace(pod.spec, **spec),
                status=msgspec.structs.replace(pod.status, **status),
            )

    def change_containers(self, app: str, namespace: str = "default", **fields: Any) -> None:
        for key in self.pods_of(app, namespace):
            pod = self.pods[key]
            containers = tuple(msgspec.structs.replace(container, **fields) for container in pod.spec.containers)
            self.pods[key] = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=containers))

    def make_unready(self, app: str, namespace: str = "default", **container: Any) -> None:
        """Make pods not ready; `container`: fields of the status of their container."""
        for key in self.pods_of(app, namespace):
            self.set_unready(key, **container)

    def set_unready(self, key: ObjectKey, **container: Any) -> None:
        pod = self.pods[key]
        statuses = tuple(
            msgspec.structs.replace(each, ready=False, **container) for each in pod.status.container_statuses
        )
        conditions = (
            Condition(type="PodScheduled", status="True"),
            Condition(type="ContainersReady", status="False", reason="ContainersNotReady"),
            Condition(type="Ready", status="False", reason="ContainersNotReady", last_transition_time=LONG_AGO),
        )
        status = msgspec.structs.replace(pod.status, conditions=conditions, container_statuses=statuses)
        self.pods[key] = msgspec.structs.replace(pod, status=status)

    def warn(self, kind: str, key: ObjectKey, reason: str, message: str) -> None:
        about = {"kind": kind, "namespace": key.namespace, "name": key.name}
        event = {
            "metadata": {"name": f"{key.name}.{len(self.events)}", "namespace": key.namespace or "default"},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": format_time(NOW - 5),
        }
        self.events.append(msgspec.convert(event, Event))

    def add(self, *objects: Service | Pod | Endpoints) -> None:
        for each in objects:
            target: dict[Any, Any] = (
                self.services if isinstance(each, Service) else self.pods if isinstance(each, Pod) else self.endpoints
            )
            target[each.key] = each


# --- Objects -------------------------------------------------------------------------------------------------


def meta(name: str, namespace: str = "default", labels: Mapping[str, str] | None = None, **fields: Any) -> ObjectMeta:
    uid = f"uid-{namespace}-{name}"
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid,
        labels=dict(labels or {}),
        creation_timestamp=LONG_AGO,
        resource_version="50",
        **fields,
    )


def node(number: int, zone: str) -> Node:
    conditions = (
        Condition(type="Ready", status="True", reason="KubeletReady"),
        Condition(type="MemoryPressure", status="False"),
        Condition(type="DiskPressure", status="False"),
    )
    return Node(
        metadata=meta(f"node{number}", "", {"topology.kubernetes.io/zone": zone} if zone else {}),
        spec=NodeSpec(
            pod_cidr=f"10.244.{number}.0/24", pod_cidrs=(f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64")
        ),
        status=NodeStatus(
            addresses=(
                NodeAddress(type="InternalIP", address=f"10.0.0.20{number}"),
                NodeAddress(type="Hostname", address=f"node{number}"),
            ),
            conditions=conditions,
        ),
    )


def pod(
    name: str,
    ips: tuple[str, ...],
    node_name: str,
    labels: Mapping[str, str],
    *ports: ContainerPort,
    namespace: str = "default",
    owner: str = "",
    **spec: Any,
) -> Pod:
    references = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=owner, uid="uid-rs", controller=True),)
    return Pod(
        metadata=meta(name, namespace, labels, owner_references=references if owner else ()),
        spec=PodSpec(containers=(Container(name="server", image="nginx", ports=ports),), node_name=node_name, **spec),
        status=PodStatus(
            phase="Running",
            conditions=(
                Condition(type="PodScheduled", status="True", last_transition_time=LONG_AGO),
                Condition(type="ContainersReady", status="True", last_transition_time=LONG_AGO),
                Condition(type="Ready", status="True", last_transition_time=LONG_AGO),
            ),
            host_ip="10.0.0.201",
            pod_ip=ips[0],
            pod_ips=tuple(PodIP(ip=ip) for ip in ips),
            container_statuses=(
                ContainerStatus(
                    name="server",
                    image="nginx",
                    ready=True,
                    started=True,
                    state=ContainerState(running=ContainerStateRunning(started_at=LONG_AGO)),
                ),
            ),
        ),
    )


def service(name: str, *ports: ServicePort, namespace: str = "default", ip: str = "", **spec: Any) -> Service:
    families = spec.pop("ip_families", ("IPv4",))
    ips = spec.pop("cluster_ips", (ip,) if ip else ())
    return Service(
        metadata=meta(name, namespace),
        spec=ServiceSpec(ports=ports, cluster_ip=ips[0] if ips else "", cluster_ips=ips, ip_families=families, **spec),
    )


def deployment(
    name: str, labels: Mapping[str, str], replicas: int, namespace: str = "default", kind: str = "Deployment"
) -> Json:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels), "uid": f"uid-{name}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {}},
        },
    }


def endpoints(name: str, addresses: Iterable[str], *ports: EndpointPort, unready: Iterable[str] = ()) -> Endpoints:
    subset = EndpointSubset(
        addresses=tuple(EndpointAddress(ip=ip) for ip in addresses),
        not_ready_addresses=tuple(EndpointAddress(ip=ip) for ip in unready),
        ports=ports,
    )
    return Endpoints(metadata=meta(name), subsets=(subset,))


TCP_80 = ServicePort(port=80, target_port=80)


def base() -> World:
    """Return a cluster of three nodes in three zones with DNS, proxies, a load balancer and three applications."""
    world = World()
    for number, zone in enumerate("abc", 1):
        name = f"node{number}"
        world.nodes[name] = node(number, zone)
        world.add(
            pod(
                f"kube-proxy-{number}",
                (f"10.0.0.20{number}",),
                name,
                {"k8s-app": "kube-proxy"},
                namespace=SYSTEM,
                host_network=True,
            )
        )
        world.progress[name] = Progress(
            name, Versions(100, 100), NOW - 2, NOW + 38, mode=ModeInUse("nftables", "nftables")
        )
    for name in ("default", SYSTEM, "shop"):
        world.namespaces[name] = Namespace(metadata=meta(name, "", {"kubernetes.io/metadata.name": name}))
    _add_system(world)
    labels = {"app": "web", "pod-template-hash": "5d9c7b8f6"}
    for number in (1, 2, 3):
        address = (f"10.244.{number}.10", f"fd00:10:244:{number}::a")
        port = ContainerPort(container_port=80, name="http")
        world.add(pod(f"web-{number}", address, f"node{number}", labels, port, owner="web-5d9c7b8f6"))
    world.workloads.append(deployment("web", {"app": "web"}, 3))
    world.add(
        service("web", ServicePort(port=80, name="http", target_port="http"), ip="10.96.0.50", selector={"app": "web"})
    )
    api = {"app": "api", "tier": "backend", "pod-template-hash": "66f8"}
    for number in (1, 2):
        ports = (ContainerPort(container_port=8080, name="http"), ContainerPort(container_port=9090, name="metrics"))
        world.add(
            pod(
                f"api-{number}",
                (f"10.244.{number}.20",),
                f"node{number}",
                api,
                *ports,
                namespace="shop",
                owner="api-66f8",
            )
        )
    world.workloads.append(deployment("api", {"app": "api", "tier": "backend"}, 2, "shop"))
    world.add(
        service(
            "api",
            ServicePort(port=80, name="http", target_port=8080),
            ServicePort(port=9090, name="metrics", target_port=9090),
            namespace="shop",
            ip="10.96.0.60",
            selector={"app": "api", "tier": "backend"},
        )
    )
    world.add(pod("client", ("10.244.1.30",), "node1", {"run": "client"}))
    world.add(
        service("db", ServicePort(port=3306, name="mysql", target_port=3306), ip="10.96.0.70"),
        endpoints("db", ["10.0.0.9"], EndpointPort(port=3306, name="mysql")),
    )
    return world


def _add_system(world: World) -> None:
    world.config_maps[ObjectKey(SYSTEM, "coredns")] = ConfigMap(
        metadata=meta("coredns", SYSTEM), data={"Corefile": COREFILE}
    )
    dns = (
        ContainerPort(container_port=53, name="dns", protocol="UDP"),
        ContainerPort(container_port=53, name="dns-tcp"),
    )
    for number in (1, 2):
        world.add(
            pod(
                f"coredns-{number}",
                (f"10.244.{number}.2",),
                f"node{number}",
                {"k8s-app": "kube-dns"},
                *dns,
                namespace=SYSTEM,
                owner="coredns-77",
                dns_policy="Default",
            )
        )
    world.add(
        service(
            "kube-dns",
            ServicePort(port=53, name="dns", protocol="UDP", target_port=53),
            ServicePort(port=53, name="dns-tcp", target_port=53),
            namespace=SYSTEM,
            ip="10.96.0.10",
            selector={"k8s-app": "kube-dns"},
        ),
        service("kubernetes", ServicePort(port=443, name="https", target_port=6443), ip="10.96.0.1"),
    )
    world.workloads += [
        deployment("coredns", {"k8s-app": "kube-dns"}, 2, SYSTEM),
        deployment("kube-proxy", {"k8s-app": "kube-proxy"}, 3, SYSTEM, "DaemonSet"),
    ]
    world.endpoints[ObjectKey("default", "kubernetes")] = Endpoints(
        metadata=meta("kubernetes", labels={mirroring.SKIP_LABEL: "true"}),
        subsets=(
            EndpointSubset(addresses=(EndpointAddress(ip="10.0.0.1"),), ports=(EndpointPort(port=6443, name="https"),)),
        ),
    )
    world.written_slices[ObjectKey("default", "kubernetes")] = [
        EndpointSlice(
            metadata=meta("kubernetes", labels={SERVICE_NAME_LABEL: "kubernetes"}),
            endpoints=(Endpoint(addresses=("10.0.0.1",)),),
            ports=(SlicePort(name="https", port=6443, protocol="TCP"),),
        )
    ]
    world.add(
        pod("bridgehead-balancer-1", ("10.244.1.3",), "node1", {"k8s-app": "bridgehead-balancer"}, namespace=SYSTEM)
    )
    world.address_pools.append(
        {"kind": "IPAddressPool", "metadata": {"name": "first"}, "spec": {"addresses": ["10.0.0.240-10.0.0.250"]}}
    )
    world.ingress_classes.append({"metadata": {"name": "nginx"}})


# --- Random clusters -----------------------------------------------------------------------------------------


def healthy(seed: int) -> World:
    """Return a random cluster that works."""
    chance = random.Random(seed)
    world = base()
    if chance.random() < 0.2:
        world.progress.clear()  # kube-proxy's own
    world.sees_listeners = chance.random() < 0.7
    for number in range(chance.randint(1, 6)):
        _add_random(world, chance, number)
    if chance.random() < 0.3:
        _add_policies(world, chance)
    if chance.random() < 0.3:
        backend = {"service": {"name": "api", "port": chance.choice([{"number": 80}, {"name": "http"}])}}
        rule = {
            "host": "shop.example.com",
            "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
        }
        world.ingresses.append(
            {"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"ingressClassName": "nginx", "rules": [rule]}}
        )
    if chance.random() < 0.2:
        world.nodes["node3"] = msgspec.structs.replace(
            world.nodes["node3"], spec=msgspec.structs.replace(world.nodes["node3"].spec, unschedulable=True)
        )
    return world


def _add_random(world: World, chance: random.Random, number: int) -> None:
    name = chance.choice(["cart", "auth", "mail", "Search", "queue"]).lower() + str(number)
    namespace = chance.choice(["default", "shop"])
    kind = chance.choice(["ClusterIP", "ClusterIP", "NodePort", "LoadBalancer", "headless", "ExternalName", "byhand"])
    key = ObjectKey(namespace, name)
    if kind == "ExternalName":
        alias = chance.choice(["db.example.com", "web.default.svc.cluster.local", "api.shop.svc.cluster.local."])
        world.add(service(name, namespace=namespace, type="ExternalName", external_name=alias, ip_families=()))
        return
    if kind == "byhand":
        _add_by_hand(world, chance, name, number)
        return
    protocol = chance.choice(["TCP", "TCP", "UDP", "SCTP"])
    named = chance.random() < 0.5
    declared = chance.random() < 0.8 or named
    spread = "all" if chance.random() < 0.4 else "some"
    labels = {"app": name, **({"tier": "x"} if chance.random() < 0.3 else {})}
    dual = chance.random() < 0.3
    target = 7000 + number
    nodes = list(world.nodes) if spread == "all" else chance.sample(list(world.nodes), chance.randint(1, 3))
    for index, node_name in enumerate(nodes):
        digit = node_name[-1]
        ips: tuple[str, ...] = (f"10.244.{digit}.{100 + number * 10 + index}",)
        ips += (f"fd00:10:244:{digit}::{100 + number * 10 + index}",) if dual else ()
        ports = (ContainerPort(container_port=target, name="main", protocol=protocol),) if declared else ()
        each = pod(
            f"{name}-{index}", ips, node_name, {**labels, "extra": "1"}, *ports, namespace=namespace, owner=f"{name}-9"
        )
        world.add(each)
        if not declared:
            world.listeners[each.key] = (Listening(protocol=protocol.lower(), address="::", port=target),)
    world.workloads.append(deployment(name, labels, len(nodes), namespace))
    if chance.random() < 0.3:
        _add_passing_pods(world, chance, key, labels, nodes[0], number, target, protocol)
    headless = kind == "headless"
    port = ServicePort(
        port=target if headless else 80,
        name="main" if named or chance.random() < 0.5 else "",
        protocol=protocol,
        target_port="main" if named else target,
        node_port=30000 + number if kind in ("NodePort", "LoadBalancer") else 0,
    )
    spec: dict[str, Any] = {"selector": labels, "type": "ClusterIP" if headless else kind}
    ips = ("None",) if headless else (f"10.96.1.{number}", f"fd00:10:96::1{number}") if dual else (f"10.96.1.{number}",)
    spec["cluster_ips"] = ips
    spec["ip_families"] = ("IPv4", "IPv6") if dual else ("IPv4",)
    covers = set(nodes) >= set(world.nodes)
    if chance.random() < 0.2 and not headless:
        spec["session_affinity"] = "ClientIP"
    if covers and chance.random() < 0.5:
        spec["internal_traffic_policy"] = "Local"
    if covers and chance.random() < 0.5:
        spec["traffic_distribution"] = chance.choice(["PreferClose", "PreferSameZone", "PreferSameNode"])
    if kind in ("NodePort", "LoadBalancer"):
        local = (covers or kind == "LoadBalancer") and chance.random() < 0.5
        spec["external_traffic_policy"] = "Local" if local else "Cluster"
    if chance.random() < 0.2 and not headless:
        spec["external_ips"] = (chance.choice(["10.0.0.201", "10.0.0.202"]),) if covers or kind == "ClusterIP" else ()
        port = msgspec.structs.replace(port, port=81 + number)
    if chance.random() < 0.2:
        spec["publish_not_ready_addresses"] = True
    if kind == "LoadBalancer" and chance.random() < 0.5:
        spec["load_balancer_source_ranges"] = tuple(chance.sample(["10.0.0.0/8", "192.0.2.0/24", "fd00::/8"], 2))
        if not any("." in text for text in spec["load_balancer_source_ranges"]):
            spec["load_balancer_source_ranges"] += ("0.0.0.0/0",)
    made = service(name, port, namespace=namespace, **spec)
    if kind == "LoadBalancer":
        ingress = (LoadBalancerIngress(ip=f"10.0.0.{240 + number}", ip_mode="VIP"),)
        made = msgspec.structs.replace(made, status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress)))
    world.add(made)


def _add_passing_pods(
    world: World,
    chance: random.Random,
    key: ObjectKey,
    labels: Mapping[str, str],
    node_name: str,
    number: int,
    target: int,
    protocol: str,
) -> None:
    """Add a pod of a rolling update: terminating, just starting, or finished."""
    old = pod(
        f"{key.name}-old",
        (f"10.244.{node_name[-1]}.{200 + number}",),
        node_name,
        labels,
        ContainerPort(container_port=target, name="main", protocol=protocol),
        namespace=key.namespace,
    )
    match chance.randint(1, 3):
        case 1:
            metadata = msgspec.structs.replace(old.metadata, deletion_timestamp=format_time(NOW - 3))
            world.add(msgspec.structs.replace(old, metadata=metadata))
        case 2:
            metadata = msgspec.structs.replace(old.metadata, creation_timestamp=format_time(NOW - 3))
            world.add(msgspec.structs.replace(old, metadata=metadata, status=PodStatus(phase="Pending")))
        case _:
            world.add(msgspec.structs.replace(old, status=msgspec.structs.replace(old.status, phase="Succeeded")))


def _add_by_hand(world: World, chance: random.Random, name: str, number: int) -> None:
    port_name = chance.choice(["", "main"])
    made = service(name, ServicePort(port=80, name=port_name, target_port=80), ip=f"10.96.2.{number}")
    world.add(made)
    if chance.random() < 0.5:
        world.add(endpoints(name, ["10.0.0.9", "192.0.2.7"], EndpointPort(port=8000, name=port_name)))
    else:
        world.written_slices[made.key] = [
            EndpointSlice(
                metadata=meta(f"{name}-1", labels={SERVICE_NAME_LABEL: name}),
                endpoints=(Endpoint(addresses=("10.0.0.9",)),),
                ports=(SlicePort(name=port_name, port=8000, protocol="TCP"),),
            )
        ]


def _add_policies(world: World, chance: random.Random) -> None:
    """Add policies that allow what is needed, and a network plug-in that enforces them."""
    world.workloads.append(deployment("calico-node", {"k8s-app": "calico-node"}, 3, "calico-system", "DaemonSet"))
    peers: list[Json] = chance.choice(
        [
            [],
            [{"podSelector": {"matchLabels": {"run": "client"}}}],
            [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}],
            [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
        ]
    )
    ports: list[Json] = chance.choice([[], [{"port": 80}], [{"port": "http"}], [{"port": 70, "endPort": 90}]])
    rule = {**({"from": peers} if peers else {}), **({"ports": ports} if ports else {})}
    world.network_policies.append(policy("web", {"app": "web"}, ingress=[rule]))
    world.network_policies.append(policy("deny", {"app": "web"}, ingress=[]))
    if chance.random() < 0.5:
        dns = {"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]}
        world.network_policies.append(
            policy("egress", {}, egress=[{**dns, "ports": [{"protocol": "UDP", "port": 53}]}])
        )


def policy(
    name: str,
    labels: Mapping[str, str],
    *,
    ingress: list[Json] | None = None,
    egress: list[Json] | None = None,
    namespace: str = "default",
) -> Json:
    types = [*(["Ingress"] if ingress is not None else []), *(["Egress"] if egress is not None else [])]
    spec: Json = {"podSelector": {"matchLabels": dict(labels)}, "policyTypes": types}
    spec |= {"ingress": ingress} if ingress is not None else {}
    spec |= {"egress": egress} if egress is not None else {}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
