"""Troubles of Services, and Services that have none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.endpoints.service_troubles import Trouble, event_name, find_troubles
from bridgehead.objects.core import (
    ContainerPort,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Pod,
    Service,
    ServicePort,
    ServiceStatus,
)
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice, SlicePort
from bridgehead.objects.meta import Condition
from tests.unit.controllers.endpoints.sample_objects import pod, service

NUMBERED = ServicePort(port=80, target_port=8080)
NAMED = ServicePort(name="http", port=80, target_port="web")
UNNAMED = ServicePort(port=80, target_port="web")
TLS = ServicePort(name="https", port=443, target_port="tls")
WEB = ContainerPort(name="web", container_port=8080)
SLICE = EndpointSlice(endpoints=(Endpoint(addresses=("192.0.2.1",)),), ports=(SlicePort(name="http", port=80),))
UNNAMED_SLICE = EndpointSlice(endpoints=SLICE.endpoints, ports=(SlicePort(port=80),))


def reasons(service: Service, *pods: Pod, slices: tuple[EndpointSlice, ...] = ()) -> list[str]:
    return [trouble.reason for trouble in find_troubles(service, pods, slices)]


def only(service: Service, *pods: Pod) -> Trouble:
    (trouble,) = find_troubles(service, pods, ())
    return trouble


def load_balancer(status: ServiceStatus | None = None, **spec: Any) -> Service:
    found = service(NUMBERED, type="LoadBalancer", **spec)
    return msgspec.structs.replace(found, status=status or ServiceStatus())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (reasons(service(NUMBERED)), ["SelectorMatchesNothing"]),
        (reasons(service(NUMBERED, cluster_ip="None")), ["SelectorMatchesNothing"]),
        (reasons(service(NUMBERED), slices=(SLICE,)), []),
        (reasons(service(NUMBERED), pod(ready=False, ips=())), []),
        (reasons(service(NUMBERED, publish_not_ready_addresses=True)), []),
        (reasons(service(NUMBERED, selector={})), ["NoSelectorNoEndpoints"]),
        (reasons(service(NUMBERED, selector={}), slices=(SLICE,)), []),
        (reasons(service(NUMBERED, selector={}, cluster_ip="None")), []),
        (reasons(service(NUMBERED, selector={}, publish_not_ready_addresses=True)), []),
        (reasons(service(type="ExternalName", selector={}, cluster_ip="")), []),
        (reasons(service(NUMBERED, deleted=True)), []),
        (reasons(service(NAMED), pod()), ["TargetPortNameMissing"]),
        (reasons(service(NAMED), pod(ports=(WEB,))), []),
        (reasons(service(NAMED), pod(), pod("p2", ports=(WEB,))), []),
        (reasons(service(NAMED), pod(sidecar_ports=(WEB,))), []),
        (reasons(service(NAMED), pod(init_ports=(WEB,))), ["TargetPortNameMissing"]),
        (reasons(service(NAMED), pod(), slices=(SLICE,)), []),
        (reasons(service(UNNAMED), pod(), slices=(UNNAMED_SLICE,)), []),
        (reasons(service(NAMED, TLS), pod(ports=(WEB,))), ["TargetPortNameMissing"]),
        (reasons(load_balancer(), pod()), ["NoLoadBalancer"]),
        (reasons(load_balancer()), ["NoLoadBalancer", "SelectorMatchesNothing"]),
        (reasons(load_balancer(ServiceStatus(conditions=(Condition(type="x", status="False"),))), pod()), []),
        (
            reasons(
                load_balancer(ServiceStatus(load_balancer=LoadBalancerStatus(ingress=(LoadBalancerIngress(ip="1"),)))),
                pod(),
            ),
            [],
        ),
    ],
)
def test_reasons(found, expected):
    assert found == expected


def test_a_message_has_the_cause_and_the_fix():
    assert only(service(NUMBERED)).message == (
        "The selector app=web matches no pod in namespace default, so connections to it are refused. Compare it with"
        " the labels of the pods: kubectl get pods -n default --show-labels"
    )
    assert "its name has no addresses" in only(service(NUMBERED, cluster_ip="None")).message
    assert "kubectl set selector -n default service web KEY=VALUE" in only(service(NUMBERED, selector={})).message
    assert 'no load balancer of class "example.com/a" has processed it' in (
        only(load_balancer(load_balancer_class="example.com/a"), pod()).message
    )


def test_the_message_of_a_missing_port_has_the_ports_that_there_are():
    udp = ContainerPort(name="dns", container_port=53, protocol="UDP")
    metrics = ContainerPort(name="metrics", container_port=9)
    message = only(service(NAMED, TLS), pod(ports=(udp, metrics))).message
    assert 'a TCP port named "web", the targetPort of port 80 (and 1 more); they have: metrics.' in message
    assert "they have no named TCP port" in only(service(NAMED), pod(ports=(udp,))).message


@given(st.dictionaries(st.text(min_size=1, max_size=63), st.text(max_size=63), min_size=1, max_size=50))
def test_a_long_selector_is_cut(selector):
    assert len(only(service(NUMBERED, selector=selector)).message) < 1024


def test_the_name_of_an_event_is_that_of_the_service_and_of_the_reason():
    web = service(NUMBERED)
    recreated = msgspec.structs.replace(web, metadata=msgspec.structs.replace(web.metadata, uid="new"))
    names = {event_name(web, "A"), event_name(web, "B"), event_name(recreated, "A")}
    assert len(names) == 3
    assert event_name(service(), "A") in names
    assert all(name.startswith("web.") for name in names)
