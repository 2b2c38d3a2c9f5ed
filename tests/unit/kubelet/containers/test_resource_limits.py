"""Resource limits and OOM scores of containers."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.resource_limits import oom_score_adj, plan_limits, plan_pod_limits
from bridgehead.kubelet.runtimes.runtime import Limits
from tests.unit.kubelet.pod_factory import make_pod

GIB = 1 << 30


def limited(limits=None, requests=None, qos_class="Burstable", **spec):
    resources = {"limits": limits or {}, "requests": requests or {}}
    return make_pod(qos_class=qos_class, containers=[{"name": "app", "resources": resources}], **spec)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (limited(qos_class="BestEffort"), Limits(oom_score_adj=1000)),
        (
            limited({"memory": "1Gi", "cpu": "1500m"}, {"memory": "512Mi", "cpu": "0.25"}),
            Limits(memory=GIB, cpu_millis=1500, cpu_request_millis=250, oom_score_adj=875),
        ),
        (
            limited({"memory": "1Gi", "cpu": 2}, qos_class="Guaranteed"),
            Limits(memory=GIB, cpu_millis=2000, cpu_request_millis=2000, oom_score_adj=-997),
        ),
        (
            limited({"cpu": 2}, resources={"limits": {"memory": "1Gi", "cpu": 4}}),
            Limits(memory=GIB, cpu_millis=2000, cpu_request_millis=2000, oom_score_adj=999),
        ),
        (
            limited(resources={"limits": {"memory": "1Gi", "cpu": 4}}),
            Limits(memory=GIB, cpu_millis=4000, oom_score_adj=999),
        ),
        (limited({"memory": "0", "cpu": "0"}), Limits(oom_score_adj=999)),
        (limited({"cpu": "0.1m"}), Limits(cpu_millis=1, cpu_request_millis=1, oom_score_adj=999)),
    ],
)
def test_limits_follow_requests_and_limits(made, expected):
    assert plan_limits(made, made.spec.containers[0], {"memory": "4Gi"}) == expected


@pytest.mark.parametrize(
    ("made", "score"),
    [
        (limited(requests={"memory": "1"}), 999),
        (limited(requests={"memory": "4Gi"}), 3),
        (limited(requests={"memory": "9Gi"}), 3),
        (limited(qos_class="BestEffort", priorityClassName="system-node-critical"), -997),
    ],
)
def test_oom_scores_match_kubernetes(made, score):
    assert oom_score_adj(made, made.spec.containers[0], 4 * GIB) == score


def test_a_sidecar_has_the_oom_score_of_the_main_containers():
    init = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    made = limited(requests={"memory": "2Gi"}, initContainers=init)
    scores = [oom_score_adj(made, container, 4 * GIB) for container in made.spec.init_containers]
    assert scores == [500, 999]


def test_what_the_pod_as_a_whole_requests_is_divided_among_its_containers():
    whole = {"requests": {"memory": "3Gi"}}
    containers = [{"name": "a", "resources": {"requests": {"memory": "1Gi"}}}, {"name": "b"}]
    made = make_pod(qos_class="Burstable", containers=containers, resources=whole)
    assert [oom_score_adj(made, container, 4 * GIB) for container in made.spec.containers] == [500, 750]


def of(name="app", limits=None, requests=None, **fields):
    return {"name": name, "resources": {"limits": limits or {}, "requests": requests or {}}, **fields}


BOTH = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [of()]}, Limits(pids=9)),
        ({"containers": [of(limits=BOTH)]}, Limits(memory=GIB, cpu_millis=500, pids=9)),
        ({"containers": [of(limits=BOTH), of("b", BOTH)]}, Limits(memory=2 * GIB, cpu_millis=1000, pids=9)),
        (  # A container without a limit may use what the node has, and so may the pod.
            {"containers": [of(limits=BOTH, requests={"cpu": "200m"}), of("b", {"cpu": 1}, {"cpu": 1})]},
            Limits(cpu_millis=1500, cpu_request_millis=1200, pids=9),
        ),
        (
            {
                "containers": [of(limits=BOTH)],
                "initContainers": [of("setup", {"cpu": 4, "memory": "1Mi"}), of("side", BOTH, restartPolicy="Always")],
            },
            Limits(memory=2 * GIB, cpu_millis=4000, pids=9),
        ),
        (
            {"containers": [of(limits=BOTH)], "initContainers": [of("setup", {"cpu": 4})]},
            Limits(cpu_millis=4000, pids=9),
        ),
        (
            {"containers": [of(), of("b", BOTH)], "resources": {"limits": {"memory": "3Gi"}, "requests": {"cpu": 2}}},
            Limits(memory=3 * GIB, cpu_request_millis=2000, pids=9),
        ),
        (
            {"containers": [of(limits=BOTH)], "overhead": {"memory": "1Gi"}},
            Limits(memory=2 * GIB, cpu_millis=500, pids=9),
        ),
    ],
)
def test_limits_of_a_pod_as_a_whole(spec, expected):
    assert plan_pod_limits(make_pod(**spec), 9) == expected
