"""Pods that a node does not fit, and the pods that end for a critical one."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.kubelet.pods.node_fit import (
    NoVictims,
    affinity_refusal,
    choose_victims,
    find_shortages,
    ports_refusal,
    taint_refusal,
)
from bridgehead.kubelet.pods.static_manifest import SOURCE
from bridgehead.objects.core import Node
from tests.unit.kubelet.pod_factory import make_pod

CAPACITY = {"cpu": "2", "memory": "1Gi", "pods": "3", "ephemeral-storage": "1Gi"}
LACK = "Node didn't have enough resource: "
CRITICAL = 2_000_000_000


def requesting(name="p", *, qos_class="", annotations=None, **spec):
    containers = [{"name": "app", "resources": {"requests": spec.pop("requests", {})}}]
    made = make_pod(annotations=annotations, qos_class=qos_class, containers=containers, **spec)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name=name))


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


def other(name, qos_class="Burstable", *, cpu="0", memory="0", **more):
    return requesting(name, qos_class=qos_class, requests={"cpu": cpu, "memory": memory}, **more)


@pytest.mark.parametrize(
    ("others", "victims"),
    [
        # A pod that frees enough, before two that free it together.
        ([other("a", cpu="300m"), other("b", cpu="300m"), other("c", cpu="600m")], ["c"]),
        # If several pods free enough, the one that requests least.
        ([other("a", cpu="900m"), other("b", cpu="700m")], ["b"]),
        ([other("a", cpu="700m", memory="2Mi"), other("b", cpu="900m", memory="1Mi")], ["b"]),
        ([other("a", cpu="400m"), other("b", cpu="300m"), other("c", cpu="100m")], ["a", "b"]),
        # A guaranteed pod only if the others do not free enough, and then no more of the others than needed.
        ([other("a", "Guaranteed", cpu="600m"), other("b", cpu="600m")], ["b"]),
        ([other("a", "Guaranteed", cpu="500m"), other("b", cpu="100m"), other("c", "BestEffort")], ["b", "a"]),
        ([other("a", "Guaranteed", cpu="600m"), other("b", cpu="100m")], ["a"]),
        # Critical pods end only for those of a higher priority.
        ([other("a", cpu="600m", priority=CRITICAL), other("b", cpu="900m")], ["b"]),
        ([other("a", cpu="600m", annotations={SOURCE: "file"}), other("b", cpu="900m")], ["b"]),
    ],
)
def test_other_pods_end_for_a_critical_pod(others, victims):
    critical = requesting("critical", requests={"cpu": "600m"}, priority=CRITICAL)
    shortages = find_shortages(critical, others, {"cpu": sum_of_cpu(others)})
    assert [victim.metadata.name for victim in choose_victims(critical, others, shortages)] == victims


def sum_of_cpu(pods):
    return f"{sum(int(one.spec.containers[0].resources.requests['cpu'].removesuffix('m')) for one in pods)}m"


def test_a_critical_pod_ends_one_of_a_lower_priority():
    low, high = other("low", cpu="1", priority=CRITICAL), other("high", cpu="1", priority=CRITICAL + 1000)
    assert choose_victims(high, [low], find_shortages(high, [low], {"cpu": "1"})) == [low]


def test_a_pod_without_requests_counts_against_the_number_of_pods():
    others = [other(name, "BestEffort") for name in "abc"]
    critical = requesting("critical", priority=CRITICAL)
    assert len(choose_victims(critical, others, find_shortages(critical, others, CAPACITY))) == 1


def test_no_pod_ends_in_vain():
    critical = requesting("critical", requests={"cpu": "3", "memory": "1Gi"}, priority=CRITICAL)
    others = [other("a", cpu="1")]
    with pytest.raises(NoVictims) as caught:
        choose_victims(critical, others, find_shortages(critical, others, CAPACITY))
    assert str(caught.value) == "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
