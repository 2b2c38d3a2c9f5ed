"""Builders of Services and pods for the tests of the endpoint controllers."""

from __future__ import annotations

from typing import Any

from bridgehead.objects.core import (
    Container,
    ContainerPort,
    Node,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from bridgehead.objects.meta import Condition, ObjectMeta

CREATED = "2026-01-01T00:00:00Z"
READY_SINCE = "2026-01-02T00:00:00Z"


def service(
    *ports: ServicePort, name: str = "web", labels: dict[str, str] | None = None, deleted: bool = False, **spec: Any
) -> Service:
    """Return a Service with a cluster IP that selects app=web; `spec` overrides fields of its spec."""
    spec = {"cluster_ip": "10.96.0.9", "ip_families": ("IPv4",), "selector": {"app": "web"}, **spec}
    meta = ObjectMeta(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        labels=labels or {},
        creation_timestamp=CREATED,
        deletion_timestamp=CREATED if deleted else None,
    )
    return Service(metadata=meta, spec=ServiceSpec(ports=ports, **spec))


def pod(
    name: str = "p1",
    ips: tuple[str, ...] = ("10.244.1.1",),
    *,
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    node: str = "node1",
    ports: tuple[ContainerPort, ...] = (),
    sidecar_ports: tuple[ContainerPort, ...] = (),
    init_ports: tuple[ContainerPort, ...] = (),
    since: str = READY_SINCE,
    **spec: Any,
) -> Pod:
    meta = ObjectMeta(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        labels={"app": "web"},
        deletion_timestamp=CREATED if terminating else None,
    )
    containers = (Container(name="c", ports=ports),)
    init_containers = (
        Container(name="i", ports=init_ports),
        Container(name="s", ports=sidecar_ports, restart_policy="Always"),
    )
    condition = Condition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    return Pod(
        metadata=meta,
        spec=PodSpec(containers=containers, init_containers=init_containers, node_name=node, **spec),
        status=PodStatus(
            phase=phase,
            conditions=(condition,),
            pod_ip=ips[0] if ips else "",
            pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        ),
    )


def node(name: str, zone: str = "") -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={"topology.kubernetes.io/zone": zone} if zone else {}))
