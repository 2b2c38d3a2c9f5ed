"""The oracle of the cluster: addresses that are given twice, and what has not converged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from chaos.allocations import Allocations
from chaos.convergence import Cluster, find_in_back_off, find_unsettled, find_wrong_rules

from bridgehead.objects.core import ContainerState, ContainerStateWaiting, ContainerStatus, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice


def service(name: str, *addresses: str, node_port: int = 0, uid: str = "") -> Service:
    port = {"port": 80, "protocol": "TCP", **({"nodePort": node_port} if node_port else {})}
    spec = {
        "clusterIP": addresses[0],
        "clusterIPs": addresses,
        "ipFamilies": ["IPv4"],
        "selector": {"app": name},
        "ports": [port],
    }
    return msgspec.convert({"metadata": metadata(name, uid=uid or name), "spec": spec}, Service)


def pod(name: str, address: str, phase: str = "Running", *, ready: bool = True, **spec: Any) -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
    labels = {"app": name.partition("-")[0]}
    return msgspec.convert({"metadata": metadata(name, labels=labels), "spec": spec, "status": status}, Pod)


def slice_of(name: str, *addresses: str, ready: bool = True) -> EndpointSlice:
    endpoints = [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses]
    labels = {"kubernetes.io/service-name": name}
    document = {"metadata": metadata(f"{name}-1", labels=labels), "addressType": "IPv4", "endpoints": endpoints}
    return msgspec.convert(document, EndpointSlice)


def node(name: str, status: str = "True") -> Node:
    conditions = [{"type": "Ready", "status": status}]
    return msgspec.convert({"metadata": {"name": name}, "status": {"conditions": conditions}}, Node)


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "default", **more}


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ([service("a", "10.96.0.1"), service("b", "10.96.0.2")], 0),
        ([service("a", "10.96.0.1"), service("b", "10.96.0.1")], 1),
        ([service("a", "10.96.0.1", "fd00::1"), service("b", "10.96.0.2", "fd00::1")], 1),
        ([service("a", "10.96.0.1", node_port=30001), service("b", "10.96.0.2", node_port=30001)], 1),
        ([service("a", "10.96.0.1", node_port=30001), service("b", "10.96.0.2", node_port=30002)], 0),
        ([service("a", "None"), service("b", "None")], 0),
    ],
)
def test_duplicate_service_addresses_are_found(services: list[Service], expected: int) -> None:
    allocations = Allocations()
    allocations.observe_services(services)
    assert len(allocations.given_twice) == expected


def test_a_changed_service_address_is_found() -> None:
    allocations = Allocations()
    allocations.observe_services([service("a", "10.96.0.1", uid="u1")])
    allocations.observe_services([service("a", "10.96.0.2", uid="u2")])
    assert not allocations.changed, "it is another Service of that name"
    allocations.observe_services([service("a", "10.96.0.3", uid="u2")])
    assert allocations.changed


def test_duplicate_addresses_of_running_pods_are_found() -> None:
    pods = [pod("a-1", "10.244.1.2"), pod("b-1", "10.244.1.2")]
    allocations = Allocations()
    allocations.observe_pods(pods)
    assert not allocations.given_twice, "a status may be late"
    allocations.observe_pods(pods)
    assert allocations.given_twice == {"10.244.1.2: default/a-1 and default/b-1"}


@pytest.mark.parametrize("other", [pod("b-1", "10.244.1.2", "Succeeded"), pod("b-1", "10.244.1.2", hostNetwork=True)])
def test_completed_and_host_network_pods_may_share_an_address(other: Pod) -> None:
    allocations = Allocations()
    for _ in range(2):
        allocations.observe_pods([pod("a-1", "10.244.1.2"), other])
    assert not allocations.given_twice


@pytest.mark.parametrize(
    ("nodes", "pods", "slices", "expected"),
    [
        ([node("node1")], [pod("web-1", "10.244.1.2")], [slice_of("web", "10.244.1.2")], []),
        ([node("node1", "Unknown")], [], [], ["node node1 is not ready"]),
        (
            [],
            [pod("web-1", "10.244.1.2", ready=False)],
            [slice_of("web", "10.244.1.2", ready=False)],
            ["pod default/web-1 is not ready"],
        ),
        (
            [],
            [pod("web-1", "10.244.1.2")],
            [],
            ["service default/web: endpoints [], ready pods ['10.244.1.2']"],
        ),
        (
            [],
            [],
            [slice_of("web", "10.244.1.2")],
            ["service default/web: endpoints ['10.244.1.2'], ready pods []"],
        ),
    ],
)
def test_unsettled_objects_are_found(
    nodes: list[Node], pods: list[Pod], slices: list[EndpointSlice], expected: list[str]
) -> None:
    cluster = Cluster(nodes, pods, [service("web", "10.96.0.1")], slices)
    assert list(find_unsettled(cluster)) == expected


@pytest.mark.parametrize(("priority_class", "is_settled"), [("", True), ("system-node-critical", False)])
def test_pods_in_back_off_are_listed_separately(priority_class: str, is_settled: bool) -> None:
    found = pod("web-1", "10.244.1.2", ready=False, priorityClassName=priority_class)
    waiting = ContainerStatus(
        name="web", state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    )
    status = msgspec.structs.replace(found.status, container_statuses=(waiting,))
    cluster = Cluster([], [msgspec.structs.replace(found, status=status)], [], [])
    assert (not list(find_unsettled(cluster)), bool(list(find_in_back_off(cluster)))) == (is_settled, is_settled)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("ip saddr 10.244.0.0/16 ip daddr 10.96.0.0/12; 10.96.0.1 . tcp . 80 : goto n3; 10.107.9.8/32; 10.244.1.2", []),
        ("10.96.0.1 . tcp . 80 : goto n3; 10.244.1.2/32", ["node1: Services without rules: 10.107.9.8"]),
        ("10.96.0.1; 10.107.9.8; 10.99.1.1; 10.244.1.2", ["node1: Services that are gone, with rules: 10.99.1.1"]),
        ("10.96.0.1; 10.107.9.8", ["node1: endpoints without rules: 10.244.1.2"]),
        ("10.96.0.1; 10.107.9.8; 10.244.1.2; 10.244.1.9", ["node1: endpoints that are gone, with rules: 10.244.1.9"]),
    ],
)
def test_wrong_rules_of_a_node_are_found(rules: str, expected: list[str]) -> None:
    services = [service("a", "10.96.0.1"), service("b", "10.107.9.8"), service("headless", "None")]
    slices = [slice_of("a", "10.244.1.2"), slice_of("headless", "10.244.1.3"), slice_of("b", "10.244.1.4", ready=False)]
    cluster = Cluster([], [], services, slices)
    assert list(find_wrong_rules(cluster, {"node1": rules}, "nftables")) == expected


def test_userspace_mode_is_not_checked_for_endpoint_rules() -> None:
    cluster = Cluster([], [], [service("a", "10.96.0.1")], [slice_of("a", "10.244.1.2")])
    assert not list(find_wrong_rules(cluster, {"node1": "10.96.0.1"}, "userspace"))
