"""Whether a Service is programmed everywhere, from what the API has."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.controllers.endpoints import mirroring
from bridgehead.controllers.endpoints.slice_endpoints import MANAGER
from bridgehead.insight.programmed import count_pending, count_ready, describe, find_lacking, why_not_proxied
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Endpoints, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import LEASE_SECONDS, Versions, new_lease

NOW = 1_700_000_000.0
KEY = ObjectKey("x", "web")


def service(labels=None, **spec):
    spec = {
        "selector": {"app": "web"},
        "clusterIP": "10.96.0.9",
        "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "targetPort": 8080}],
        **spec,
    }
    metadata = {"name": "web", "namespace": "x", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Service)


def pod(number=1, *, ready=True, deleted=None, ip=True, phase="Running"):
    meta = {"name": f"web-{number}", "namespace": "x", "uid": f"p{number}", "deletionTimestamp": deleted}
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    if ip:
        status |= {"podIP": f"10.244.1.{number}"}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "node1"}, "status": status}, Pod)


def endpoint(number=1, *, ready=True, serving=True, terminating=False):
    return {
        "addresses": [f"10.244.1.{number}"],
        "targetRef": {"kind": "Pod", "uid": f"p{number}"},
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
    }


def by_hand(address):
    return {"addresses": [address], "conditions": {"ready": True}}


def slice_(*endpoints, port=8080, manager=MANAGER):
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": manager}
    ports = [{"name": "", "protocol": "TCP", "port": port}]
    return msgspec.convert({"metadata": {"labels": labels}, "endpoints": endpoints, "ports": ports}, EndpointSlice)


def node(name, ready=True):
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def lease(name, services, slices, age=0.0, refused=()):
    return msgspec.convert(new_lease(name, Versions(services, slices), NOW - age, None, refused), Lease)


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (service(), ""),
        (service(clusterIP="None"), "it is headless"),
        (service(type="ExternalName", clusterIP=""), "it is only a name for another one"),
        (service({"service.kubernetes.io/service-proxy-name": "x"}), "it is left to the proxy x"),
    ],
)
def test_services_that_this_proxy_does_not_serve_have_a_reason(candidate, why):
    assert why_not_proxied(candidate) == why


@pytest.mark.parametrize(
    ("pods", "slices", "pending"),
    [
        ([], [], 0),
        ([], [slice_()], 0),
        ([pod()], [], 1),
        ([pod()], [slice_(endpoint())], 0),
        ([pod(ip=False)], [], 0),
        ([pod(ready=False)], [slice_(endpoint())], 2),
        ([pod(ready=False)], [slice_(endpoint(ready=False, serving=False))], 0),
        ([pod(deleted="2026-11-21T02:35:22Z")], [slice_(endpoint())], 2),
        ([pod(deleted="2026-11-21T02:35:22Z")], [slice_(endpoint(ready=False, terminating=True))], 0),
        ([pod(phase="Failed")], [slice_(endpoint())], 1),
        ([pod(1), pod(2)], [slice_(endpoint(1)), slice_(endpoint(2))], 0),
        ([pod(1), pod(2)], [slice_(endpoint(2)), slice_(endpoint(3))], 2),
        ([pod()], [slice_(endpoint(), port=80)], 2),  # the Service's port was changed
        ([pod()], [slice_(endpoint()), slice_(endpoint(9), manager="somebody")], 0),
    ],
)
def test_slices_must_match_the_pods(pods, slices, pending):
    assert count_pending(service(), pods, None, slices, [node("node1")]) == pending


@pytest.mark.parametrize(
    ("labels", "slices", "pending"),
    [
        ({}, [], 2),
        ({}, [slice_(by_hand("1.2.3.4"), by_hand("1.2.3.5"), manager=mirroring.MANAGER)], 0),
        ({}, [slice_(by_hand("1.2.3.4"), manager=mirroring.MANAGER)], 1),
        ({}, [slice_(by_hand("1.2.3.4"), by_hand("1.2.3.5"), manager="somebody")], 2),
        ({mirroring.SKIP_LABEL: "true"}, [], 0),
    ],
)
def test_endpoints_of_services_without_selector_must_be_mirrored(labels, slices, pending):
    subset = {
        "addresses": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}, {"ip": "nonsense"}],
        "ports": [{"port": 8080}],
    }
    endpoints = msgspec.convert({"metadata": {"name": "web", "labels": labels}, "subsets": [subset]}, Endpoints)
    assert count_pending(service(selector={}), [], endpoints, slices, []) == pending


def test_foreign_slices_are_accepted_as_they_are():
    assert count_pending(service(selector={}), [pod()], None, [], []) == 0


def test_only_ready_endpoints_are_required():
    assert count_ready([slice_(endpoint(1), endpoint(2, ready=False)), slice_(endpoint(1))]) == 1


@pytest.mark.parametrize(
    ("leases", "lacking"),
    [
        ([lease("node1", 5, 7), lease("node2", 9, 9)], []),
        ([lease("node1", 5, 7)], ["node2 (its proxy publishes nothing)"]),
        ([lease("node1", 5, 7), lease("node2", 4, 7)], ["node2 (Services at 4 of 5)"]),
        ([lease("node1", 5, 6), lease("node2", 5, 7)], ["node1 (EndpointSlices at 6 of 7)"]),
        (
            [lease("node2", 5, 7), lease("node1", 0, 0)],
            ["node1 (Services at 0 of 5, EndpointSlices at 0 of 7)"],
        ),
        (
            [lease("node1", 5, 7), lease("node2", 9, 9, age=LEASE_SECONDS + 12)],
            [f"node2 (its proxy last published {LEASE_SECONDS + 12} s ago)"],
        ),
        (
            [lease("node1", 5, 7, refused=[KEY]), lease("node2", 5, 7, refused=[ObjectKey("x", "other")])],
            ["node1 (its kernel refuses the Service's rules)"],
        ),
    ],
)
def test_nodes_that_lack_the_service_are_listed(leases, lacking):
    nodes = [node("node2"), node("node1"), node("node3", ready=False)]
    assert list(map(str, find_lacking(nodes, leases, Versions(5, 7), NOW, KEY))) == lacking


def test_long_lists_of_nodes_are_shortened():
    lacking = find_lacking([node(f"node{i}") for i in range(1, 10)], [], Versions(), NOW, KEY)
    assert describe(lacking[:1], 2) == "node1 (its proxy publishes nothing)"
    assert describe(lacking, 2).endswith("node2 (its proxy publishes nothing) and 7 others")
