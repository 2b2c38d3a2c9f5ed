"""Services and Nodes as the announcers see them."""

from __future__ import annotations

import ipaddress

import pytest

from bridgehead.balancer.compiled_configuration import Configuration, Pool, ServiceSelection
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.speaker.announced_services import EXCLUDED_LABEL, node_view, publication_of
from bridgehead.balancer.view import NodeView
from bridgehead.objects.core import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from bridgehead.objects.endpoint_slices import Endpoint, EndpointConditions, EndpointSlice
from bridgehead.objects.meta import Condition, ObjectMeta

POOL = Pool("pool", "metallb", (parse_range("10.0.0.10-10.0.0.50"), parse_range("fd00::/120")))
NAMED = Pool("named", "metallb", (parse_range("10.0.1.0/24"),), auto_assign=False)
EIP = Pool("eip", "openelb", (parse_range("10.0.2.0/24"),))
DEFAULT_EIP = Pool("default-eip", "openelb", (parse_range("10.0.3.0/24"),), is_default=True)
LIMITED = Pool("limited", "metallb", (parse_range("10.0.4.0/24"),), auto_assign=False, services=ServiceSelection())
CONFIGURATION = Configuration((POOL, NAMED, EIP, DEFAULT_EIP, LIMITED))


def service(*ips: str, **spec: object) -> Service:
    ingress = tuple(LoadBalancerIngress(ip=ip) for ip in ips)
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", uid="u", labels={"app": "web"}),
        spec=ServiceSpec(**({"type": "LoadBalancer"} | spec)),  # type: ignore[arg-type]
        status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress)),
    )


def slice_of(**conditions: dict[str, bool | None]) -> EndpointSlice:
    """A slice with one endpoint on each node, with these conditions."""
    return EndpointSlice(
        endpoints=tuple(
            Endpoint(addresses=("10.244.0.1",), node_name=node, conditions=EndpointConditions(**values))
            for node, values in conditions.items()
        )
    )


def addresses(found: Service, lb_class: str = "") -> list[str]:
    publication = publication_of(found, [], CONFIGURATION, lb_class=lb_class)
    return [] if publication is None else [str(address) for address, _ in publication.addresses]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (service("10.0.0.10", "fd00::1"), ["10.0.0.10", "fd00::1"]),
        (service("10.0.0.9"), []),  # in no pool
        (service("", "10.0.0.10"), ["10.0.0.10"]),  # an entry with a host name
        (service("10.0.0.10", type="ClusterIP"), []),
        # Pools that give addresses by themselves are not for externalIPs.
        (service(type="ClusterIP", external_ips=("10.0.0.11", "10.0.3.1", "10.0.4.1", "192.0.2.1")), []),
        (service(type="ClusterIP", external_ips=("10.0.1.1", "10.0.2.1", "odd")), ["10.0.1.1", "10.0.2.1"]),
        (service("10.0.0.10", external_ips=("10.0.0.10", "10.0.1.1")), ["10.0.0.10", "10.0.1.1"]),
        (service(type="ExternalName", external_ips=("10.0.1.1",)), []),
        (service("10.0.0.10", load_balancer_class="example.com/other"), []),
    ],
)
def test_addresses_that_a_pool_contains_are_announced(found, expected):
    assert addresses(found) == expected


def test_an_external_ip_that_a_service_was_given_is_announced_for_that_one():
    found = service("10.0.0.10", external_ips=("10.0.1.1", "10.0.1.2"))

    publication = publication_of(found, [], CONFIGURATION, is_assigned={"10.0.0.10", "10.0.1.1"}.__contains__)

    assert publication is not None
    assert [str(address) for address, _ in publication.addresses] == ["10.0.0.10", "10.0.1.2"]


def test_a_class_selects_the_services_of_that_class():
    assert addresses(service("10.0.0.10", load_balancer_class="a/b"), lb_class="a/b") == ["10.0.0.10"]
    assert addresses(service("10.0.0.10"), lb_class="a/b") == []


def test_ready_and_serving_endpoints_count():
    publication = publication_of(
        service("10.0.0.10", external_traffic_policy="Local"),
        [
            slice_of(unknown={}, ready={"ready": True}),
            slice_of(
                draining={"ready": False, "serving": True, "terminating": True},
                broken={"ready": False},
                gone={"ready": False, "serving": False},
            ),
        ],
        CONFIGURATION,
    )
    assert publication is not None
    assert publication.endpoint_nodes == {"unknown", "ready", "draining"}
    assert publication.ready_nodes == {"unknown", "ready"}
    assert publication.has_endpoints
    assert publication.is_local
    assert publication.addresses == ((ipaddress.ip_address("10.0.0.10"), POOL),)


def test_endpoints_without_a_node_count_for_the_cluster():
    endpoint = EndpointSlice(endpoints=(Endpoint(addresses=("192.0.2.1",)),))
    publication = publication_of(service("10.0.0.10"), [endpoint], CONFIGURATION)
    assert publication is not None
    assert (publication.has_endpoints, publication.endpoint_nodes) == (True, frozenset())


def node(*, labels: dict[str, str] | None = None, unschedulable: bool = False, unavailable: str = "") -> Node:
    conditions = (Condition(type="NetworkUnavailable", status=unavailable),) if unavailable else ()
    return Node(
        metadata=ObjectMeta(name="node1", labels=labels or {}),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(conditions=conditions),
    )


EXCLUDED = {EXCLUDED_LABEL: ""}


@pytest.mark.parametrize(
    ("found", "options", "expected"),
    [
        (node(), {}, NodeView("node1", {})),
        (node(labels=EXCLUDED), {}, NodeView("node1", EXCLUDED, is_excluded=True)),
        (node(labels=EXCLUDED), {"ignore_exclude": True}, NodeView("node1", EXCLUDED)),
        (node(unavailable="True"), {"ignore_exclude": True}, NodeView("node1", {}, is_excluded=True)),
        (node(unavailable="False"), {}, NodeView("node1", {})),
        (node(unschedulable=True), {}, NodeView("node1", {}, is_cordoned=True)),
        (node(), {"is_ending": True}, NodeView("node1", {}, is_ending=True)),
    ],
)
def test_nodes(found, options, expected):
    assert node_view(found, **options) == expected
