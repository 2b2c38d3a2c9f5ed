"""Pods that a node does not fit."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.kubelet.pods.node_fit import (
    affinity_refusal,
    find_shortages,
    ports_refusal,
    taint_refusal,
)
from bridgehead.kubelet.pods.static_manifest import SOURCE
from bridgehead.objects.core import Node
from tests.unit.kubelet.pod_factory import make_pod, requesting

CAPACITY = {"cpu": "2", "memory": "1Gi", "pods": "3", "ephemeral-storage": "1Gi"}
LACK = "Node didn't have enough resource: "


@pytest.mark.parametrize(
    ("wanted", "others", "refusals"),
    [
        (requesting(requests={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}), [], []),
        (
            requesting(requests={"cpu": "1"}),
            [requesting(requests={"cpu": "1500m"})],
            [("OutOfcpu", f"{LACK}cpu, requested: 1000, used: 1500, capacity: 2000")],
        ),
        (requesting(), [requesting(requests={"cpu": "9"})], []),
        (
            requesting(requests={"memory": "2Gi", "ephemeral-storage": "2Gi"}),
            [],
            [
                ("OutOfmemory", f"{LACK}memory, requested: 2147483648, used: 0, capacity: 1073741824"),
                (
                    "OutOfephemeral-storage",
                    f"{LACK}ephemeral-storage, requested: 2147483648, used: 0, capacity: 1073741824",
                ),
            ],
        ),
        (requesting(), [requesting()] * 3, [("OutOfpods", f"{LACK}pods, requested: 1, used: 3, capacity: 3")]),
    ],
)
def test_a_pod_needs_what_the_node_has_left(wanted, others, refusals):
    assert [shortage.refusal for shortage in find_shortages(wanted, others, CAPACITY)] == refusals


def publishing(port, protocol="TCP", host_ip=""):
    ports = [{"containerPort": 80, "hostPort": port, "protocol": protocol, "hostIP": host_ip}]
    return make_pod(containers=[{"name": "app", "ports": ports}])


@pytest.mark.parametrize(
    ("wanted", "taken", "is_refused"),
    [
        (publishing(80), publishing(80), True),
        (publishing(80), publishing(81), False),
        (publishing(80, "UDP"), publishing(80), False),
        (publishing(80, host_ip="127.0.0.1"), publishing(80), True),
        (publishing(80, host_ip="127.0.0.1"), publishing(80, host_ip="10.0.0.1"), False),
    ],
)
def test_a_pod_needs_free_ports_of_the_node(wanted, taken, is_refused):
    why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert ports_refusal(wanted, [taken]) == (("NodePorts", why) if is_refused else None)


def node(*taints, **labels):
    return msgspec.convert({"metadata": {"name": "node1", "labels": labels}, "spec": {"taints": list(taints)}}, Node)


@pytest.mark.parametrize(("selector", "is_refused"), [({}, False), ({"disk": "ssd"}, False), ({"disk": "hdd"}, True)])
def test_a_pod_needs_a_node_that_its_selector_matches(selector, is_refused):
    why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    refusal = affinity_refusal(make_pod(nodeSelector=selector), node(disk="ssd"))
    assert refusal == (("NodeAffinity", why) if is_refused else None)


GOING = {"key": "maintenance", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("made", "taint", "is_refused"),
    [
        (make_pod(), GOING, True),
        (make_pod(), {**GOING, "effect": "NoSchedule"}, False),
        (make_pod(tolerations=[{"operator": "Exists"}]), GOING, False),
        (make_pod(annotations={SOURCE: "file"}), GOING, False),
    ],
)
def test_a_pod_tolerates_the_taints_that_would_evict_it(made, taint, is_refused):
    why = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    assert taint_refusal(made, node(taint)) == (("TaintToleration", why) if is_refused else None)
