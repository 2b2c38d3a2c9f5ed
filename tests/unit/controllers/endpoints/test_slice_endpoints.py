"""Slices wanted for a Service and its pods."""

from __future__ import annotations

import pytest

from bridgehead.controllers.endpoints.slice_endpoints import orphaned_slices, slice_labels, wanted_endpoints
from bridgehead.controllers.endpoints.slice_plan import Group
from bridgehead.objects.core import ContainerPort, Pod, Service, ServicePort
from bridgehead.objects.endpoint_slices import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
    SlicePort,
)
from bridgehead.objects.meta import ObjectMeta, ObjectReference, OwnerReference
from tests.unit.controllers.endpoints.sample_objects import node, pod, service

NODES = {"node1": node("node1", zone="a"), "node2": node("node2")}
PORT = ServicePort(port=80, name="http", target_port=8080)
SLICE_PORT = SlicePort(name="http", protocol="TCP", port=8080)


def wanted(service: Service, *pods: Pod) -> dict[Group, list[Endpoint]]:
    return wanted_endpoints(service, pods, NODES.get)


def only(service: Service, *pods: Pod) -> Endpoint:
    (group,) = wanted(service, *pods).values()
    (endpoint,) = group
    return endpoint


def test_an_endpoint_has_the_fields_of_its_pod():
    found = wanted(service(PORT), pod("p1", hostname="one", subdomain="web"), pod("p2", ("10.244.2.1",), node="node2"))
    reference = ObjectReference(kind="Pod", namespace="default", name="p1", uid="uid-p1")
    assert list(found) == [Group("IPv4", (SLICE_PORT,))]
    first, second = next(iter(found.values()))
    assert first == Endpoint(
        addresses=("10.244.1.1",),
        conditions=EndpointConditions(ready=True, serving=True, terminating=False),
        hostname="one",
        target_ref=reference,
        node_name="node1",
        zone="a",
    )
    assert (second.addresses, second.node_name, second.zone, second.hostname) == (("10.244.2.1",), "node2", None, None)


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("terminating", [False, True])
def test_conditions_follow_the_pod(publish, ready, terminating):
    found = only(service(PORT, publish_not_ready_addresses=publish), pod(ready=ready, terminating=terminating))
    assert found.conditions == EndpointConditions(
        ready=publish or (ready and not terminating), serving=ready, terminating=terminating
    )


def test_ineligible_pods_leave_an_empty_group():
    gone = [pod("p1", ips=()), pod("p2", phase="Failed"), pod("p3", phase="Succeeded")]
    assert wanted(service(PORT), *gone) == {Group("IPv4", ()): []}


def test_each_family_has_its_own_slices():
    dual = service(PORT, ip_families=("IPv4", "IPv6"))
    found = wanted(dual, pod("p1", ("10.244.1.1", "fd00::1")), pod("p2", ("10.244.1.2",)))
    assert {group.address_type: [e.addresses for e in members] for group, members in found.items()} == {
        "IPv4": [("10.244.1.1",), ("10.244.1.2",)],
        "IPv6": [("fd00::1",)],
    }
    assert wanted(dual, pod("p2", ("10.244.1.2",)))[Group("IPv6", ())] == []
    assert list(wanted(service(PORT), pod("p1", ("fd00::1", "10.244.1.1")))) == [Group("IPv4", (SLICE_PORT,))]


def test_pods_with_different_ports_of_one_name_are_in_different_slices():
    named = service(ServicePort(port=80, name="http", target_port="web"), ServicePort(port=443, name="tls"))
    pods = [
        pod("p1", ports=(ContainerPort(container_port=8080, name="web"),)),
        pod("p2", ports=(ContainerPort(container_port=9090, name="web"),)),
        pod("p3"),
    ]
    numbers = {
        tuple(port.port for port in group.ports): [e.target_ref.name for e in members if e.target_ref]
        for group, members in wanted(named, *pods).items()
    }
    assert numbers == {(8080, 443): ["p1"], (9090, 443): ["p2"], (443,): ["p3"]}


def test_a_headless_service_can_have_no_ports():
    found = wanted(service(cluster_ip="None"), pod())
    assert [(group, len(members)) for group, members in found.items()] == [(Group("IPv4", ()), 1)]


def test_a_pod_on_an_unknown_node_is_omitted_unless_not_ready_addresses_are_published():
    lost = pod(node="gone")
    assert wanted(service(PORT), lost) == {Group("IPv4", ()): []}
    assert only(service(PORT, publish_not_ready_addresses=True), lost).zone is None


@pytest.mark.parametrize(
    ("distribution", "node_name", "hints"),
    [
        (None, "node1", None),
        ("PreferClose", "node1", EndpointHints(for_zones=(ForZone(name="a"),))),
        ("PreferSameZone", "node1", EndpointHints(for_zones=(ForZone(name="a"),))),
        ("PreferSameZone", "node2", None),
        (
            "PreferSameNode",
            "node1",
            EndpointHints(for_zones=(ForZone(name="a"),), for_nodes=(ForNode(name="node1"),)),
        ),
        ("PreferSameNode", "node2", EndpointHints(for_nodes=(ForNode(name="node2"),))),
    ],
)
def test_hints_are_kept_in_the_endpoint(distribution, node_name, hints):
    close = service(PORT, traffic_distribution=distribution)
    assert only(close, pod(node=node_name)).hints == hints
    assert only(close, pod(node=node_name, ready=False)).hints is None


def test_labels_are_those_of_the_service_plus_reserved_ones():
    labels = {"app": "web", "kubernetes.io/service-name": "lie", "service.kubernetes.io/headless": "lie"}
    found = {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "app": "web",
    }
    assert slice_labels(service(labels=labels)) == found
    assert slice_labels(service(labels=labels, cluster_ip="None")) == {**found, "service.kubernetes.io/headless": ""}


def test_only_slices_owned_by_the_service_are_deleted_with_it():
    owner = OwnerReference(api_version="v1", kind="Service", name="web", uid="u")
    owned = EndpointSlice(metadata=ObjectMeta(name="a", owner_references=(owner,)))
    assert orphaned_slices([owned, EndpointSlice(metadata=ObjectMeta(name="freed"))]) == (owned,)
