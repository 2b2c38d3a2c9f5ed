"""Rows from objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.insight.live.row_computation import (
    count_endpoints,
    endpoints_row,
    event_row,
    node_row,
    pod_row,
    service_row,
)
from bridgehead.insight.live.rows import EndpointItem, ServiceRow
from bridgehead.insight.proxies import ProxyState
from bridgehead.objects.core import Service

from .objects import CREATED_SECONDS, endpoint, event, node, pod, service, slice_

HOSTILE = "a\x1b[31m[red]b\u202e\nc"


def row_of(service_: Service, *slices: Any, has_pods: bool | None = True, is_rejected: bool = False) -> ServiceRow:
    return service_row(service_, slices, has_pods=has_pods, is_rejected=is_rejected)


def test_service_row():
    ports = [{"name": "http", "port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}
    found = row_of(
        service("web", type="LoadBalancer", ports=ports, externalIPs=["1.2.3.4"], status=status),
        slice_("web", endpoint("10.244.1.1", "web-1"), endpoint("10.244.1.2", "web-2", ready=False)),
    )
    assert found == ServiceRow(
        key="default/web",
        namespace="default",
        name="web",
        type="LoadBalancer",
        cluster_ips=("10.96.0.1",),
        external=("1.2.3.4", "10.0.0.9"),
        ports=("http 80:30080/TCP", "53/UDP"),
        ready=1,
        total=2,
        problem="",
        created=CREATED_SECONDS,
    )
    assert msgspec.json.decode(msgspec.json.encode(found))["clusterIps"] == ["10.96.0.1"]


READY = slice_("web", endpoint("10.244.1.1", "web-1"))
UNREADY = slice_("web", endpoint("10.244.1.1", "web-1", ready=False))


@pytest.mark.parametrize(
    ("service_", "slices", "has_pods", "problem"),
    [
        (service("web"), [READY], True, ""),
        (service("web"), [UNREADY], True, "NotReady"),
        (service("web", publishNotReadyAddresses=True), [UNREADY], True, ""),
        (service("web"), [], False, "NoPods"),
        (service("web"), [], True, "NotReady"),
        (service("web"), [], None, "NoEndpoints"),
        (service("web", selector={}), [], None, "NoEndpoints"),
        (service("web", type="LoadBalancer"), [READY], True, "Pending"),
        (service("web", type="LoadBalancer"), [], False, "NoPods"),
        (service("web", type="ExternalName", externalName="example.com", selector={}), [], None, ""),
    ],
)
def test_problem_of_a_service(service_: Service, slices: list[Any], has_pods: bool | None, problem: str):
    assert row_of(service_, *slices, has_pods=has_pods).problem == problem


def test_a_rejected_service():
    assert row_of(service("web"), READY, is_rejected=True).problem == "Rejected"


def test_endpoints_of_both_families_count_once_and_ended_ones_do_not_count():
    slices = [
        slice_("web", endpoint("10.244.1.1", "web-1"), endpoint("10.244.1.2", "web-2")),
        slice_("web", endpoint("fd00::1", "web-1"), addressType="IPv6"),
        slice_("web", endpoint("10.244.1.3", "web-3", ready=False, serving=False, terminating=True)),
    ]
    assert count_endpoints(slices) == (2, 2)


def test_endpoints_row():
    found = endpoints_row(
        service("web"),
        [
            slice_("web", endpoint("10.244.1.2", "web-2", ready=False, serving=True, terminating=True)),
            slice_("web", endpoint("10.244.1.1", "web-1"), endpoint("10.9.9.9"), name="web-y"),
        ],
    )
    assert (found.ports, found.slices) == (("http 8080/TCP",), ("web-x", "web-y"))
    assert found.endpoints == (
        EndpointItem("10.244.1.1", "ready", "web-1", "node1", "", 1),
        EndpointItem("10.244.1.2", "draining", "web-2", "node1", ""),
        EndpointItem("10.9.9.9", "ready", "", "node1", "", 1),
    )


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason}}, "restartCount": 3}


def ended(reason: str = "", code: int = 0) -> dict[str, Any]:
    return {"name": "c", "state": {"terminated": {"reason": reason, "exitCode": code}}}


INIT = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}
UNREADY_POD = [{"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("options", "ready", "status", "restarts"),
    [
        ({}, "1/1", "Running", 0),
        ({"containerStatuses": [waiting("CrashLoopBackOff")]}, "0/1", "CrashLoopBackOff", 3),
        ({"containerStatuses": [ended("Completed")], "phase": "Succeeded"}, "0/1", "Completed", 0),
        ({"containerStatuses": [ended(code=3)], "phase": "Failed"}, "0/1", "ExitCode:3", 0),
        ({"containerStatuses": [], "phase": "Pending"}, "0/1", "Pending", 0),
        ({"terminating": True}, "1/1", "Terminating", 0),
        ({"terminating": True, "reason": "NodeLost"}, "1/1", "Unknown", 0),
        ({"reason": "Evicted", "phase": "Failed", "containerStatuses": []}, "0/1", "Evicted", 0),
        (
            {"spec": INIT, "phase": "Pending", "containerStatuses": [], "initContainerStatuses": [waiting("")]},
            "0/2",
            "Init:0/2",
            3,
        ),
        (
            {
                "spec": INIT,
                "initContainerStatuses": [ended(), {"name": "s", "ready": True, "started": True, "restartCount": 1}],
            },
            "2/2",
            "Running",
            1,
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            }
            | {"containerStatuses": []},
            "0/1",
            "SchedulingGated",
            0,
        ),
    ],
)
def test_status_of_a_pod(options: dict[str, Any], ready: str, status: str, restarts: int):
    found = pod_row(pod("web-1", **options))
    assert (f"{found.ready}/{found.total}", found.status, found.restarts) == (ready, status, restarts)


def test_a_terminating_pod_is_not_ready():
    assert pod_row(pod("web-1")).is_ready
    assert not pod_row(pod("web-1", terminating=True)).is_ready
    assert not pod_row(pod("web-1", conditions=UNREADY_POD)).is_ready


def test_node_row():
    found = node_row(node("node1", unschedulable=True), ProxyState("nftables, not running", "does not run"), 7)
    assert found.status == "Ready,SchedulingDisabled"
    assert (found.proxy, found.proxy_problem, found.pods) == ("nftables, not running", "does not run", 7)
    assert (found.ip, found.version, found.is_ready) == ("10.0.0.201", "v1.36.0", True)
    assert node_row(node("node1", ready="Unknown"), ProxyState("-"), 0).status == "NotReady"


def test_event_row():
    found = event_row(event("e1", count=4))
    assert (found.object, found.count, found.last) == ("Pod/web-1", 4, CREATED_SECONDS)
    assert event_row(event("e1", lastTimestamp="yesterday")).last == 0.0


def test_hostile_texts_are_one_plain_line():
    rows = [
        row_of(service(HOSTILE, ports=[{"name": HOSTILE, "port": 1}], externalIPs=[HOSTILE * 100])),
        pod_row(pod(HOSTILE, reason=HOSTILE * 1000, node=HOSTILE, containerStatuses=[])),
        node_row(node(HOSTILE), ProxyState(HOSTILE, HOSTILE), 1),
        event_row(event("e", HOSTILE, reason=HOSTILE, message=HOSTILE * 100_000, type=HOSTILE)),
    ]
    for row in rows:
        for name in row.__struct_fields__:
            value = getattr(row, name)
            for text in value if isinstance(value, tuple) else [value]:
                if isinstance(text, str) and name != "key":
                    assert text.isprintable()
                    assert len(text) <= 500
