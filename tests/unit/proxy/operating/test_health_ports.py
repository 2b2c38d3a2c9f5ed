"""The answers of a node's health-check ports."""

from __future__ import annotations

import pytest

from bridgehead.objects.core import Service, ServicePort, ServiceSpec
from bridgehead.objects.endpoint_slices import Endpoint, EndpointConditions, EndpointSlice
from bridgehead.objects.meta import ObjectMeta
from bridgehead.proxy.operating.health_ports import HealthCheck, plan_health_check

SERVICE = Service(
    metadata=ObjectMeta(namespace="default", name="web"),
    spec=ServiceSpec(
        type="LoadBalancer",
        cluster_ip="10.96.0.5",
        cluster_ips=("10.96.0.5", "fd00:10:96::5"),
        external_traffic_policy="Local",
        health_check_node_port=31000,
        ports=(ServicePort(port=80),),
    ),
)


def endpoint(address, node="node1", ready=True):
    return Endpoint(addresses=(address,), node_name=node, conditions=EndpointConditions(ready=ready))


def slice_of(*endpoints):
    family = "IPv6" if any(":" in one.addresses[0] for one in endpoints) else "IPv4"
    return EndpointSlice(
        metadata=ObjectMeta(namespace="default", name="web-1"), address_type=family, endpoints=endpoints
    )


@pytest.mark.parametrize(
    ("slices", "count"),
    [
        ([], 0),
        ([slice_of(endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2"))], 1),
        ([slice_of(endpoint("10.244.1.2")), slice_of(endpoint("10.244.1.2"))], 1),
        ([slice_of(endpoint("10.244.1.2", ready=False))], 0),
        # Two pods are in the slices of both families.
        ([slice_of(endpoint("10.244.1.2"), endpoint("10.244.1.3")), slice_of(endpoint("fd00::2"), endpoint("fd00::3"))],
         2),
        ([slice_of(endpoint("fd00::2"))], 1),
    ],
)  # fmt: skip
def test_local_endpoints_are_counted(slices, count):
    assert plan_health_check(SERVICE, slices, "node1") == HealthCheck(31000, count)
