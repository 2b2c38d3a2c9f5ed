"""Endpoints wanted for a Service and its pods."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.controllers.endpoints.endpoints_controller import (
    is_left_over,
    needs_write,
    wanted_endpoints,
    wanted_subsets,
)
from bridgehead.objects.core import ContainerPort, Endpoints, Pod, Service, ServicePort
from bridgehead.objects.meta import ObjectMeta, ObjectReference
from tests.unit.controllers.endpoints.sample_objects import pod, service

PORT = ServicePort(port=80, name="http", target_port=8080)
MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def show(service: Service, *pods: Pod) -> list[str]:
    return [
        ",".join([a.ip for a in subset.addresses] + [f"!{a.ip}" for a in subset.not_ready_addresses])
        + ":"
        + ",".join(str(port.port) for port in subset.ports)
        for subset in wanted_subsets(service, pods)
    ]


def test_an_address_has_the_fields_of_its_pod():
    (subset,) = wanted_subsets(service(PORT), [pod(hostname="one", subdomain="web")])
    (address,) = subset.addresses
    assert (address.ip, address.hostname, address.node_name) == ("10.244.1.1", "one", "node1")
    assert address.target_ref == ObjectReference(kind="Pod", namespace="default", name="p1", uid="uid-p1")
    (port,) = subset.ports
    assert (port.name, port.port, port.protocol) == ("http", 8080, "TCP")


NAMED = ServicePort(port=80, target_port="web")
WEB = (ContainerPort(container_port=8080, name="web"),)


@pytest.mark.parametrize(
    ("given", "pods", "wanted"),
    [
        (service(PORT), [], []),
        (service(PORT), [pod()], ["10.244.1.1:8080"]),
        (service(PORT), [pod(), pod("p2", ("10.244.1.2",), ready=False)], ["10.244.1.1,!10.244.1.2:8080"]),
        (service(PORT, publish_not_ready_addresses=True), [pod(ready=False)], ["10.244.1.1:8080"]),
        (service(PORT), [pod(terminating=True)], []),
        (service(PORT, publish_not_ready_addresses=True), [pod(terminating=True)], ["10.244.1.1:8080"]),
        (service(PORT), [pod(phase="Failed"), pod("p2", ips=())], []),
        (service(NAMED), [pod(ports=WEB), pod("p2", ("10.244.1.2",))], ["10.244.1.1:8080"]),
        (service(cluster_ip="None"), [pod()], ["10.244.1.1:"]),
        (service(), [pod()], []),
        (service(NAMED, cluster_ip="None"), [pod()], []),
        (service(PORT, ip_families=("IPv6", "IPv4")), [pod(ips=("10.244.1.1", "fd00::1"))], ["fd00::1:8080"]),
        (service(PORT, ip_families=("IPv6",)), [pod()], []),
        (service(PORT, ip_families=(), cluster_ip="fd00::9"), [pod(ips=("10.244.1.1", "fd00::1"))], ["fd00::1:8080"]),
        (service(PORT, ip_families=(), cluster_ip="None"), [pod(ips=("fd00::1", "10.244.1.1"))], ["fd00::1:8080"]),
    ],
)
def test_pods_are_grouped_into_subsets(given, pods, wanted):
    assert show(given, *pods) == wanted


def test_labels_are_those_of_the_service_plus_the_managed_by_label():
    assert wanted_endpoints(service(PORT, labels={"a": "1"}), [], None).metadata.labels == {"a": "1", **MANAGED}
    headless = wanted_endpoints(service(PORT, cluster_ip="None"), [], None)
    assert headless.metadata.labels == {"service.kubernetes.io/headless": "", **MANAGED}
    current = msgspec.structs.replace(headless, metadata=ObjectMeta(labels={"service.kubernetes.io/headless": ""}))
    assert wanted_endpoints(service(PORT), [], current).metadata.labels == MANAGED


def test_more_than_a_thousand_addresses_are_truncated_and_annotated():
    pods = [pod(f"p{n}", (f"10.244.{n // 250}.{n % 250 + 1}",)) for n in range(1001)]
    full = wanted_endpoints(service(PORT), pods, None)
    assert full.metadata.annotations == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert len(full.subsets[0].addresses) == 1000
    assert not needs_write(full, wanted_endpoints(service(PORT), pods, full)), "it settles"
    assert wanted_endpoints(service(PORT), pods[1:], full).metadata.annotations == {}


def test_foreign_annotations_are_kept():
    meta = ObjectMeta(
        namespace="default", name="web", uid="u", resource_version="7", labels={"old": "1"}, annotations={"mine": "1"}
    )
    found = wanted_endpoints(service(PORT), [pod()], Endpoints(metadata=meta))
    assert (found.metadata.uid, found.metadata.resource_version) == ("u", "7")
    assert (found.metadata.labels, found.metadata.annotations) == (MANAGED, {"mine": "1"})


def test_a_new_trigger_time_alone_causes_no_write():
    current = wanted_endpoints(service(PORT), [pod()], None)
    meta = msgspec.structs.replace(current.metadata, annotations={TRIGGER: "2026-01-01T00:00:00Z"})
    current = msgspec.structs.replace(current, metadata=meta)
    wanted = wanted_endpoints(service(PORT), [pod()], current)
    assert wanted.metadata.annotations == {}
    assert not needs_write(current, wanted)
    assert needs_write(None, wanted)
    assert needs_write(current, wanted_endpoints(service(PORT), [pod(ready=False)], current))
    assert needs_write(current, wanted_endpoints(service(PORT, labels={"a": "1"}), [pod()], current))


def test_endpoints_used_for_leader_election_are_not_left_over():
    assert is_left_over(Endpoints())
    annotations = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    assert not is_left_over(Endpoints(metadata=ObjectMeta(annotations=annotations)))
