from __future__ import annotations

import pytest

from bridgehead.controllers.endpoints.endpoint_pods import families_of, host_name, may_receive, pod_ips, resolve_port
from bridgehead.controllers.endpoints.trigger_times import TriggerTimes
from bridgehead.objects.core import ContainerPort, Pod, PodStatus, ServicePort
from tests.unit.controllers.endpoints.sample_objects import CREATED, pod, service

HTTP = ContainerPort(container_port=8080, name="http")
HTTP_UDP = ContainerPort(container_port=9090, name="http", protocol="UDP")


@pytest.mark.parametrize(
    ("given", "plain", "with_terminating"),
    [
        (pod(), True, True),
        (pod(ready=False), True, True),
        (pod(ips=()), False, False),
        (pod(terminating=True), False, True),
        (pod(phase="Succeeded"), False, False),
        (pod(phase="Failed"), False, False),
        (pod(phase="Pending"), True, True),
    ],
)
def test_pods_are_eligible_by_phase_address_and_termination(given, plain, with_terminating):
    assert may_receive(given, include_terminating=False) is plain
    assert may_receive(given, include_terminating=True) is with_terminating


@pytest.mark.parametrize(
    ("target", "ports", "number"),
    [
        (8081, {}, 8081),
        (0, {}, 80),
        ("", {}, 80),
        ("http", {"ports": (HTTP,)}, 8080),
        ("http", {"ports": (HTTP_UDP, HTTP)}, 8080),
        ("http", {"ports": (HTTP_UDP,)}, None),
        ("metrics", {"ports": (HTTP,)}, None),
        ("http", {"sidecar_ports": (HTTP,)}, 8080),
        ("http", {"init_ports": (HTTP,)}, None),
    ],
)
def test_target_ports_are_resolved(target, ports, number):
    assert resolve_port(pod(**ports), ServicePort(port=80, target_port=target)) == number


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({}, ("IPv4",)),
        ({"ip_families": ("IPv6", "IPv4")}, ("IPv6", "IPv4")),
        ({"ip_families": (), "cluster_ip": "fd00::1"}, ("IPv6",)),
        ({"ip_families": (), "cluster_ip": "10.96.0.1"}, ("IPv4",)),
        ({"ip_families": (), "cluster_ip": "None"}, ("IPv4", "IPv6")),
    ],
)
def test_addresses_are_selected_by_family(spec, families):
    assert families_of(service(**spec)) == families


def test_a_pod_has_a_host_name_in_its_subdomains_service():
    assert host_name(pod(hostname="db-0", subdomain="web"), service()) == "db-0"
    assert host_name(pod(hostname="db-0", subdomain="other"), service()) == ""
    assert host_name(pod(subdomain="web"), service()) == ""


def test_a_status_with_only_the_old_address_field_is_read():
    assert list(pod_ips(Pod(status=PodStatus(pod_ip="10.244.1.1")))) == ["10.244.1.1"]


def test_the_trigger_time_is_the_earliest_unreported_change():
    times = TriggerTimes()
    one, two = pod("p1", since="2026-01-02T00:00:01Z"), pod("p2", since="2026-01-02T00:00:02Z")
    assert times.advance(service(), [one]) == CREATED, "a new Service is not late for pods that were there before it"
    assert times.advance(service(), [one]) == ""
    changed = pod("p1", ready=False, since="2026-01-02T00:00:03Z")
    assert times.advance(service(), [changed, two]) == "2026-01-02T00:00:02Z", "the earliest of what is new"
    assert times.advance(service(), [two]) == "", "a pod that left has no time of its own"
    times.forget(service().key)
    assert times.advance(service(), [two]) == CREATED
