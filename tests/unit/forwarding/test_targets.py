from __future__ import annotations

from typing import Any

import pytest

from bridgehead.forwarding.targets import NoTarget, Route, find_ports, find_target
from bridgehead.objects.core.nodes import Node, NodeAddress, NodeStatus
from bridgehead.objects.core.services import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from bridgehead.objects.meta import Condition, ObjectMeta

HTTP = ServicePort(name="http", port=80, node_port=30080)
DNS = (ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(name="dns-tcp", port=53))


def service(*ports: ServicePort, ingress: tuple[str, ...] = (), **fields: Any) -> Service:
    spec = ServiceSpec(ports=ports, **{"cluster_ips": ("10.96.0.7",), "ip_families": ("IPv4",), **fields})
    balancer = LoadBalancerStatus(ingress=tuple(LoadBalancerIngress(ip=ip) for ip in ingress))
    return Service(metadata=ObjectMeta(name="web"), spec=spec, status=ServiceStatus(load_balancer=balancer))


def node(name: str, *addresses: str, ready: str = "True") -> Node:
    status = NodeStatus(
        addresses=tuple(NodeAddress(type="InternalIP", address=address) for address in addresses),
        conditions=(Condition(type="Ready", status=ready),),
    )
    return Node(metadata=ObjectMeta(name=name), status=status)


NODES = (node("b", "10.0.0.2", "fd00::2"), node("a", "10.0.0.1", "fd00::1"), node("c", "10.0.0.3", ready="False"))
EVERY_ROUTE = service(HTTP, ingress=("10.0.0.100",), external_ips=("10.0.0.50",))


@pytest.mark.parametrize(
    ("route", "shown"),
    [
        (None, "load-balancer 10.0.0.100:80"),
        ("load-balancer", "load-balancer 10.0.0.100:80"),
        ("node-port", "node-port 10.0.0.1:30080, 10.0.0.2:30080"),
        ("external-ip", "external-ip 10.0.0.50:80"),
        ("cluster-ip", "cluster-ip 10.96.0.7:80"),
    ],
)
def test_the_chosen_route_or_the_first_one(route: Route | None, shown: str):
    assert str(find_target(EVERY_ROUTE, HTTP, NODES, route)) == shown


def test_without_an_address_of_the_load_balancer_the_node_port_is_used():
    assert find_target(service(HTTP), HTTP, NODES, None).route == "node-port"
    assert find_target(service(HTTP), HTTP, (), None).route == "cluster-ip"


def test_nodes_are_reached_by_a_family_of_the_service():
    found = find_target(service(HTTP, ip_families=("IPv6",), cluster_ips=("fd00:96::1",)), HTTP, NODES, "node-port")
    assert found.addresses == (("fd00::1", 30080), ("fd00::2", 30080))
    assert str(found) == "node-port [fd00::1]:30080, [fd00::2]:30080"


def test_a_route_that_there_is_not():
    with pytest.raises(NoTarget, match="service/web has no load-balancer, or no node is ready"):
        find_target(service(HTTP), HTTP, NODES, "load-balancer")


def test_ports_by_number_with_all_their_protocols():
    assert find_ports(service(*DNS, HTTP), 53) == list(DNS)
    assert find_ports(service(*DNS, HTTP), 0) == [*DNS, HTTP]


@pytest.mark.parametrize(
    ("found", "number", "reason"),
    [
        (service(HTTP), 81, "service/web has no port 81; it has 80"),
        (service(HTTP, cluster_ips=("None",)), 80, "headless"),
        (service(HTTP, cluster_ips=(), type="ExternalName", external_name="x.org"), 80, "a DNS name for x.org"),
        (service(ServicePort(port=9, protocol="SCTP")), 0, "service/web has no port of TCP or UDP"),
    ],
)
def test_services_and_ports_to_which_nothing_leads(found: Service, number: int, reason: str):
    with pytest.raises(NoTarget, match=reason):
        find_ports(found, number)
