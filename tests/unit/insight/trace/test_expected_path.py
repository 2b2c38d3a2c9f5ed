"""The expected fate of a connection; tests/integration/test_trace_agreement.py compares it with real ones."""

from __future__ import annotations

import pytest

from bridgehead.insight.trace.expected_path import Client, Fate, expect
from bridgehead.insight.trace.policy import explain
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import FrontendKey, NodeFacts
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.service_frontends import compile_service

from .objects import endpoint_slice, service

CIDRS = ("10.244.0.0/16",)
FACTS = NodeFacts(name="node1", addresses=("10.0.0.201",), zone="a", cluster_cidrs=CIDRS)
SETTINGS = Settings(cluster_cidrs=CIDRS, service_cidrs=("10.96.0.0/12",), own_pod_cidrs=("10.244.1.0/24",))
POD, OUTSIDE, NODE = Client("10.244.1.5"), Client("192.0.2.9"), Client("10.0.0.201", is_node=True)


def find(address, port, client=POD, *, mode="nftables", settings=SETTINGS, slices=None, protocol="tcp", **spec):
    made = service(**spec)
    table = FrontendTable()
    found = slices if slices is not None else [endpoint_slice("10.244.1.5", "10.244.1.6")]
    table.update(made.key, compile_service(made, found, FACTS))
    return expect(FrontendKey(address, protocol, port), client, table, FACTS, settings, mode=mode)


def test_backends_have_equal_chances_and_see_the_client():
    found = find("10.96.0.10", 80, Client("10.244.2.9"))
    assert found.fate is Fate.TRANSLATED
    assert [(one.backend.address, one.chance, one.client) for one in found.choices] == [
        ("10.244.1.5", 0.5, "10.244.2.9"),
        ("10.244.1.6", 0.5, "10.244.2.9"),
    ]


@pytest.mark.parametrize(
    ("client", "mode", "clients"),
    [
        (POD, "nftables", ["10.0.0.201", "10.244.1.5"]),  # the first backend is the client itself
        (OUTSIDE, "nftables", ["10.0.0.201", "10.0.0.201"]),
        (POD, "userspace", ["10.0.0.201", "10.0.0.201"]),
    ],
)
def test_the_client_that_a_backend_sees(client, mode, clients):
    assert [one.client for one in find("10.96.0.10", 80, client, mode=mode).choices] == clients


@pytest.mark.parametrize(
    ("address", "port", "fate", "because"),
    [
        ("10.96.0.10", 81, Fate.REJECTED, "but not the port 81/tcp"),
        ("10.96.0.99", 80, Fate.DROPPED, "no Service has it"),
        ("10.244.1.6", 8080, Fate.UNTRANSLATED, "no Service has this address"),
        ("10.0.0.201", 30080, Fate.TRANSLATED, "all usable endpoints"),
        ("10.0.0.202", 30080, Fate.UNTRANSLATED, "no Service has this address"),
        ("127.0.0.1", 30080, Fate.UNTRANSLATED, "no Service has this address"),
    ],
)
def test_destinations(address, port, fate, because):
    found = find(address, port, type="NodePort", ports=[{"name": "http", "port": 80, "nodePort": 30080}])
    assert found.fate is fate
    assert because in found.because


def test_node_ports_on_loopback_addresses():
    settings = Settings(cluster_cidrs=CIDRS, localhost_node_ports=True)
    spec = {"type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}
    assert find("127.0.0.1", 30080, NODE, settings=settings, **spec).fate is Fate.TRANSLATED
    assert find("127.0.0.1", 30080, POD, settings=settings, **spec).fate is Fate.UNTRANSLATED


LOCAL = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}},
}


@pytest.mark.parametrize(("client", "fate"), [(POD, Fate.TRANSLATED), (NODE, Fate.TRANSLATED), (OUTSIDE, Fate.DROPPED)])
def test_a_local_policy_without_local_endpoints(client, fate):
    slices = [endpoint_slice("10.244.2.5", nodeName="node2")]
    assert find("203.0.113.1", 80, client, slices=slices, **LOCAL).fate is fate


def test_source_ranges_and_a_service_without_endpoints():
    ranges = LOCAL | {"externalTrafficPolicy": "Cluster", "loadBalancerSourceRanges": ["198.51.100.0/24"]}
    assert find("203.0.113.1", 80, OUTSIDE, **ranges).fate is Fate.DROPPED
    assert find("203.0.113.1", 80, Client("198.51.100.7"), **ranges).fate is Fate.TRANSLATED
    assert find("203.0.113.1", 80, OUTSIDE, slices=[], **ranges).fate is Fate.DROPPED
    assert find("203.0.113.1", 80, OUTSIDE, mode="iptables", slices=[], **ranges).fate is Fate.REJECTED


def reasons(found, slices, **spec):
    return " | ".join(explain(service(**spec), slices, found.frontend, found, FACTS))


def test_reasons():
    slices = [endpoint_slice("10.244.1.6", hints={"forZones": [{"name": "a"}]})]
    slices.append(endpoint_slice("10.244.2.6", hints={"forZones": [{"name": "b"}]}))
    spec = {"sessionAffinity": "ClientIP"}
    text = reasons(find("10.96.0.10", 80, OUTSIDE, slices=slices, **spec), slices, **spec)
    assert "internalTrafficPolicy applies: Cluster" in text
    assert "2 ready" in text
    assert "keep connections in zone a: 1 ready endpoints are left out" in text
    assert "connects again within 10800 s" in text
    assert "the client is outside of the ranges of pods" in text


def test_the_reason_for_terminating_backends():
    slices = [endpoint_slice("10.244.1.6", conditions={"ready": False, "serving": True, "terminating": True})]
    found = find("10.96.0.10", 80, slices=slices)
    assert found.fate is Fate.TRANSLATED
    assert "no usable endpoint is ready, so that terminating ones are used" in reasons(found, slices)
