"""Services that lead to a terminating pod, and the time when their slices have withdrawn it."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.kubelet.pods.withdrawal import (
    SETTLED_SECONDS,
    find_services_of,
    is_leaving_node,
    is_long_unready,
    is_withdrawn,
    pods_of,
)
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.times import format_time

NOW = 1_700_000_000.0
GOING = {"ready": False, "serving": True, "terminating": True}


def pod(ready=True, since=NOW, phase="Running", ips=("10.244.1.2",)):
    conditions = []
    if ready is not None:
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(since)}]
    status = {"phase": phase, "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips], "conditions": conditions}
    return msgspec.convert({"metadata": {"uid": "p1", "labels": {"app": "web", "v": "1"}}, "status": status}, Pod)


def service(labels=None, ingress="", **spec):
    spec = {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], **spec}
    status = {"loadBalancer": {"ingress": [{"ip": ingress}] if ingress else []}}
    metadata = {"name": "web", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Service)


def endpoint(uid="p1", **conditions):
    return {"addresses": ["10.244.1.2"], "targetRef": {"uid": uid} if uid else None, "conditions": conditions}


def slice_(*endpoints):
    return msgspec.convert({"endpoints": endpoints}, EndpointSlice)


@pytest.mark.parametrize(
    ("candidate", "leads"),
    [
        (service(), True),
        (service(selector={"app": "web", "v": "1"}), True),
        (service(selector={"app": "web", "v": "2"}), False),
        (service(selector={}), False),
        (service(clusterIP="None"), False),
        (service(clusterIP=""), False),
        (service(type="ExternalName", clusterIP=""), False),
        (service(type="LoadBalancer"), True),
        (service(publishNotReadyAddresses=True), False),
        (service(labels={"service.kubernetes.io/service-proxy-name": "other"}), False),
    ],
)
def test_services_that_select_a_pod_are_found(candidate, leads):
    assert bool(find_services_of(pod(), [candidate])) is leads


@pytest.mark.parametrize(
    ("slices", "withdrawn"),
    [
        ([slice_(endpoint(ready=True))], False),
        ([slice_(endpoint())], False),  # unknown means ready
        ([slice_(endpoint(**GOING))], True),
        ([slice_(endpoint(ready=False, serving=False, terminating=True))], True),
        ([slice_(endpoint(**GOING)), slice_(endpoint("p2", ready=True)), slice_()], True),
        ([slice_(endpoint(**GOING)), slice_(endpoint(ready=True))], False),
        # The slice shows the pod before it became ready; that it is comes next.
        ([slice_(endpoint(ready=False, serving=False, terminating=False))], False),
        ([slice_(endpoint(ready=False))], False),
        # A ready pod is in the slices, as soon as they know of it.
        ([], False),
        ([slice_(endpoint("p2", ready=True))], False),
        # An endpoint of another owner at the same address.
        ([slice_(endpoint(**GOING)), slice_(endpoint("", ready=True))], True),
    ],
)
def test_a_ready_pod_is_withdrawn_when_its_slices_mark_it_terminating(slices, withdrawn):
    assert is_withdrawn(pod(), service(), slices) is withdrawn


@pytest.mark.parametrize(
    "terminating",
    [pod(ready=False), pod(ready=None), pod(phase="Succeeded"), pod(phase="Failed"), pod(ips=("fd00::2",))],
)
def test_a_pod_that_is_no_endpoint_may_be_missing_in_the_slices(terminating):
    assert is_withdrawn(terminating, service(), [])
    assert not is_withdrawn(terminating, service(), [slice_(endpoint(ready=True))])


def test_a_dual_stack_pod_must_be_withdrawn_in_both_families():
    assert not is_withdrawn(pod(ips=("10.244.1.2", "fd00::2")), service(ipFamilies=["IPv6"]), [])


LOCAL = {"externalTrafficPolicy": "Local"}


@pytest.mark.parametrize(
    ("spec", "ingress", "leaving"),
    [
        (LOCAL, "10.0.0.60", True),
        ({**LOCAL, "externalIPs": ["10.0.0.60"]}, "", True),
        ({**LOCAL, "type": "LoadBalancer"}, "", False),  # nobody gave it an address
        ({**LOCAL, "externalTrafficPolicy": "Cluster"}, "10.0.0.60", False),
    ],
)
def test_clients_leave_the_node_of_the_last_ready_endpoint(spec, ingress, leaving):
    last = msgspec.convert({"metadata": {"uid": "p1"}, "spec": {"nodeName": "node1"}}, Pod)
    going, elsewhere = {**endpoint(**GOING), "nodeName": "node1"}, {**endpoint("p2", ready=True), "nodeName": "node2"}
    web = service(ingress=ingress, **spec)
    assert is_leaving_node(last, web, [slice_(going), slice_(elsewhere)]) is leaving
    other = {**endpoint("p3", ready=True), "nodeName": "node1"}
    assert not is_leaving_node(last, web, [slice_(going), slice_(elsewhere, other)])
    # The address of a Service that is scaled to 0, or deleted, does not move, as no node has a ready endpoint.
    assert not is_leaving_node(last, web, [slice_(going), slice_({**elsewhere, "conditions": GOING})])
    assert not is_leaving_node(last, web, [])


def test_slices_are_indexed_by_pod():
    assert pods_of(slice_(endpoint("p1"), endpoint(""), endpoint("p2"))) == ["p1", "p2"]


@pytest.mark.parametrize(
    ("terminating", "long"),
    [
        (pod(ready=True, since=NOW - 1000), False),
        (pod(ready=False, since=NOW - 1), False),
        (pod(ready=False, since=NOW - SETTLED_SECONDS - 1), True),
        (pod(ready=None), True),
    ],
)
def test_a_pod_that_was_unready_for_long_is_not_waited_for(terminating, long):
    assert is_long_unready(terminating, NOW) is long
